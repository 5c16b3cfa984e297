// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/net/reach.hpp"

#include "tests/core/net/net_test.hpp"

namespace goblin::net {
namespace {

TEST(ReachOf, EveryKindOfAddress) {
  const std::vector<std::pair<const char*, Reach>> cases{
      {"127.0.0.1", Reach::kLoopback},
      {"127.255.255.254", Reach::kLoopback},
      {"::1", Reach::kLoopback},
      {"::ffff:127.0.0.1", Reach::kLoopback},
      {"::ffff:7f00:1", Reach::kLoopback},
      {"::127.0.0.1", Reach::kLoopback},
      {"64:ff9b::127.0.0.1", Reach::kLoopback},
      {"2002:7f00:1::1", Reach::kLoopback},
      {"10.0.0.1", Reach::kPrivate},
      {"172.16.0.1", Reach::kPrivate},
      {"172.31.255.255", Reach::kPrivate},
      {"172.32.0.1", Reach::kPublic},
      {"192.168.1.1", Reach::kPrivate},
      {"192.169.1.1", Reach::kPublic},
      {"100.64.0.1", Reach::kPrivate},
      {"100.128.0.1", Reach::kPublic},
      {"::ffff:192.168.1.1", Reach::kPrivate},
      {"::ffff:0:10.1.2.3", Reach::kPrivate},
      {"64:ff9b::a00:1", Reach::kPrivate},
      {"2002:c0a8:101::1", Reach::kPrivate},
      {"fc00::1", Reach::kPrivate},
      {"fdff::1", Reach::kPrivate},
      {"fec0::1", Reach::kPrivate},
      {"169.254.169.254", Reach::kLink},
      {"::ffff:169.254.169.254", Reach::kLink},
      {"fe80::1", Reach::kLink},
      {"fe80::1%eth0", Reach::kLink},
      {"febf::1", Reach::kLink},
      {"224.0.0.1", Reach::kNowhere},
      {"239.255.255.255", Reach::kNowhere},
      {"240.0.0.1", Reach::kNowhere},
      {"255.255.255.255", Reach::kNowhere},
      {"0.0.0.0", Reach::kNowhere},
      {"0.1.2.3", Reach::kNowhere},
      {"::", Reach::kNowhere},
      {"::ffff:0.0.0.0", Reach::kNowhere},
      {"::ffff:224.0.0.1", Reach::kNowhere},
      {"ff02::1", Reach::kNowhere},
      {"2001:0:4136:e378:8000:63bf:3fff:fdd2", Reach::kNowhere},
      {"no address", Reach::kNowhere},
      {"", Reach::kNowhere},
      {"8.8.8.8", Reach::kPublic},
      {"2001:db9::1", Reach::kPublic},
      {"2a00:1450::1", Reach::kPublic},
      {"::ffff:8.8.8.8", Reach::kPublic},
      {"2002:808:808::1", Reach::kPublic},
  };
  for (const auto& [address, reach] : cases) EXPECT_EQ(reach_of(address), reach) << address;
}

TEST_F(NetTest, NothingNarrowerThanTheLimitIsConnectedTo) {
  Scratch scratch;
  const auto identity = *Identity::load_or_create(scratch.file("id"));
  auto listener = *listen_tls(loop(), identity, "::", 0);
  const auto play = [](Loop& loop, std::shared_ptr<const Identity> self, std::string address,
                       std::uint16_t port, std::optional<Reach> least, Code code,
                       std::string words) -> Task<void> {
    ConnectLimits limits;
    limits.least_reach = least;
    auto channel = co_await connect_tls(loop, self, address, port, self->pin(), limits);
    if (code == Code{}) {
      CO_ASSERT_OK(channel);
      co_return;
    }
    expect_error(channel, code, words);
  };
  for (const char* address : {"127.0.0.1", "::1", "::ffff:127.0.0.1", "localhost"}) {
    SCOPED_TRACE(address);
    for (const Reach least : {Reach::kLink, Reach::kPrivate, Reach::kPublic})
      run(play(loop(), identity, address, listener->port(), least, Code::kInvalidArgument,
               "is a loopback address"));
    run(play(loop(), identity, address, listener->port(), Reach::kLoopback, Code{}, ""));
    run(play(loop(), identity, address, listener->port(), std::nullopt, Code{}, ""));
  }
  // Nobody listens there on purpose, however near the coordinator is.
  for (const char* address : {"0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255"}) {
    SCOPED_TRACE(address);
    run(play(loop(), identity, address, listener->port(), Reach::kLoopback, Code::kInvalidArgument,
             "is a multicast or reserved address"));
  }
}

}  // namespace
}  // namespace goblin::net
