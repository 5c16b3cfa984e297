// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "net_test.hpp"

namespace goblin::net {
namespace {

using wire::FrameType;

Task<Result<wire::Hello>> greet_any(Loop& loop, Channel& channel, wire::Refusal answer,
                                    Milliseconds deadline = Milliseconds(5000)) {
  return greet_client(
      loop, channel, wire::Role::kLab, [answer](const Peer&, const wire::Hello&) { return answer; },
      deadline);
}

TEST_F(NetTest, GreetingOpensBothSides) {
  run([](NetTest& test) -> Task<void> {
    Pair pair = test.unix_pair();
    pair.a->set_state(wire::PeerState::kGreeting);
    pair.b->set_state(wire::PeerState::kGreeting);
    Task<Result<wire::Hello>> serving = greet_any(test.loop(), *pair.b, wire::Refusal::kNone);
    serving.start();
    auto welcome = co_await greet_server(test.loop(), *pair.a, wire::Role::kHost);
    CO_ASSERT_OK(welcome);
    EXPECT_EQ(welcome->role, wire::Role::kLab);
    EXPECT_EQ(welcome->protocol, wire::kProtocol);
    auto hello = co_await serving;
    CO_ASSERT_OK(hello);
    EXPECT_EQ(hello->role, wire::Role::kHost);
    auto sent = co_await pair.a->send(data_frame(1, {}));
    CO_ASSERT_OK(sent);
    auto frame = co_await pair.b->receive();
    CO_ASSERT_OK(frame);
  }(*this));
}

struct Refused {
  wire::Refusal refusal;
  Code code;
  const char* there;  ///< what the refused side reads
  const char* here;   ///< what the refusing side reads
};

TEST_F(NetTest, RefusalsSayWhatToDo) {
  const std::vector<Refused> cases{
      {wire::Refusal::kNotAuthorised, Code::kInvalidArgument, "ask its operator", "not authorised"},
      {wire::Refusal::kWrongRole, Code::kInvalidArgument, "check the address", "no business here"},
      {wire::Refusal::kBusy, Code::kUnavailable, "busy: try again", "turned away"},
      {wire::Refusal::kShuttingDown, Code::kUnavailable, "shutting down", "turned away"},
  };
  for (const Refused& refused : cases) {
    run([](NetTest& test, Refused expected) -> Task<void> {
      Pair pair = test.unix_pair();
      pair.a->set_state(wire::PeerState::kGreeting);
      pair.b->set_state(wire::PeerState::kGreeting);
      Task<Result<wire::Hello>> serving = greet_any(test.loop(), *pair.b, expected.refusal);
      serving.start();
      auto welcome = co_await greet_server(test.loop(), *pair.a, wire::Role::kHost);
      expect_error(welcome, expected.code, expected.there);
      auto hello = co_await serving;
      expect_error(hello, expected.code, expected.here);
      EXPECT_FALSE(pair.a->is_open());
      EXPECT_FALSE(pair.b->is_open());
    }(*this, refused));
  }
}

TEST_F(NetTest, VersionsThatDoNotMeetNameTheSideToUpgrade) {
  struct Versions {
    std::uint16_t min, max;
    const char* here;
    wire::Refusal refusal;
    const char* there;
  };
  for (const Versions& versions :
       {Versions{0, 0, "upgrade the host at local", wire::Refusal::kProtocolTooOld,
                 "upgrade this side"},
        Versions{7, 9, "upgrade this side", wire::Refusal::kProtocolTooNew,
                 "upgrade the lab node at local"}}) {
    run([](NetTest& test, Versions v) -> Task<void> {
      // The accepting side, against a peer with other versions.
      Pair pair = test.unix_pair();
      pair.a->set_state(wire::PeerState::kGreeting);
      pair.b->set_state(wire::PeerState::kGreeting);
      wire::Hello hello;
      hello.protocol_min = v.min;
      hello.protocol_max = v.max;
      hello.release = 0x000203;
      auto sent = co_await pair.a->send(make_frame(FrameType::kHello, hello));
      CO_ASSERT_OK(sent);
      auto served = co_await greet_any(test.loop(), *pair.b, wire::Refusal::kNone);
      expect_error(served, Code::kUnsupported, v.here);
      expect_error(served, Code::kUnsupported, "0.2.3");
      auto answer = co_await pair.a->receive();
      CO_ASSERT_OK(answer);
      auto welcome = wire::decode_welcome(answer->message);
      CO_ASSERT_OK(welcome);
      EXPECT_EQ(welcome->refusal, v.refusal);
      EXPECT_EQ(welcome->protocol, wire::kProtocol);
      // The connecting side, against a server that answers so.
      Pair other = test.unix_pair();
      other.a->set_state(wire::PeerState::kGreeting);
      other.b->set_state(wire::PeerState::kGreeting);
      auto answered = co_await other.b->send(make_frame(FrameType::kWelcome, *welcome));
      CO_ASSERT_OK(answered);
      auto refused = co_await greet_server(test.loop(), *other.a, wire::Role::kHost);
      expect_error(refused, Code::kUnsupported, v.there);
    }(*this, versions));
  }
}

TEST_F(NetTest, GreetingsThatAreNone) {
  run([](NetTest& test) -> Task<void> {
    {
      Pair pair = test.unix_pair();
      pair.b->set_state(wire::PeerState::kGreeting);
      auto silent =
          co_await greet_any(test.loop(), *pair.b, wire::Refusal::kNone, Milliseconds(10));
      expect_error(silent, Code::kUnavailable, "within 10 ms");
      EXPECT_FALSE(pair.b->is_open());
    }
    {
      Pair pair = test.unix_pair();
      pair.b->set_state(wire::PeerState::kGreeting);
      auto sent = co_await pair.a->send(data_frame(1, {}));
      CO_ASSERT_OK(sent);
      auto early = co_await greet_any(test.loop(), *pair.b, wire::Refusal::kNone);
      expect_error(early, Code::kCorrupt, "before the greeting");
    }
    {
      Pair pair = test.unix_pair();
      pair.a->set_state(wire::PeerState::kGreeting);
      pair.b->set_state(wire::PeerState::kGreeting);
      auto sent = co_await pair.a->send(make_frame(FrameType::kWelcome, wire::Welcome{}));
      CO_ASSERT_OK(sent);
      auto wrong = co_await greet_any(test.loop(), *pair.b, wire::Refusal::kNone);
      expect_error(wrong, Code::kCorrupt, "frame type 2");
    }
    {
      Pair pair = test.unix_pair();
      pair.a->set_state(wire::PeerState::kGreeting);
      pair.b->set_state(wire::PeerState::kGreeting);
      auto sent = co_await pair.a->send(Frame(FrameType::kHello, wire::Bytes(64)));
      CO_ASSERT_OK(sent);
      auto garbage = co_await greet_any(test.loop(), *pair.b, wire::Refusal::kNone);
      EXPECT_FALSE(pair.b->is_open());
      expect_error(garbage, Code::kCorrupt, "");
    }
    {
      // A server that chooses a protocol nobody offered.
      Pair pair = test.unix_pair();
      pair.a->set_state(wire::PeerState::kGreeting);
      pair.b->set_state(wire::PeerState::kGreeting);
      wire::Welcome welcome;
      welcome.protocol = 77;
      auto sent = co_await pair.b->send(make_frame(FrameType::kWelcome, welcome));
      CO_ASSERT_OK(sent);
      auto chosen = co_await greet_server(test.loop(), *pair.a, wire::Role::kHost);
      expect_error(chosen, Code::kCorrupt, "protocol 77");
    }
  }(*this));
}

}  // namespace
}  // namespace goblin::net
