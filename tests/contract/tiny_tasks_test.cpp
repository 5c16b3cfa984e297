// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What the benchmarks take for granted of the plugin tiny-tasks, beside the contract of a kind: no
// more tasks in flight than asked for, each stamped when it was planned, and a check that decides.
#include <gtest/gtest.h>

#include <cstring>

#include "hosts/conformance/play.hpp"
#include "tests/contract/contract_setup.hpp"

namespace goblin::test {
namespace {

using conformance::Arena;
using conformance::Computed;
using conformance::offer;
using conformance::Play;
using conformance::Runner;

class TinyTasks : public ::testing::Test {
 protected:
  void begin(std::int64_t tasks, std::int64_t in_flight) {
    auto arena = Arena::create();
    ASSERT_TRUE(arena) << arena.error().message;
    arena_ = std::move(*arena);
    auto runner = Runner::start(setup_of(GOBLIN_TEST_PLUGINS "/tiny-tasks.so"));
    ASSERT_TRUE(runner) << runner.error().message;
    runner_ = std::move(*runner);
    ASSERT_TRUE(runner_->map(*arena_));
    job_.spec.params = {wire::Value::of(tasks), wire::Value::of(in_flight)};
    wire::Validate request;
    request.params = job_.spec.params;
    auto validated = runner_->validate(request);
    ASSERT_TRUE(validated) << validated.error().message;
    ASSERT_EQ(validated->status, GOBLIN_OK) << validated->message;
    job_.validated = *validated;
    play_ = std::make_unique<Play>(job_, *arena_, *runner_, *runner_, random_);
    ASSERT_TRUE(play_->place());
    ASSERT_TRUE(play_->open(host_));
  }
  /// Asks for up to 64 tasks; how many are in flight now.
  std::size_t in_flight() {
    const auto more = play_->next(host_, 64);
    EXPECT_TRUE(more) << more.error().message;
    return play_->pending().size();
  }
  Computed compute(std::uint64_t id) {
    auto task = play_->compute(play_->pending().at(id));
    EXPECT_TRUE(task) << task.error().message;
    return *task;
  }
  void accept(std::uint64_t id) {
    const auto accepted = play_->accept(compute(id));
    ASSERT_TRUE(accepted) << accepted.error().message;
  }
  double stamp(std::size_t i) {
    double value = 0;
    std::memcpy(&value, play_->data(play_->job_outputs().at(1)) + 8 * i, sizeof value);
    return value;
  }

  const wire::Capacity host_ = offer(1 << 20);
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Runner> runner_;
  conformance::Job job_;
  conformance::Random random_{contract_seed()};
  std::unique_ptr<Play> play_;
};

TEST_F(TinyTasks, NoMoreAreInFlightThanAskedFor) {
  begin(20, 3);
  EXPECT_EQ(in_flight(), 3u);
  EXPECT_EQ(in_flight(), 3u);
  const Computed second = compute(1);
  accept(1);
  EXPECT_EQ(in_flight(), 3u);
  // A result that comes in again makes no room.
  ASSERT_TRUE(play_->accept(second));
  EXPECT_EQ(in_flight(), 3u);
  accept(0);
  accept(3);
  EXPECT_EQ(in_flight(), 3u);
  EXPECT_TRUE(play_->pending().contains(5));
}

TEST_F(TinyTasks, ARestartStartsWithNoneInFlight) {
  begin(20, 3);
  EXPECT_EQ(in_flight(), 3u);
  accept(0);
  accept(2);
  ASSERT_TRUE(play_->reopen(*runner_, host_));
  EXPECT_EQ(in_flight(), 3u);
  EXPECT_TRUE(play_->pending().contains(1));
  EXPECT_TRUE(play_->pending().contains(4));
  const auto done = play_->go_on([this] { return host_; });
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(play_->accepted().size(), 20u);
}

TEST_F(TinyTasks, EachIsStampedWhenItIsPlanned) {
  begin(6, 2);
  EXPECT_EQ(in_flight(), 2u);
  EXPECT_GT(stamp(0), 0);
  EXPECT_GE(stamp(1), stamp(0));
  EXPECT_EQ(stamp(2), 0);
  accept(0);
  EXPECT_EQ(in_flight(), 2u);
  EXPECT_GE(stamp(2), stamp(1));
}

TEST_F(TinyTasks, WithoutALimitThereAreNoStamps) {
  begin(30, 0);
  EXPECT_EQ(in_flight(), 30u);
  EXPECT_EQ(job_.validated.outputs.at(1), (wire::TensorSpec{GOBLIN_F64, {0}}));
}

TEST_F(TinyTasks, TheCheckSeesEveryBit) {
  begin(4, 0);
  EXPECT_EQ(in_flight(), 4u);
  const Computed task = compute(3);
  const auto right = play_->check(task, {});
  ASSERT_TRUE(right) << right.error().message;
  EXPECT_TRUE(*right);
  for (unsigned bit = 0; bit < 64; ++bit) {
    std::byte& byte = play_->data(task.outputs.at(0))[bit / 8];
    byte ^= static_cast<std::byte>(1u << bit % 8);
    const auto wrong = play_->check(task, {});
    EXPECT_FALSE(wrong) << "bit " << bit;
    byte ^= static_cast<std::byte>(1u << bit % 8);
  }
}

TEST_F(TinyTasks, ASmallHostIsToldWhatATaskNeeds) {
  begin(4, 0);
  const auto refused = runner_->plan_next({offer(4095), 4});
  ASSERT_TRUE(refused) << refused.error().message;
  EXPECT_EQ(refused->status, std::int32_t{GOBLIN_EXHAUSTED});
  EXPECT_EQ(refused->message, "a task needs 4096 bytes of memory; the host offers 4095");
  EXPECT_EQ(in_flight(), 4u);
}

}  // namespace
}  // namespace goblin::test
