// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Plugins that crash, hang, lie or take all memory while they work: an error that says what
// happened; this process lives and no child is left.
#include <gmock/gmock.h>

#include <atomic>

#include "goblin/abi/plugin.h"
#include "tests/core/plugin/runner_fixture.hpp"
#include "tests/testing/plugins/faulty_modes.hpp"

namespace goblin::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kLength = 8;
constexpr std::uint64_t kOutput = 4096;

class Fault : public RunnerFixture {
 protected:
  Fault() : memory_(8192) {
    for (std::int64_t i = 0; i < kLength; ++i) {
      memory_.as<double>()[i] = static_cast<double>(i) + 0.5;
    }
  }

  static wire::RunnerTask task(std::int64_t mode, std::uint32_t segment) {
    wire::RunnerTask task;
    task.id = 77;
    task.params = {wire::Value::of(mode)};
    task.inputs = {vector_at(segment, 0, kLength)};
    task.outputs = {vector_at(segment, kOutput, kLength)};
    return task;
  }

  /// Executes one task in a fresh runner: the status of the task, or the runner's end.
  Error execute(FaultyMode mode, net::Milliseconds deadline = kLong,
                plugin::RunnerOptions with = options()) {
    Error error{Code::kInternal, "not run"};
    run([&]() -> net::Task<void> {
      auto client = co_await start("faulty", with);
      CO_ASSERT_TRUE(client);
      const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
      CO_ASSERT_TRUE(segment);
      auto done = co_await (*client)->execute(batch(task(mode, *segment)), deadline);
      if (!done) {
        error = done.error();
        EXPECT_FALSE((*client)->alive());
        // The same error for whoever asks next.
        const auto again = co_await (*client)->execute(batch(task(kHonest, *segment)), kLong);
        EXPECT_FALSE(again);
        if (!again) {
          EXPECT_EQ(again.error().message, error.message);
        }
        co_return;
      }
      EXPECT_EQ(done->tasks.size(), 1u);
      EXPECT_EQ(done->tasks[0].id, 77u);
      error = {code_from_status(done->tasks[0].status), done->tasks[0].message};
      if (done->tasks[0].status == GOBLIN_OK) {
        error = {Code::kInternal, "it worked"};
      }
      // A task that fails with a status leaves a runner that works.
      memory_.as<double>(kOutput)[3] = 0;
      const auto honest = co_await (*client)->execute(batch(task(kHonest, *segment)), kLong);
      CO_ASSERT_TRUE(honest);
      EXPECT_EQ(honest->tasks.at(0).status, GOBLIN_OK) << honest->tasks[0].message;
      EXPECT_EQ(memory_.as<double>(kOutput)[3], 7.0);
    });
    return error;
  }

  /// True once a task that hangs or waits is inside the plugin.
  net::Task<bool> computes() {
    const auto end = loop_->now() + kLong;
    const std::atomic_ref first(memory_.as<double>(kOutput)[0]);
    while (first.load() == 0 && loop_->now() < end) {
      co_await loop_->sleep(net::Milliseconds(1));
    }
    co_return first.load() != 0;
  }

  SharedMemory memory_;
};

TEST_F(Fault, CrashNamesTheSignal) {
  const Error error = execute(kExecuteCrash);
  EXPECT_EQ(error.code, Code::kInternal);
  EXPECT_THAT(error.message, AllOf(HasSubstr("crashed"), HasSubstr("signal 11 (Segmentation")));
}

TEST_F(Fault, AbortNamesTheSignal) {
  EXPECT_THAT(execute(kExecuteAbort).message, HasSubstr("signal 6"));
}

TEST_F(Fault, StackOverflowIsACrash) {
  EXPECT_THAT(execute(kExecuteOverflowStack).message, HasSubstr("signal 11"));
}

TEST_F(Fault, HangIsKilledAtTheDeadline) {
  const Error error = execute(kExecuteHang, net::Milliseconds(300));
  EXPECT_EQ(error.code, Code::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("did not answer within 300 ms"));
}

TEST_F(Fault, ExitNamesTheStatus) {
  const Error error = execute(kExecuteExit);
  EXPECT_EQ(error.code, Code::kInternal);
  EXPECT_THAT(error.message, HasSubstr("exit status 0"));
}

TEST_F(Fault, AStatusThatIsNoneOfOursIsThePlugins) {
  const Error error = execute(kExecuteExit3);
  EXPECT_EQ(error.code, Code::kInternal);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("the plugin ended the process"), HasSubstr("exit status 3")));
}

TEST_F(Fault, WhatAPluginPrintsIsHandedOn) {
  run([&]() -> net::Task<void> {
    std::vector<std::string> lines;
    net::Event said(*loop_);
    plugin::RunnerOptions with = options();
    with.output = [&](std::string_view line) {
      lines.emplace_back(line);
      said.set();
    };
    auto client = co_await start("faulty", with);
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    auto done = co_await (*client)->execute(batch(task(kExecutePrint, *segment)), kLong);
    CO_ASSERT_TRUE(done);
    EXPECT_EQ(done->tasks.at(0).status, GOBLIN_OK);
    bool more = true;
    while (more && lines.size() < 2) {  // whole lines are there while the runner lives
      said.reset();
      more = co_await said.wait_for(kLong);
    }
    client->reset();  // the rest has no end of line
    while (more && lines.size() < 3) {
      said.reset();
      more = co_await said.wait_for(kLong);
    }
    EXPECT_THAT(lines, ::testing::UnorderedElementsAre("printed", "said?[31m in red",
                                                       "and more, without an end"));
  });
}

TEST_F(Fault, AThreadThatWritesToAResultAfterItsAnswerEndsItsRunner) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    auto done = co_await (*client)->execute(batch(task(kExecuteWriteOn, *segment)), kLong);
    if (!done) {  // it was so quick that there was no answer either
      EXPECT_EQ(done.error().code, Code::kInternal);
      EXPECT_THAT(done.error().message, HasSubstr("a thread that it left behind"));
      co_return;
    }
    EXPECT_EQ(done->tasks.at(0).status, GOBLIN_OK);
    const double answered = memory_.as<double>(kOutput)[0];
    net::Event ended(*loop_);
    std::optional<Error> why;
    auto watch = [&]() -> net::Task<void> {
      why = co_await (*client)->exited();
      ended.set();
    };
    loop_->spawn(watch());
    const bool gone = co_await ended.wait_for(kLong);
    EXPECT_TRUE(gone) << "it goes on writing";
    if (!gone) {
      client->reset();
      co_await ended.wait();
      co_return;
    }
    EXPECT_EQ(why->code, Code::kInternal);
    EXPECT_THAT(why->message, HasSubstr("a thread that it left behind"));
    EXPECT_EQ(memory_.as<double>(kOutput)[0], answered);
  });
}

TEST_F(Fault, MemoryOfResultsIsUsedAgain) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    for (int i = 0; i < 3; ++i) {
      memory_.as<double>(kOutput)[1] = -1;
      auto done = co_await (*client)->execute(batch(task(kHonest, *segment)), kLong);
      CO_ASSERT_TRUE(done);
      EXPECT_EQ(done->tasks.at(0).status, GOBLIN_OK);
      EXPECT_EQ(memory_.as<double>(kOutput)[1], 2 * memory_.as<double>(0)[1]);
    }
  });
}

TEST_F(Fault, ClosedSocketIsNoticed) {
  const Error error = execute(kExecuteCloseSocket);
  EXPECT_EQ(error.code, Code::kInternal);
  EXPECT_EQ(error.message, "the plugin closed its runner's socket");
}

// The runner, not this process, is the first to see it, when it sends …
TEST_F(Fault, ReplacedSocketIsNoticedByTheAnswer) {
  const Error error = execute(kExecuteReplaceSocket);
  EXPECT_EQ(error.code, Code::kInternal);
  EXPECT_EQ(error.message, "the plugin closed its runner's socket");
}

// … and when it reads.
TEST_F(Fault, ClosedSocketIsNoticedByTheReader) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    net::Event ended(*loop_);
    Result<wire::Executed> done = fail(Code::kInternal, "not run");
    auto work = [&]() -> net::Task<void> {
      const wire::Execute closes = batch(task(kExecuteCloseSocketUnseen, *segment));
      done = co_await (*client)->execute(closes, kLong);
      ended.set();
    };
    net::Task<void> running = work();
    running.start();
    // A thread that is inside recvmsg goes on reading what was closed, until it has a frame. What
    // comes before the plugin has closed the socket changes nothing: go on until it has.
    bool stopped = co_await ended.wait_for(net::Milliseconds(5));
    while (!stopped) {
      std::vector<std::uint32_t> none{*segment + 1};
      (void)co_await (*client)->unmap(std::move(none));
      stopped = co_await ended.wait_for(net::Milliseconds(5));
    }
    EXPECT_FALSE(done);
    if (!done) {
      EXPECT_EQ(done.error().code, Code::kInternal);
      EXPECT_EQ(done.error().message, "the plugin closed its runner's socket");
    }
  });
}

TEST_F(Fault, ForgedAnswerIsCorrupt) {
  EXPECT_EQ(execute(kExecuteForgeAnswer).code, Code::kCorrupt);
}

TEST_F(Fault, ExceptionsBecomeStatuses) {
  EXPECT_EQ(execute(kExecuteThrow).message, "thrown by execute");
  EXPECT_THAT(execute(kExecuteThrowInt).message, HasSubstr("no std::exception"));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(Fault, MemoryOverTheCapIsExhaustedAndTheRunnerLives) {
  plugin::RunnerOptions with = options();
  with.memory_bytes = 256u << 20;
  const Error error = execute(kExecuteTake16GiB, kLong, with);
  EXPECT_EQ(error.code, Code::kExhausted);
  EXPECT_THAT(error.message, HasSubstr("out of memory"));
}

TEST_F(Fault, MallocNobodyCheckedIsACrashNotOurs) {
  plugin::RunnerOptions with = options();
  with.memory_bytes = 256u << 20;
  EXPECT_THAT(execute(kExecuteMallocUnchecked, kLong, with).message, HasSubstr("signal 11"));
}
#endif

TEST_F(Fault, NothingOfTheDaemonIsVisibleInside) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    // One task spoils the floating-point environment, the next one must not see it.
    wire::Execute two = batch(task(kExecuteFlushSubnormals, *segment));
    two.tasks.push_back(task(kExecuteProbe, *segment));
    auto done = co_await (*client)->execute(two, kLong);
    CO_ASSERT_TRUE(done);
    EXPECT_EQ(memory_.as<double>(kOutput)[0], 1) << "subnormals are flushed";
    // stdin, stdout, stderr and socket.
    EXPECT_LE(memory_.as<double>(kOutput)[1], 4);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_EQ(memory_.as<double>(kOutput)[2], 1) << "more than LC_ALL in the environment";
#endif
  });
}

TEST_F(Fault, WhatMayBeReadCannotBeMadeWritable) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    const SharedMemory input(4096);  // open for writing, too
    const auto read = co_await (*client)->map(input.fd(), input.size(), false);
    CO_ASSERT_TRUE(read);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    wire::RunnerTask unlock = task(kExecuteUnlock, *segment);
    unlock.inputs = {vector_at(*read, 0, kLength)};
    const wire::Execute request = batch(std::move(unlock));
    const auto done = co_await (*client)->execute(request, kLong);
    CO_ASSERT_TRUE(done);
    EXPECT_EQ(done->tasks.at(0).status, GOBLIN_OK) << done->tasks[0].message;
    EXPECT_EQ(memory_.as<double>(kOutput)[0], EACCES);
  });
}

TEST_F(Fault, CancelStopsTheRunningTaskAndThoseBehindIt) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    net::Event running(*loop_);
    Result<wire::Executed> done = fail(Code::kInternal, "not run");
    auto work = [&]() -> net::Task<void> {
      wire::Execute two = batch(task(kExecuteWaitForCancel, *segment));
      two.tasks.push_back(task(kHonest, *segment));
      done = co_await (*client)->execute(two, kLong);
      running.set();
    };
    loop_->spawn(work());
    const bool began = co_await computes();
    EXPECT_TRUE(began);
    (*client)->cancel_work();
    const bool stopped = co_await running.wait_for(kLong);
    EXPECT_TRUE(stopped);
    CO_ASSERT_TRUE(done);
    EXPECT_EQ(done->tasks.at(0).status, GOBLIN_CANCELLED);
    EXPECT_EQ(done->tasks.at(0).message, "stopped as asked");
    EXPECT_EQ(done->tasks.at(1).status, GOBLIN_CANCELLED);
    // A cancellation does not reach what comes after it.
    const auto later = co_await (*client)->execute(batch(task(kHonest, *segment)), kLong);
    CO_ASSERT_TRUE(later);
    EXPECT_EQ(later->tasks.at(0).status, GOBLIN_OK);
  });
}

TEST_F(Fault, ARequestThatDoesNotStopWhenToldToIsKilledAfterTheGrace) {
  // Told before the runner has the request and afterwards.
  for (const bool early : {true, false}) {
    run([&]() -> net::Task<void> {
      auto client = co_await start("faulty", options());
      CO_ASSERT_TRUE(client);
      const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
      CO_ASSERT_TRUE(segment);
      net::Event ended(*loop_);
      Result<wire::Executed> done = fail(Code::kInternal, "not run");
      auto work = [&]() -> net::Task<void> {
        const wire::Execute hangs = batch(task(kExecuteHang, *segment));
        done = co_await (*client)->execute(hangs, net::Milliseconds(3'600'000));
        ended.set();
      };
      net::Task<void> running = work();
      memory_.as<double>(kOutput)[0] = 0;
      running.start();
      if (!early) {
        const bool began = co_await computes();
        EXPECT_TRUE(began);
      }
      (*client)->cancel_work(net::Milliseconds(100));
      EXPECT_TRUE(co_await ended.wait_for(kLong));
      if (done) {  // told before the plugin was called
        EXPECT_TRUE(early);
        EXPECT_EQ(done->tasks.at(0).status, GOBLIN_CANCELLED);
      } else {
        EXPECT_EQ(done.error().code, Code::kUnavailable);
        EXPECT_THAT(done.error().message, HasSubstr("within 100 ms after it was told to stop"));
      }
    });
  }
}

TEST_F(Fault, AGraceKillsNobodyWhoStops) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    net::Event ended(*loop_);
    Result<wire::Executed> done = fail(Code::kInternal, "not run");
    auto work = [&]() -> net::Task<void> {
      const wire::Execute waits = batch(task(kExecuteWaitForCancel, *segment));
      done = co_await (*client)->execute(waits, kLong);
      ended.set();
    };
    net::Task<void> running = work();
    running.start();
    (*client)->cancel_work(net::Milliseconds(10'000));
    EXPECT_TRUE(co_await ended.wait_for(kLong));
    CO_ASSERT_TRUE(done);
    EXPECT_EQ(done->tasks.at(0).status, GOBLIN_CANCELLED);
    const auto later = co_await (*client)->execute(batch(task(kHonest, *segment)), kLong);
    CO_ASSERT_TRUE(later);
    EXPECT_EQ(later->tasks.at(0).status, GOBLIN_OK);
  });
}

TEST_F(Fault, TensorsThatLeaveTheirSegmentNeverReachThePlugin) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    const auto read_only = co_await (*client)->map(memory_.fd(), memory_.size(), false);
    CO_ASSERT_TRUE(read_only);
    const auto too_long = co_await (*client)->map(memory_.fd(), 1 << 20, true);
    CO_ASSERT_TRUE(too_long);
    std::vector<std::pair<wire::RunnerTask, std::string>> cases;
    auto add = [&](const std::string& says) -> wire::RunnerTask& {
      cases.emplace_back(task(kHonest, *segment), says);
      return cases.back().first;
    };
    add("leaves segment").inputs[0].offset = 8192 - 8;
    add("leaves segment").inputs[0].offset = UINT64_MAX - 7;
    add("leaves segment").inputs[0].shape = {std::int64_t{1} << 40};
    add("row-major").inputs[0].offset = 56;
    cases.back().first.inputs[0].strides = {-8};
    add("row-major").inputs[0].strides = {16};
    add("no multiple").inputs[0].strides = {4};
    add("no multiple").inputs[0].offset = 4;
    add("read only").outputs[0].segment = *read_only;
    add("not mapped").inputs[0].segment = 4000;
    add("has 8192 bytes, not 1048576").inputs[0].segment = *too_long;
    add("there are 0").params.clear();
    add("output 0 is missing").outputs.clear();
    add("2 kinds").kind = 1;
    cases.back().second = "number 1 was asked for";
    wire::Execute request;
    for (const auto& [one, says] : cases) {
      request.tasks.push_back(one);
    }
    const auto done = co_await (*client)->execute(request, kLong);
    CO_ASSERT_TRUE(done);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto& got = done->tasks.at(i);
      EXPECT_NE(got.status, GOBLIN_OK) << i;
      EXPECT_THAT(got.message, HasSubstr(cases[i].second)) << i;
    }
    // And what is right is computed.
    const auto honest = co_await (*client)->execute(batch(task(kHonest, *segment)), kLong);
    CO_ASSERT_TRUE(honest);
    EXPECT_EQ(honest->tasks.at(0).status, GOBLIN_OK);
  });
}

}  // namespace
}  // namespace goblin::testing
