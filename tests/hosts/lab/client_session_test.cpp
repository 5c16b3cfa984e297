// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Clients that ask for too much, or do not listen: they pay for it themselves.
#include "hosts/lab/client_session.hpp"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include "tests/hosts/lab/engine_fixture.hpp"
#include "tests/hosts/lab/gated_staging.hpp"

namespace goblin::lab::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class ClientSessionTest : public EngineFixture {
 protected:
  static constexpr std::uint64_t kLarge = 1 << 20;
  store::Staging& staging() override {
    if (!gated_) {
      gated_ = std::make_unique<GatedStaging>(*staging_, kLarge);
    }
    return *gated_;
  }
  /// A client of its own; the other end is served.
  std::unique_ptr<net::Channel> connect() {
    int pair[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    auto near = net::adopt_unix(*loop_, net::UniqueFd(pair[0]));
    auto far = net::adopt_unix(*loop_, net::UniqueFd(pair[1]));
    EXPECT_TRUE(near && far);
    (*near)->set_state(wire::PeerState::kOpen);
    (*far)->set_state(wire::PeerState::kOpen);
    ClientSession::Daemon daemon;
    daemon.status = [this] {
      ++asked_;
      wire::StatusReport report;
      report.fields.emplace_back("much", std::string(60'000, 'x'));
      return report;
    };
    daemon.control = [](const wire::Control&) -> Result<void> { return {}; };
    loop_->spawn(serve(std::make_shared<ClientSession>(*loop_, *engine_, staging(),
                                                       std::move(daemon), std::move(*far))));
    return std::move(*near);
  }
  net::Task<void> serve(std::shared_ptr<ClientSession> session) {
    ++sessions_;
    co_await session->run();
    --sessions_;
  }
  static net::Frame request(std::uint32_t number, wire::RequestBody body) {
    wire::Request message;
    message.number = number;
    message.body = std::move(body);
    return net::make_frame(wire::FrameType::kRequest, message);
  }
  /// Sends a request and reads one reply.
  static net::Task<Result<wire::Reply>> ask(net::Channel& channel, wire::RequestBody body) {
    net::Frame frame = request(1, std::move(body));
    GOBLIN_CO_TRY_VOID(co_await channel.send(std::move(frame)));
    GOBLIN_CO_TRY(net::Frame answer, co_await channel.receive());
    co_return wire::decode_reply(answer.message);
  }
  net::Task<void> flood(net::Channel& channel, std::uint32_t count, wire::RequestBody body) {
    for (std::uint32_t i = 0; i < count; ++i) {
      net::Frame frame = request(i, body);
      if (const auto sent = co_await channel.send(std::move(frame)); !sent) {
        co_return;
      }
    }
  }

  std::unique_ptr<GatedStaging> gated_;
  std::size_t asked_ = 0;
  int sessions_ = 0;
};

TEST_F(ClientSessionTest, AFloodOfStageRequestsHoldsUpNobodyElse) {
  run([&]() -> net::Task<void> {
    auto greedy = connect();
    auto modest = connect();
    gated_->open_gate(false);
    loop_->spawn(flood(*greedy, 64, wire::Stage{kLarge}));
    CO_ASSERT_UNTIL(gated_->waiting() > 0);
    co_await loop_->sleep(net::Milliseconds(20));
    EXPECT_EQ(gated_->waiting(), 1u) << "one file of a client at a time";
    // The disk still works on the first; another client is served meanwhile.
    const auto staged = co_await ask(*modest, wire::Stage{4096});
    CO_ASSERT(staged);
    EXPECT_EQ(staged->status, GOBLIN_OK) << staged->message;
    const auto status = co_await ask(*modest, wire::GetStatus{});
    CO_ASSERT(status);
    EXPECT_EQ(gated_->waiting(), 1u);
    gated_->open_gate(true);
    greedy->close();
    modest->close();
    CO_ASSERT_UNTIL(sessions_ == 0);
    const auto left = staging_->list();
    CO_ASSERT(left);
    EXPECT_THAT(*left, IsEmpty()) << "what its client did not submit goes with it";
  });
}

TEST_F(ClientSessionTest, OneClientMayNotStageForEver) {
  run([&]() -> net::Task<void> {
    auto client = connect();
    Result<wire::Reply> reply = fail(Code::kInternal, "");
    for (int i = 0; i < 2048; ++i) {
      reply = co_await ask(*client, wire::Stage{8});
      CO_ASSERT(reply && reply->status == GOBLIN_OK);
    }
    reply = co_await ask(*client, wire::Stage{8});
    CO_ASSERT(reply);
    EXPECT_EQ(reply->status, GOBLIN_EXHAUSTED);
    EXPECT_THAT(reply->message, HasSubstr("2048 arrays and submitted none"));
    client->close();
    CO_ASSERT_UNTIL(sessions_ == 0);
    EXPECT_EQ(staging_->used_bytes(), 0u);
  });
}

TEST_F(ClientSessionTest, AClientThatNeverReadsIsNotAnsweredForEver) {
  run([&]() -> net::Task<void> {
    auto deaf = connect();
    constexpr std::uint32_t kMany = 3000;  // replies of 180 MB in all
    bool sent_all = false;
    auto shout = [&]() -> net::Task<void> {
      co_await flood(*deaf, kMany, wire::GetStatus{});
      sent_all = true;
    };
    loop_->spawn(shout());
    CO_ASSERT_UNTIL(asked_ >= 64);
    // Others are served as ever, and what waits for the deaf one stays bounded.
    auto other = connect();
    for (int i = 0; i < 300; ++i) {
      const auto reply = co_await ask(*other, wire::GetJobs{});
      CO_ASSERT(reply && reply->status == GOBLIN_OK);
    }
    // 64 in the queue, 4 MiB in the channel, what the socket takes.
    EXPECT_LT(asked_, 300u);
    EXPECT_EQ(sessions_, 2);
    // It may read after all: nothing is lost.
    for (std::uint32_t i = 0; i < kMany; ++i) {
      auto frame = co_await deaf->receive();
      CO_ASSERT(frame);
      const auto reply = wire::decode_reply(frame->message);
      CO_ASSERT(reply);
      EXPECT_EQ(reply->number, i);
    }
    EXPECT_TRUE(sent_all);
    EXPECT_EQ(asked_, kMany);
    deaf->close();
    other->close();
    CO_ASSERT_UNTIL(sessions_ == 0);
  });
}

}  // namespace
}  // namespace goblin::lab::test
