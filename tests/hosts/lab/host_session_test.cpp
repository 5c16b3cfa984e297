// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A lab node's side of a connection to a host whose every frame the test writes: none that breaks a
// rule costs more than the connection, or the host's part in the job.
#include "hosts/lab/host_session.hpp"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include "tests/hosts/lab/engine_fixture.hpp"

namespace goblin::lab::test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kLength = 5000;

class HostSessionTest : public EngineFixture {
 protected:
  HostSessionTest() { scheduler_config_.first_deadline = 3'600'000'000; }

  /// A host's end of a connection; the other end is served.
  std::unique_ptr<net::Channel> connect() {
    int pair[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    auto near = net::adopt_unix(*loop_, net::UniqueFd(pair[0]));
    auto far = net::adopt_unix(*loop_, net::UniqueFd(pair[1]));
    EXPECT_TRUE(near && far);
    (*near)->set_state(wire::PeerState::kOpen);
    (*far)->set_state(wire::PeerState::kOpen);
    loop_->spawn(serve(
        std::make_shared<HostSession>(*loop_, *engine_, std::move(*far), false, 1, log::Logger())));
    return std::move(*near);
  }
  net::Task<void> serve(std::shared_ptr<HostSession> session) {
    ++sessions_;
    co_await session->run();
    --sessions_;
  }

  /// Reads until a frame of this type comes; fails at the connection's end.
  static net::Task<Result<net::Frame>> next(net::Channel& channel, wire::FrameType type) {
    while (true) {
      auto frame = co_await channel.receive();
      if (!frame || frame->type == type) {
        co_return frame;
      }
    }
  }
  /// Offers itself and waits for its lease.
  static net::Task<Result<wire::Lease>> take_lease(net::Channel& channel) {
    wire::HostOffer offer;
    offer.capacity = capacity();
    offer.state = wire::HostState::kReady;
    net::Frame frame = net::make_frame(wire::FrameType::kHostOffer, offer);
    GOBLIN_CO_TRY_VOID(co_await channel.send(std::move(frame)));
    GOBLIN_CO_TRY(net::Frame leases, co_await next(channel, wire::FrameType::kLeases));
    GOBLIN_CO_TRY(wire::Leases message, wire::decode_leases(leases.message));
    co_return message.leases.at(0);
  }
  static wire::Results right(const wire::Lease& lease) {
    wire::TaskResult result;
    result.lease = lease.lease;
    result.compute_us = 1000;
    wire::TensorRef output;
    output.spec = lease.outputs.at(0);
    output.digest = net::blob_digest(doubled(kLength));
    result.outputs.push_back(output);
    wire::Results results;
    results.results.push_back(std::move(result));
    return results;
  }

  /// With a lease in hand the host sends this. The session must end, nothing be used, and another
  /// host do the work.
  void ends(const std::string& name, const std::function<net::Frame(const wire::Lease&)>& make) {
    SCOPED_TRACE(name);
    run([&]() -> net::Task<void> {
      const auto job = co_await submit_doubling(kLength);
      CO_ASSERT(job);
      const auto channel = connect();
      const auto lease = co_await take_lease(*channel);
      CO_ASSERT(lease);
      net::Frame frame = make(*lease);
      (void)co_await channel->send(std::move(frame));
      CO_ASSERT_UNTIL(sessions_ == 0);
      co_await others_finish(*job);
    });
  }
  net::Task<void> others_finish(std::uint64_t job) {
    EXPECT_EQ(status(job).tasks_accepted, 0u);
    const auto other = join("honest");
    CO_ASSERT_UNTIL(other->leases.size() == 1);
    commit(*other, other->leases[0], doubled(kLength));
    CO_ASSERT_UNTIL(status(job).state == wire::JobState::kDone);
  }

  int sessions_ = 0;
};

TEST_F(HostSessionTest, FramesThatAreNotForALabNodeEndIt) {
  using wire::FrameType;
  for (const FrameType type : {FrameType::kCancelLeases, FrameType::kReleaseResults}) {
    ends("type " + std::to_string(static_cast<int>(type)), [type](const wire::Lease& lease) {
      if (type == FrameType::kCancelLeases) {
        wire::CancelLeases message;
        message.leases = {lease.lease};
        return net::make_frame(type, message);
      }
      wire::ReleaseResults message;
      message.leases = {lease.lease};
      return net::make_frame(type, message);
    });
  }
  ends("a lease", [](const wire::Lease& lease) {
    wire::Leases message;
    message.leases = {lease};
    return net::make_frame(FrameType::kLeases, message);
  });
}

TEST_F(HostSessionTest, MessagesThatAreNoneEndIt) {
  for (const wire::FrameType type :
       {wire::FrameType::kResults, wire::FrameType::kHandBack, wire::FrameType::kHeartbeat,
        wire::FrameType::kHostOffer, wire::FrameType::kBlobGet}) {
    for (const auto fill : {std::byte{0x55}, std::byte{0xff}}) {
      ends("type " + std::to_string(static_cast<int>(type)), [&](const wire::Lease&) {
        net::Frame frame;
        frame.type = type;
        frame.message.assign(64, fill);
        return frame;
      });
    }
  }
}

TEST_F(HostSessionTest, ResultsThatAreCutEndIt) {
  ends("half a message", [](const wire::Lease& lease) {
    const wire::Results results = right(lease);
    net::Frame frame = net::make_frame(wire::FrameType::kResults, results);
    frame.message.resize(frame.message.size() / 16 * 8);
    return frame;
  });
  ends("inline bytes beyond the frame", [](const wire::Lease& lease) {
    wire::Results results = right(lease);
    results.results[0].outputs[0].inline_offset = 8;
    return net::make_frame(wire::FrameType::kResults, results, wire::Bytes(16));
  });
}

/// Frames that nobody asked for about a transfer are ignored or end it; they never become a result.
TEST_F(HostSessionTest, BytesThatNobodyAskedForEndIt) {
  ends("data", [](const wire::Lease&) {
    wire::BlobData data;
    data.stream = 77;
    return net::make_frame(wire::FrameType::kBlobData, data, wire::Bytes(1024));
  });
}

// One network each: who is caught twice gets no work for a while.
class ResultSize : public HostSessionTest, public testing::WithParamInterface<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(All, ResultSize,
                         testing::Values(std::uint64_t{0}, std::uint64_t{kLength * 8 + 1},
                                         std::uint64_t{1} << 40, ~std::uint64_t{0}));

TEST_P(ResultSize, OfAnotherSizeIsRefusedBeforeItsBytesCome) {
  run([&]() -> net::Task<void> {
    const auto job = co_await submit_doubling(kLength);
    CO_ASSERT(job);
    const auto channel = connect();
    const auto lease = co_await take_lease(*channel);
    CO_ASSERT(lease);
    const wire::Results results = right(*lease);
    net::Frame commitment = net::make_frame(wire::FrameType::kResults, results);
    EXPECT_TRUE(co_await channel->send(std::move(commitment)));
    const auto asked = co_await next(*channel, wire::FrameType::kBlobGet);
    CO_ASSERT(asked);
    const auto get = wire::decode_blob_get(asked->message);
    CO_ASSERT(get);
    wire::BlobInfo info;
    info.stream = get->stream;
    info.size = GetParam();
    net::Frame answer = net::make_frame(wire::FrameType::kBlobInfo, info);
    EXPECT_TRUE(co_await channel->send(std::move(answer)));
    CO_ASSERT_UNTIL(status(*job).results_refused == 1);
    co_await others_finish(*job);
    const auto told = co_await engine_->explain(*job);
    CO_ASSERT(told);
    CO_ASSERT(!told->incidents.empty());
    EXPECT_THAT(told->incidents[0].what, HasSubstr("refused"));
    channel->close();
    CO_ASSERT_UNTIL(sessions_ == 0);
  });
}

}  // namespace
}  // namespace goblin::lab::test
