// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Leases that end at bad moments, pauses between requests, lab nodes that take too much.
#include "tests/hosts/volunteer/work_fixture.hpp"

namespace goblin::volunteer::test {
namespace {

using ::testing::ElementsAre;

/// Keeps the result of one lease from being sent for an hour.
class HoldBack final : public ResultFilter {
 public:
  explicit HoldBack(std::uint64_t lease) : lease_(lease) {}
  net::Milliseconds apply(Computed result) override {
    return net::Milliseconds(result.lease.lease == lease_ ? 3'600'000 : 0);
  }
  void after_commit(const wire::Lease&, std::vector<std::span<std::byte>>) override {}

 private:
  std::uint64_t lease_;
};

TEST_F(WorkTest, ALeaseThatEndsWhileItsRunnerStartsLeavesTheRest) {
  run([&]() -> net::Task<void> {
    open();
    gate_->reset();
    give(lab_, {lease(1, 8, lab_.get())});
    co_await arrived_->wait();  // it is in a batch, which waits for its plugin
    work_->cancel(*lab_, {1});
    gate_->set();
    give(lab_, {lease(2, 8, lab_.get())});
    auto done = [this] { return lab_->results.contains(2); };
    const bool came = co_await lab_->until(done);
    EXPECT_TRUE(came);
    EXPECT_EQ(lab_->results[2], GOBLIN_OK);
    EXPECT_FALSE(lab_->results.contains(1));
  });
}

TEST_F(WorkTest, APluginThatWasRevokedStopsAtOnceAndNothingElseDoes) {
  run([this]() -> net::Task<void> {
    open();
    wire::Lease hangs = lease(1, 64, lab_.get());
    hangs.params = {wire::Value::of(std::int64_t{goblin::testing::kExecuteHang})};
    wire::Lease other = lease(2, 64, lab_.get());
    other.plugin.bytes[0] = 7;
    other.job = 2;
    give(lab_, {hangs, other});
    while (work_->running(*lab_).empty()) {
      co_await loop_->sleep(net::Milliseconds(1));
    }
    const auto revoked_for_all = [](const wire::Digest& plugin) { return plugin.bytes[0] == 7; };
    work_->drop_plugins(revoked_for_all);
    const bool back = co_await lab_->until([this] { return lab_->back.size() == 1; });
    EXPECT_TRUE(back);
    EXPECT_EQ(lab_->back.front(), 1u);
    EXPECT_EQ(lab_->reasons, std::set<Code>{Code::kUnavailable});
    const bool done = co_await lab_->until([this] { return lab_->results.contains(2); });
    EXPECT_TRUE(done) << "the other plugin's task";
    EXPECT_EQ(lab_->results[2], GOBLIN_OK);
    EXPECT_FALSE(lab_->results.contains(1));
  });
}

TEST_F(WorkTest, OnceTheCatalogueHasExpiredWhatRunsIsCompletedAndTheRestGoesBack) {
  run([this]() -> net::Task<void> {
    open();
    gate_->reset();
    give(lab_, {lease(1, 64, lab_.get()), lease(2, 64, lab_.get())});
    co_await arrived_->wait();  // their plugin is looked for
    work_->hand_back_waiting();
    const bool back = co_await lab_->until([this] { return lab_->back.size() == 2; });
    EXPECT_TRUE(back);
    gate_->set();
    give(lab_, {lease(3, 64, lab_.get())});
    const bool done = co_await lab_->until([this] { return lab_->results.contains(3); });
    EXPECT_TRUE(done);
    // Running: not given back.
    wire::Lease waits = lease(4, 64, lab_.get());
    waits.params = {wire::Value::of(std::int64_t{goblin::testing::kExecuteWaitForCancel})};
    give(lab_, {waits});
    while (work_->running(*lab_).empty()) {
      co_await loop_->sleep(net::Milliseconds(1));
    }
    work_->hand_back_waiting();
    EXPECT_EQ(lab_->back.size(), 2u);
    EXPECT_EQ(work_->running(*lab_), std::vector<std::uint64_t>{4});
  });
}

TEST_F(WorkTest, ARunnerServesManyTasksOfAJobAndNoOtherJobOrLabNode) {
  run([&]() -> net::Task<void> {
    open();
    const auto count = [&](std::uint64_t number, std::uint64_t job, FakeLab& from) {
      wire::Lease one = lease(number, 512, &from);  // small ones come without a digest
      one.job = job;
      one.params = {wire::Value::of(std::int64_t{goblin::testing::kExecuteCount})};
      return one;
    };
    // The result says how many tasks its process has had.
    give(lab_, {count(1, 1, *lab_)});
    bool came = co_await lab_->until([this] { return lab_->results.contains(1); });
    EXPECT_TRUE(came);
    give(lab_, {count(2, 1, *lab_)});
    came = co_await lab_->until([this] { return lab_->results.contains(2); });
    EXPECT_TRUE(came);
    give(lab_, {count(3, 2, *lab_)});
    came = co_await lab_->until([this] { return lab_->results.contains(3); });
    EXPECT_TRUE(came);
    give(other_, {count(4, 1, *other_)});
    came = co_await other_->until([this] { return other_->results.contains(4); });
    EXPECT_TRUE(came);
    const wire::Digest first = lab_->digests[1];
    EXPECT_NE(lab_->digests[2], first) << "a second runner for one job";
    EXPECT_EQ(lab_->digests[3], first) << "one runner for two jobs";
    EXPECT_EQ(other_->digests[4], first) << "one runner for two lab nodes";
  });
}

TEST_F(WorkTest, APluginThatDoesNotComeKeepsOtherLabNodesFromNothing) {
  run([&]() -> net::Task<void> {
    open();
    gate_->reset();
    give(lab_, {lease(1, 8, lab_.get()), lease(2, 8, lab_.get()), lease(3, 8, lab_.get()),
                lease(4, 8, lab_.get())});
    co_await arrived_->wait();
    wire::Lease another = lease(5, 8, other_.get());
    another.plugin.bytes[0] = 1;
    give(other_, {another});
    const bool came = co_await other_->until([this] { return other_->results.contains(5); });
    EXPECT_TRUE(came);
    EXPECT_EQ(other_->results[5], GOBLIN_OK);
    EXPECT_TRUE(lab_->results.empty());
    gate_->set();
    const bool all = co_await lab_->until([this] { return lab_->results.size() == 4; });
    EXPECT_TRUE(all);
  });
}

TEST_F(WorkTest, InlineInputsOfLeasesThatWaitAreBounded) {
  config_.slots = 64;
  run([&]() -> net::Task<void> {
    open();
    gate_->reset();
    // A frame of a few KiB may name the same bytes of its payload a thousand times in each lease.
    wire::Lease fat = lease(0, 8);
    fat.inputs.assign(1000, {});
    for (auto& input : fat.inputs) {
      input.spec = {GOBLIN_F64, {128}};
      input.inline_offset = 0;
    }
    wire::Leases message;
    message.leases.assign(40, fat);
    for (std::size_t i = 0; i < message.leases.size(); ++i) {
      message.leases[i].lease = i + 1;
    }
    work_->add(lab_, std::move(message), wire::Bytes(1024));
    EXPECT_EQ(work_->leases(), config_.memory_bytes / 4 / 1'024'000);
    EXPECT_EQ(lab_->back.size(), 40 - work_->leases());
    work_->drop(*lab_);
    gate_->set();
    co_return;
  });
}

TEST_F(WorkTest, ATaskThatDoesNotStopWhenItIsCancelledLosesItsRunner) {
  config_.cancel_grace = net::Milliseconds(100);
  run([&]() -> net::Task<void> {
    open();
    // What comes next is of another job, then of the one whose runner was lost.
    std::uint64_t number = 0;
    for (const auto& [job, next_job] : {std::pair(1, 2), std::pair(2, 2)}) {
      wire::Lease hangs = lease(++number, 8, lab_.get());
      hangs.job = static_cast<std::uint64_t>(job);
      hangs.params = {wire::Value::of(std::int64_t{goblin::testing::kExecuteHang})};
      hangs.deadline_ms = 3'600'000;
      give(lab_, {hangs});
      while (work_->usage().cpu_us < 50'000) {  // until it computes
        co_await loop_->offload([] { return 0; });
      }
      work_->cancel(*lab_, {number});
      wire::Lease next = lease(++number, 8, lab_.get());
      next.job = static_cast<std::uint64_t>(next_job);
      give(lab_, {next});
      auto done = [this, number] { return lab_->results.contains(number); };
      EXPECT_TRUE(co_await lab_->until(done));
      EXPECT_EQ(lab_->results[number], GOBLIN_OK);
      EXPECT_FALSE(lab_->results.contains(number - 1)) << "nobody waits for its answer";
      EXPECT_EQ(work_->counters().failed, 0u);
    }
  });
}

TEST_F(WorkTest, AThreadThatAPluginLeftDoesNotChangeWhatWasCommittedTo) {
  run([&]() -> net::Task<void> {
    open();
    wire::Lease writes = lease(1, 1 << 14, lab_.get());
    writes.params = {wire::Value::of(std::int64_t{goblin::testing::kExecuteWriteOn})};
    give(lab_, {writes});
    auto first = [this] { return lab_->results.contains(1); };
    EXPECT_TRUE(co_await lab_->until(first));
    if (lab_->results[1] != GOBLIN_OK) {  // the thread ended the runner before that could answer
      EXPECT_EQ(lab_->results[1], GOBLIN_INTERNAL);
      co_return;
    }
    while (work_->runners() > 0 && work_->usage().resident_bytes > 0) {  // until it has ended
      co_await loop_->offload([] { return 0; });
    }
    auto held = lab_->held().find(lab_->digests[1]);
    EXPECT_TRUE(held);
    if (!held) {
      co_return;
    }
    wire::Bytes sent((*held)->size());
    EXPECT_TRUE((*held)->read(0, sent));
    EXPECT_EQ(net::blob_digest(sent), lab_->digests[1]);
  });
}

TEST_F(WorkTest, AConnectionThatGoesWhileARunnerStartsTakesItsLeasesAlong) {
  run([&]() -> net::Task<void> {
    open();
    gate_->reset();
    // The second one has memory of its own.
    give(lab_, {lease(1, 8, lab_.get()), lease(2, 1 << 14, lab_.get())});
    co_await arrived_->wait();
    work_->drop(*lab_);
    gate_->set();
    give(other_, {lease(3, 1 << 14, other_.get())});
    auto done = [this] { return other_->results.contains(3); };
    const bool came = co_await other_->until(done);
    EXPECT_TRUE(came);
    EXPECT_EQ(other_->results[3], GOBLIN_OK);
    EXPECT_TRUE(lab_->results.empty());
    EXPECT_EQ(work_->leases(), 0u);
  });
}

TEST_F(WorkTest, APauseBetweenRequestsDoesNotStopARunnerForEver) {
  run([&]() -> net::Task<void> {
    open();
    // Results are sent when the request has ended and the batch has not.
    lab_->on_results = [this] { work_->pause(true); };
    give(lab_, {lease(1, 8, lab_.get())});
    auto first = [this] { return lab_->results.contains(1); };
    EXPECT_TRUE(co_await lab_->until(first));
    lab_->on_results = nullptr;
    EXPECT_EQ(work_->idle_reason(), "paused");
    give(lab_, {lease(2, 8, lab_.get())});
    // The batch has ended meanwhile: whatever is waiting has run many times.
    for (int i = 0; i < 200; ++i) {
      co_await loop_->offload([] { return 0; });
    }
    EXPECT_FALSE(lab_->results.contains(2));
    work_->pause(false);
    auto second = [this] { return lab_->results.contains(2); };
    EXPECT_TRUE(co_await lab_->until(second));
    EXPECT_EQ(lab_->results[2], GOBLIN_OK);
  });
}

TEST_F(WorkTest, ALabNodeTakesHalfOfTheSlotsBesideAnother) {
  run([&]() -> net::Task<void> {
    open();
    // Nobody has their inputs, so that they stay.
    give(other_, {lease(100, 8)});
    std::vector<wire::Lease> many;
    for (std::uint64_t i = 1; i <= 6; ++i) {
      many.push_back(lease(i, 8));
    }
    give(lab_, many);
    EXPECT_THAT(lab_->back, ElementsAre(5, 6));
    EXPECT_TRUE(lab_->results.empty());  // no fault of the tasks
    EXPECT_EQ(work_->leases(), 5u);
    co_return;
  });
}

TEST_F(WorkTest, ALabNodeAloneTakesEverySlotAndNoMore) {
  run([&]() -> net::Task<void> {
    open();
    std::vector<wire::Lease> many;
    for (std::uint64_t i = 1; i <= 10; ++i) {
      many.push_back(lease(i, 8));
    }
    give(lab_, many);
    EXPECT_THAT(lab_->back, ElementsAre(9, 10));
    EXPECT_EQ(work_->leases(), 8u);
    co_return;
  });
}

TEST_F(WorkTest, ALabNodeThatSendsNoBlobsLeavesFetchersToAnother) {
  run([&]() -> net::Task<void> {
    open();
    std::vector<wire::Lease> many;
    for (std::uint64_t i = 1; i <= 8; ++i) {
      many.push_back(lease(i, 8));
    }
    give(lab_, many);
    auto busy = [this] { return lab_->fetches >= 3; };
    EXPECT_TRUE(co_await lab_->until(busy));
    work_->cancel(*lab_, {7, 8});
    give(other_, {lease(100, 8, other_.get())});
    auto done = [this] { return other_->results.contains(100); };
    EXPECT_TRUE(co_await other_->until(done));
    EXPECT_EQ(other_->results[100], GOBLIN_OK);
    EXPECT_EQ(lab_->fetches, 3);
  });
}

TEST_F(WorkTest, LargeInputsComeOneLeaseAfterAnother) {
  run([&]() -> net::Task<void> {
    open();
    const std::int64_t large = (16 << 20) / 8;
    // The first one's input does not come; small ones pass by, the second large one waits.
    give(lab_, {lease(1, large), lease(2, large, lab_.get()), lease(3, 8, lab_.get())});
    auto small = [this] { return lab_->results.contains(3); };
    EXPECT_TRUE(co_await lab_->until(small));
    EXPECT_EQ(lab_->fetches, 2);
    work_->cancel(*lab_, {1});
    auto done = [this] { return lab_->results.contains(2); };
    EXPECT_TRUE(co_await lab_->until(done));
    EXPECT_EQ(lab_->results[2], GOBLIN_OK);
    EXPECT_EQ(lab_->fetches, 3);
  });
}

TEST_F(WorkTest, HeldResultsOfOneLabNodeCountForAnother) {
  run([&]() -> net::Task<void> {
    open();
    const auto big = [&](std::uint64_t number, FakeLab& lab) {
      wire::Lease made = lease(number, 1 << 14, &lab);
      made.memory_bytes = config_.memory_bytes;  // nothing fits beside it
      return made;
    };
    give(lab_, {big(1, *lab_)});
    auto first = [this] { return lab_->results.contains(1); };
    EXPECT_TRUE(co_await lab_->until(first));
    EXPECT_EQ(lab_->held().bytes(), 8u << 14);
    give(other_, {big(2, *other_), lease(3, 8, other_.get())});
    // The small one fits, and passes it.
    auto small = [this] { return other_->results.contains(3); };
    EXPECT_TRUE(co_await other_->until(small));
    EXPECT_FALSE(other_->results.contains(2));
    lab_->held().release(1);
    work_->wake();
    auto second = [this] { return other_->results.contains(2); };
    EXPECT_TRUE(co_await other_->until(second));
    EXPECT_EQ(other_->results[2], GOBLIN_OK);
  });
}

TEST_F(WorkTest, MemoryOfACollectedResultIsUsedAgainAndThatOfAHeldOneIsNot) {
  run([&]() -> net::Task<void> {
    open();
    constexpr std::int64_t kLength = 1 << 14;
    std::vector<std::size_t> buffers;
    std::vector<wire::Digest> digests;
    for (std::uint64_t number = 1; number <= 3; ++number) {
      wire::Lease made = lease(number, kLength, lab_.get());
      const auto* x = reinterpret_cast<const double*>(lab_->blobs.at(made.inputs[0].digest).data());
      std::vector<double> y(x, x + kLength);
      for (double& value : y) {
        value *= 2;
      }
      digests.push_back(net::blob_digest(std::as_bytes(std::span(y))));
      give(lab_, {made});
      auto done = [this, number] { return lab_->results.contains(number); };
      EXPECT_TRUE(co_await lab_->until(done));
      buffers.push_back(shared_buffers());
      if (number == 1) {
        lab_->held().release(1);
      }
    }
    EXPECT_EQ(buffers[1], buffers[0]);
    EXPECT_EQ(buffers[2], buffers[0] + 1);
    for (std::uint64_t number = 2; number <= 3; ++number) {
      const auto source = lab_->held().find(digests[number - 1]);
      EXPECT_TRUE(source.has_value());
      wire::Bytes bytes(kLength * 8);
      EXPECT_TRUE((*source)->read(0, bytes).has_value());
      EXPECT_EQ(net::blob_digest(bytes), digests[number - 1]);
    }
  });
}

TEST_F(WorkTest, FreeMemoryOfOneJobMakesRoomForAnother) {
  run([&]() -> net::Task<void> {
    open();
    constexpr std::int64_t kLength = 1 << 16;
    for (std::uint64_t job = 1; job <= 4; ++job) {
      wire::Lease made = lease(job, kLength, lab_.get());
      made.job = job;
      made.memory_bytes = config_.memory_bytes;  // nothing fits beside it
      give(lab_, {made});
      auto done = [this, job] { return lab_->results.contains(job); };
      EXPECT_TRUE(co_await lab_->until(done));
      EXPECT_EQ(lab_->results[job], GOBLIN_OK);
      lab_->held().release(job);
      // A runner has an arena, and two are kept; one buffer is left, that of the last job.
      EXPECT_EQ(shared_buffers(), std::min<std::uint64_t>(job, 2) + 1) << "job " << job;
    }
  });
}

TEST_F(WorkTest, TheNextTaskIsComputedWhileALargeResultIsMadeReady) {
  config_.filter = std::make_shared<HoldBack>(1);
  run([&]() -> net::Task<void> {
    open();
    give(lab_, {lease(1, 1 << 14, lab_.get()), lease(2, 1 << 14, lab_.get())});
    auto second = [this] { return lab_->results.contains(2); };
    EXPECT_TRUE(co_await lab_->until(second));
    EXPECT_FALSE(lab_->results.contains(1));
    EXPECT_EQ(work_->leases(), 1u);
    // What is being made ready takes memory.
    wire::Lease big = lease(3, 1 << 14, lab_.get());
    big.memory_bytes = config_.memory_bytes;
    give(lab_, {big, lease(4, 8, lab_.get())});
    auto small = [this] { return lab_->results.contains(4); };
    EXPECT_TRUE(co_await lab_->until(small));
    EXPECT_FALSE(lab_->results.contains(3));
    work_->cancel(*lab_, {1, 3});
    EXPECT_EQ(work_->leases(), 0u);
  });
}

TEST_F(WorkTest, MemoryThatIsFreeMakesRoomForAResultOfAnotherSize) {
  run([&]() -> net::Task<void> {
    open();
    give(lab_, {lease(1, 1 << 16, lab_.get())});
    auto first = [this] { return lab_->results.contains(1); };
    EXPECT_TRUE(co_await lab_->until(first));
    const std::size_t before = shared_buffers();
    lab_->held().release(1);
    wire::Lease small = lease(2, 1 << 14, lab_.get());
    small.memory_bytes = config_.memory_bytes;  // nothing fits beside it
    give(lab_, {small});
    auto second = [this] { return lab_->results.contains(2); };
    EXPECT_TRUE(co_await lab_->until(second));
    EXPECT_EQ(shared_buffers(), before);
  });
}

TEST_F(WorkTest, ManyJobsDoNotKeepARunnerEach) {
  run([&]() -> net::Task<void> {
    open();
    for (std::uint64_t job = 1; job <= 5; ++job) {
      wire::Lease made = lease(job, 8, lab_.get());
      made.job = job;
      give(lab_, {made});
      auto done = [this, job] { return lab_->results.contains(job); };
      EXPECT_TRUE(co_await lab_->until(done));
      EXPECT_EQ(lab_->results[job], GOBLIN_OK);
      EXPECT_LE(work_->runners(), 2u);
    }
  });
}

TEST(OfferedMemory, FallsWithThreadsToHalfOfTheCap) {
  constexpr std::uint64_t kMiB = 1 << 20;
  EXPECT_EQ(offered_memory(64 * kMiB, 1), 64 * kMiB);
  EXPECT_EQ(offered_memory(64 * kMiB, 3), 64 * kMiB);
  EXPECT_EQ(offered_memory(1024 * kMiB, 13), 954 * kMiB);
  EXPECT_EQ(offered_memory(256 * kMiB, 64), 128 * kMiB);
  EXPECT_EQ(offered_memory(256 * kMiB, 4096), 128 * kMiB);
}

TEST_F(WorkTest, OutputsWhoseSumWrapsAreRefused) {
  run([&]() -> net::Task<void> {
    open();
    wire::Lease huge = lease(1, 8);
    huge.outputs.assign(4, wire::TensorSpec{GOBLIN_F64, {std::int64_t{1} << 59}});
    give(lab_, {huge});
    EXPECT_EQ(lab_->results[1], static_cast<std::int32_t>(Code::kExhausted));
    EXPECT_EQ(work_->leases(), 0u);
    co_return;
  });
}

}  // namespace
}  // namespace goblin::volunteer::test
