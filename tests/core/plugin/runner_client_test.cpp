// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The client itself: order, deadlines, pause, use of resources, destruction at any moment.
#include <gmock/gmock.h>

#include <csignal>

#include "goblin/abi/plugin.h"
#include "tests/core/plugin/runner_fixture.hpp"
#include "tests/testing/plugins/faulty_modes.hpp"

namespace goblin::testing {
namespace {

using ::testing::HasSubstr;

class ClientTest : public RunnerFixture {
 protected:
  ClientTest() : memory_(8192) {}
  static wire::RunnerTask task(std::int64_t mode, std::uint32_t segment, std::uint64_t id = 1) {
    wire::RunnerTask task;
    task.id = id;
    task.params = {wire::Value::of(mode)};
    task.inputs = {vector_at(segment, 0, 8)};
    task.outputs = {vector_at(segment, 4096, 8)};
    return task;
  }
  SharedMemory memory_;
};

TEST_F(ClientTest, RequestsOfManyCoroutinesAreAnsweredInOrder) {
  std::vector<std::uint64_t> order;
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    net::Event all(*loop_);
    auto one = [&](std::uint64_t id) -> net::Task<void> {
      const auto done = co_await (*client)->execute(batch(task(kHonest, *segment, id)), kLong);
      CO_ASSERT_TRUE(done);
      order.push_back(done->tasks.at(0).id);
      if (order.size() == 50) {
        all.set();
      }
    };
    for (std::uint64_t id = 0; id < 50; ++id) {
      loop_->spawn(one(id));
    }
    EXPECT_TRUE(co_await all.wait_for(kLong));
  });
  for (std::uint64_t id = 0; id < order.size(); ++id) {
    EXPECT_EQ(order[id], id);
  }
}

TEST_F(ClientTest, ReportsTimeAndMemory) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    const auto done = co_await (*client)->execute(batch(task(kHonest, *segment)), kLong);
    CO_ASSERT_TRUE(done);
    EXPECT_GT(done->peak_bytes, 1u << 20);
    EXPECT_GT(done->cpu_us, 0u);
    const plugin::RunnerUsage usage = (*client)->usage();
    EXPECT_GT(usage.resident_bytes, 1u << 20);
    EXPECT_LT(usage.resident_bytes, 1u << 30);
    (*client)->kill();
    const Error why = co_await (*client)->exited();
    EXPECT_EQ(why.code, Code::kUnavailable);
    EXPECT_EQ((*client)->usage().resident_bytes, 0u);
  });
}

TEST_F(ClientTest, PausedTimeDoesNotCountForDeadlines) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    (*client)->pause();
    net::Event answered(*loop_);
    Result<wire::Executed> done = fail(Code::kInternal, "not run");
    auto work = [&]() -> net::Task<void> {
      done = co_await (*client)->execute(batch(task(kHonest, *segment)), net::Milliseconds(2'000));
      answered.set();
    };
    loop_->spawn(work());
    // Longer than the deadline: a stopped process answers nothing.
    EXPECT_FALSE(co_await answered.wait_for(net::Milliseconds(2'200)));
    EXPECT_TRUE((*client)->alive());
    (*client)->resume();
    EXPECT_TRUE(co_await answered.wait_for(kLong));
    // The 400 ms begin now. A machine that is busy may let them pass; they are counted then.
    if (done) {
      EXPECT_EQ(done->tasks.at(0).status, GOBLIN_OK);
    } else {
      EXPECT_THAT(done.error().message, HasSubstr("did not answer within 400 ms"));
    }
  });
}

TEST_F(ClientTest, AKilledRunnerIsReportedToWhoeverWaits) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    // As the system does when memory runs out.
    ::kill((*client)->pid(), SIGKILL);
    const auto done = co_await (*client)->execute(batch(task(kExecuteHang, *segment)), kLong);
    EXPECT_FALSE(done);
    if (!done) {
      EXPECT_EQ(done.error().code, Code::kExhausted);
      EXPECT_THAT(done.error().message, HasSubstr("ran out of memory"));
    }
    EXPECT_EQ((co_await (*client)->exited()).code, Code::kExhausted);
  });
}

TEST_F(ClientTest, MayBeDestroyedWhileARequestRuns) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    net::Event answered(*loop_);
    Result<wire::Executed> done = fail(Code::kInternal, "not run");
    auto work = [&]() -> net::Task<void> {
      done = co_await (*client)->execute(batch(task(kExecuteHang, *segment)), kLong);
      answered.set();
    };
    loop_->spawn(work());
    EXPECT_FALSE(co_await answered.wait_for(net::Milliseconds(50)));
    client->reset();
    EXPECT_TRUE(co_await answered.wait_for(kLong));
    EXPECT_FALSE(done);
    if (!done) {
      EXPECT_EQ(done.error().code, Code::kUnavailable);
    }
  });
}

TEST_F(ClientTest, ALoopThatStopsLeavesNoRunner) {
  Client client;
  run([&]() -> net::Task<void> {
    auto started = co_await start("faulty", options());
    CO_ASSERT_TRUE(started);
    client = std::move(*started);
  });
  ASSERT_TRUE(client);
  client.reset();
}

}  // namespace
}  // namespace goblin::testing
