// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Turns of clients: bounded, in rotation, never lost.
#include "hosts/lab/turns.hpp"

#include <gmock/gmock.h>

#include <string>

namespace goblin::lab {
namespace {

using testing::ElementsAre;

class TurnsTest : public testing::Test {
 protected:
  /// Takes a turn, notes it and keeps it until let_go(name).
  net::Task<void> hold(Turns& turns, const void* client, std::string name) {
    const auto turn = co_await turns.take(client);
    order_.push_back(name);
    net::Event& end = *ends_.emplace(name, std::make_unique<net::Event>(*loop_)).first->second;
    co_await end.wait();
  }
  void let_go(const std::string& name) {
    ASSERT_TRUE(ends_.contains(name)) << name;
    ends_[name]->set();
  }
  /// Long enough for everything that can run to have run.
  net::Task<void> settle() {
    for (int i = 0; i < 20; ++i) {
      co_await loop_->sleep(net::Milliseconds(0));
    }
  }
  void run(const std::function<net::Task<void>()>& body) {
    loop_->spawn(play(body));
    loop_->run();
  }
  net::Task<void> play(std::function<net::Task<void>()> body) {
    co_await body();
    loop_->stop();
  }

  std::unique_ptr<net::Loop> loop_ = std::move(*net::Loop::create(1));
  std::vector<std::string> order_;
  std::map<std::string, std::unique_ptr<net::Event>> ends_;
  int a_ = 0, b_ = 0, c_ = 0;
};

TEST_F(TurnsTest, AFloodOfOneClientLeavesRoomForOthers) {
  Turns turns(*loop_, 2, 1);
  run([&]() -> net::Task<void> {
    for (int i = 0; i < 50; ++i) {
      loop_->spawn(hold(turns, &a_, "a" + std::to_string(i)));
    }
    co_await settle();
    EXPECT_THAT(order_, ElementsAre("a0")) << "one client has one turn";
    loop_->spawn(hold(turns, &b_, "b0"));
    loop_->spawn(hold(turns, &b_, "b1"));
    loop_->spawn(hold(turns, &c_, "c0"));
    co_await settle();
    EXPECT_THAT(order_, ElementsAre("a0", "b0")) << "two turns at once";
    let_go("a0");
    co_await settle();
    EXPECT_THAT(order_, ElementsAre("a0", "b0", "a1"));
    let_go("a1");
    co_await settle();
    EXPECT_THAT(order_, ElementsAre("a0", "b0", "a1", "c0")) << "before a's third of fifty";
    let_go("c0");
    co_await settle();
    EXPECT_THAT(order_, ElementsAre("a0", "b0", "a1", "c0", "a2"));
    let_go("b0");
    co_await settle();
    EXPECT_THAT(order_, ElementsAre("a0", "b0", "a1", "c0", "a2", "b1"));
    EXPECT_EQ(turns.under_way(), 2u);
    for (int i = 2; i < 50; ++i) {
      let_go("a" + std::to_string(i));
      co_await settle();
    }
    let_go("b1");
    co_await settle();
    EXPECT_EQ(order_.size(), 53u);
    EXPECT_EQ(turns.under_way(), 0u);
  });
}

TEST_F(TurnsTest, WhoGoesAwayWhileWaitingIsPassedOver) {
  Turns turns(*loop_, 1, 1);
  run([&]() -> net::Task<void> {
    loop_->spawn(hold(turns, &a_, "a"));
    co_await settle();
    {
      auto waits = hold(turns, &b_, "b");
      waits.start();
      auto granted = hold(turns, &c_, "c");
      granted.start();
      co_await settle();
      EXPECT_EQ(order_.size(), 1u);
    }
    {
      auto called = hold(turns, &b_, "never");
      called.start();
      let_go("a");
      co_await loop_->sleep(net::Milliseconds(0));
    }
    co_await settle();
    EXPECT_EQ(turns.under_way(), 0u);
    loop_->spawn(hold(turns, &b_, "d"));
    co_await settle();
    EXPECT_EQ(order_.back(), "d");
    let_go("d");
    co_await settle();
  });
}

}  // namespace
}  // namespace goblin::lab
