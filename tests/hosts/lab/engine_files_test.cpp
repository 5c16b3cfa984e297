// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Files of jobs in the engine: made and removed beside the loop, given back when nobody uses them.
#include <fcntl.h>
#include <gmock/gmock.h>

#include "tests/hosts/lab/engine_fixture.hpp"
#include "tests/hosts/lab/gated_staging.hpp"

namespace goblin::lab::test {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class EngineFilesTest : public EngineFixture {
 protected:
  static constexpr std::int64_t kLength = (1 << 19) + 64;  // more than a file of small results has
  store::Staging& staging() override {
    if (!gated_) {
      gated_ = std::make_unique<GatedStaging>(*staging_, kLength * sizeof(double));
      gated_->unopened = unopened_;
    }
    return *gated_;
  }
  std::vector<std::uint64_t> staged_files() const {
    auto list = staging_->list();
    EXPECT_TRUE(list);
    return *list;
  }
  std::unique_ptr<GatedStaging> gated_;
  int unopened_ = 0;
};

/// After a restart there are no descriptors for a while.
TEST_F(EngineFilesTest, AJobWhoseFilesCannotBeOpenedAfterARestartTriesAgain) {
  std::uint64_t number = 0;
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    wire::Submit body;
    body.kind = "faulty";
    body.inputs.push_back(co_await vector(8));
    const auto job = co_await send(std::move(body));
    CO_ASSERT(job);
    number = *job;
    CO_ASSERT_UNTIL(!host->leases.empty());
  });
  gated_.reset();
  unopened_ = 3;
  retry_ms_ = 50;
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    CO_ASSERT_UNTIL(status(number).message.find("too many open files") != std::string::npos);
    EXPECT_EQ(status(number).state, wire::JobState::kQueued);
    CO_ASSERT_UNTIL(!host->leases.empty());
    EXPECT_EQ(status(number).message, "");
  });
}

/// While a file is allocated or removed, for as long as that takes, hosts are listened to.
TEST_F(EngineFilesTest, LargeFilesDoNotHoldUpTheLoop) {
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    auto input = co_await vector(kLength);
    gated_->open_gate(false);
    Result<std::uint64_t> job = fail(Code::kInternal, "not submitted");
    auto submit = [&]() -> net::Task<void> {
      wire::Submit body;
      body.kind = "faulty";
      body.inputs.push_back(input);
      job = co_await send(std::move(body));
    };
    loop_->spawn(submit());
    CO_ASSERT_UNTIL(gated_->waiting() == 1);
    for (int i = 0; i < 10; ++i) {
      engine_->heartbeat(host->id, {});
      co_await loop_->sleep(net::Milliseconds(0));
    }
    EXPECT_EQ(gated_->waiting(), 1u) << "ten turns of the loop went by meanwhile";
    EXPECT_FALSE(job);
    gated_->open_gate(true);
    CO_ASSERT_UNTIL(bool(job));
    CO_ASSERT_UNTIL(!host->leases.empty());

    gated_->open_gate(false);
    bool cancelled = false;
    auto cancel = [&]() -> net::Task<void> {
      EXPECT_TRUE(co_await engine_->cancel(*job));
      cancelled = true;
    };
    loop_->spawn(cancel());
    CO_ASSERT_UNTIL(gated_->waiting() == 1);
    co_await loop_->sleep(net::Milliseconds(0));
    EXPECT_FALSE(cancelled);
    gated_->open_gate(true);
    CO_ASSERT_UNTIL(cancelled);
    EXPECT_THAT(staged_files(), IsEmpty());
    EXPECT_THAT(gated_->threads(), Not(Contains(std::this_thread::get_id())));
    EXPECT_THAT(gated_->threads(), SizeIs(4)) << "input and output made, both removed";
  });
}

TEST_F(EngineFilesTest, WhatIsStagedAndNeverSubmittedGoes) {
  stage_keep_ms_ = 200;
  run([&]() -> net::Task<void> {
    const auto file = co_await engine_->stage(4096);
    CO_ASSERT(file);
    EXPECT_TRUE(engine_->is_staged(file->number));
    EXPECT_THAT(staged_files(), SizeIs(1));
    const auto host = join("a");
    // What is submitted in time stays; a busy machine may be too late for that.
    Result<std::uint64_t> job = fail(Code::kInternal, "not submitted");
    for (int tries = 0; tries < 100 && !job; ++tries) {
      job = co_await submit_doubling(100);
    }
    CO_ASSERT(job);
    CO_ASSERT_UNTIL(!engine_->is_staged(file->number));
    CO_ASSERT_UNTIL(!host->leases.empty());
    CO_ASSERT_UNTIL(staged_files().size() == 2);
    commit(*host, host->leases[0], doubled(100));
    CO_ASSERT_UNTIL(status(*job).state == wire::JobState::kDone);
  });
}

TEST_F(EngineFilesTest, ARepeatedSubmissionKeepsNoCopies) {
  run([&]() -> net::Task<void> {
    wire::Submit first;
    first.kind = "faulty";
    first.token[3] = 7;
    first.inputs.push_back(co_await vector(100));
    wire::Submit second = first;
    second.inputs[0] = co_await vector(100);
    std::vector<net::UniqueFd> none;
    // At the same time: neither sees the other's job before it is journalled.
    std::uint64_t numbers[2] = {0, 0};
    auto submit = [&](wire::Submit body, int which) -> net::Task<void> {
      std::vector<net::UniqueFd> no_files;
      auto reply = co_await engine_->submit(std::move(body), std::move(no_files));
      CO_ASSERT(reply);
      numbers[which] = std::get<wire::JobStatus>(*reply).job;
    };
    loop_->spawn(submit(first, 0));
    loop_->spawn(submit(second, 1));
    CO_ASSERT_UNTIL(numbers[0] != 0 && numbers[1] != 0);
    EXPECT_EQ(numbers[0], numbers[1]);
    EXPECT_THAT(staged_files(), SizeIs(2)) << "the input and the output of one job";
  });
}

/// A client whose connection was lost says it again while the first copy is still under way.
TEST_F(EngineFilesTest, ARepeatedSubmissionDoesNotConflictWithItsFirstCopy) {
  const std::string path = dir_.path() + "/y.bin";
  run([&]() -> net::Task<void> {
    wire::Submit body;
    body.kind = "faulty";
    body.token[3] = 7;
    body.inputs.push_back(co_await vector(100));
    body.outputs.push_back({"y", 0, path, 0});
    std::uint64_t numbers[3] = {0, 0, 0};
    auto submit = [&](wire::Submit copy, int which) -> net::Task<void> {
      std::vector<net::UniqueFd> fds;
      fds.emplace_back(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
      auto reply = co_await engine_->submit(std::move(copy), std::move(fds));
      if (!reply) {
        ADD_FAILURE() << reply.error().message;
        co_return;
      }
      numbers[which] = std::get<wire::JobStatus>(*reply).job;
    };
    loop_->spawn(submit(body, 0));
    loop_->spawn(submit(body, 1));
    CO_ASSERT_UNTIL(numbers[0] != 0 && numbers[1] != 0);
    co_await submit(body, 2);
    EXPECT_EQ(numbers[0], numbers[1]);
    EXPECT_EQ(numbers[0], numbers[2]);
    // Another job must not write there.
    body.token[3] = 8;
    std::vector<net::UniqueFd> fds;
    fds.emplace_back(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    body.inputs[0] = co_await vector(100);
    const auto other = co_await engine_->submit(std::move(body), std::move(fds));
    CO_ASSERT(!other);
    EXPECT_EQ(other.error().code, Code::kInvalidArgument);
  });
}

/// However many large files are made and removed at once, the journal finds a worker.
TEST_F(EngineFilesTest, LargeFilesLeaveWorkersForTheJournal) {
  constexpr std::size_t kMany = 6;  // more than the loop has workers
  scheduler_config_.straggler_floor = scheduler::Micros{60'000'000};  // one lease a job
  run([&]() -> net::Task<void> {
    std::vector<std::shared_ptr<FakeHost>> hosts;
    for (std::size_t i = 0; i < kMany; ++i) {
      hosts.push_back(join("host " + std::to_string(i)));
    }
    const auto leases = [&] {
      std::size_t count = 0;
      for (const auto& host : hosts) {
        count += host->leases.size();
      }
      return count;
    };
    /// Whoever has the one task of a job delivers it.
    const auto finish = [&](std::uint64_t job) {
      for (const auto& host : hosts) {
        for (const auto& lease : host->leases) {
          if (lease.job == job) {
            commit(*host, lease, doubled(lease.outputs.at(0).shape.at(0)));
          }
        }
      }
    };
    /// Journalled, though files are under way.
    const auto accepted = [&](std::uint64_t job) { return status(job).tasks_accepted == 1; };
    std::vector<wire::Submit> bodies(kMany);
    for (auto& body : bodies) {
      body.kind = "faulty";
      body.inputs.push_back(co_await vector(kLength));
    }
    std::vector<std::uint64_t> small;
    for (std::int64_t length = 100; length < 103; ++length) {
      const auto job = co_await submit_doubling(length);
      CO_ASSERT(job);
      small.push_back(*job);
    }
    CO_ASSERT_UNTIL(leases() == 3);

    gated_->open_gate(false);
    std::vector<std::uint64_t> jobs;
    auto submit = [&](wire::Submit body) -> net::Task<void> {
      const auto job = co_await send(std::move(body));
      EXPECT_TRUE(job);
      jobs.push_back(job ? *job : 0);
    };
    for (auto& body : bodies) {
      loop_->spawn(submit(std::move(body)));
    }
    CO_ASSERT_UNTIL(gated_->waiting() == 2);
    finish(small[0]);
    CO_ASSERT_UNTIL(accepted(small[0]));
    EXPECT_EQ(gated_->waiting(), 2u) << "outputs are made";
    EXPECT_TRUE(jobs.empty());
    gated_->open_gate(true);
    CO_ASSERT_UNTIL(jobs.size() == kMany && leases() == 3 + kMany);

    gated_->open_gate(false);
    for (const auto job : jobs) {
      finish(job);
    }
    CO_ASSERT_UNTIL(gated_->waiting() == 2);
    finish(small[1]);
    CO_ASSERT_UNTIL(accepted(small[1]));
    EXPECT_EQ(gated_->waiting(), 2u) << "files for results are made";
    gated_->open_gate(true);
    CO_ASSERT_UNTIL(engine_->running_jobs() == 1);
    for (const auto job : jobs) {
      CO_ASSERT_UNTIL(status(job).state == wire::JobState::kDone);
    }

    gated_->open_gate(false);
    std::size_t forgotten = 0;
    auto forget = [&](std::uint64_t job) -> net::Task<void> {
      EXPECT_TRUE(co_await engine_->forget(job));
      ++forgotten;
    };
    for (const auto job : jobs) {
      loop_->spawn(forget(job));
    }
    CO_ASSERT_UNTIL(gated_->waiting() == 1);
    finish(small[2]);
    CO_ASSERT_UNTIL(accepted(small[2]));
    EXPECT_EQ(gated_->waiting(), 1u) << "outputs are removed";
    EXPECT_EQ(forgotten, 0u);
    gated_->open_gate(true);
    CO_ASSERT_UNTIL(forgotten == kMany);
  });
}

}  // namespace
}  // namespace goblin::lab::test
