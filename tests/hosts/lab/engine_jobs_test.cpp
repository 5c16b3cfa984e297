// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Jobs beside each other and their ends; what is left of them.
#include <gmock/gmock.h>

#include "hosts/link/clock.hpp"
#include "tests/hosts/lab/engine_fixture.hpp"

namespace goblin::lab::test {
namespace {

using testing::IsEmpty;

constexpr std::int64_t kLength = 5000;

class EngineJobsTest : public EngineFixture {
 protected:
  void expect_nothing_kept() {
    const auto left = engine_->footprint();
    EXPECT_EQ(left.leases, 0u);
    EXPECT_EQ(left.blobs, 0u);
    EXPECT_EQ(left.grants, 0u);
    EXPECT_EQ(left.tasks, 0u);
    EXPECT_EQ(left.views, 0u);
  }
  std::vector<std::uint64_t> staged_files() const {
    auto list = staging_->list();
    EXPECT_TRUE(list);
    return *list;
  }
};

TEST_F(EngineJobsTest, TwoJobsShareABlobAndOneIsCancelled) {
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    const auto first = co_await submit_doubling(kLength);
    const auto second = co_await submit_doubling(kLength);
    CO_ASSERT(first && second);
    CO_ASSERT_UNTIL(host->leases.size() == 2);
    const wire::Digest blob = host->leases[0].inputs.at(0).digest;
    EXPECT_EQ(host->leases[1].inputs.at(0).digest, blob);
    EXPECT_EQ(engine_->footprint().blobs, 1u);
    const wire::Lease left = host->leases[host->leases[0].job == *first ? 1 : 0];

    EXPECT_TRUE(co_await engine_->cancel(*first));
    CO_ASSERT_UNTIL(host->cancelled.size() == 1);
    const auto source = engine_->find_blob(host->id, blob);
    CO_ASSERT(source);
    wire::Bytes bytes((*source)->size());
    EXPECT_TRUE((*source)->read(0, bytes)) << "its files are the other job's own";
    EXPECT_EQ(net::blob_digest(bytes), blob);

    commit(*host, left, doubled(kLength));
    CO_ASSERT_UNTIL(status(*second).state == wire::JobState::kDone);
    const auto gone = engine_->find_blob(host->id, blob);
    CO_ASSERT(!gone);
    EXPECT_EQ(gone.error().code, Code::kNotFound);
    CO_ASSERT_UNTIL(engine_->footprint().leases == 0);
    expect_nothing_kept();
  });
}

TEST_F(EngineJobsTest, AHostMayPullWhatItsLeasesName) {
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    const auto other = join("b");
    const auto job = co_await submit_doubling(kLength);
    CO_ASSERT(job);
    CO_ASSERT_UNTIL(!host->leases.empty() || !other->leases.empty());
    const auto& one = host->leases.empty() ? other : host;
    const auto& none = host->leases.empty() ? host : other;
    const wire::Digest blob = one->leases[0].inputs.at(0).digest;
    EXPECT_TRUE(engine_->find_blob(one->id, blob));
    EXPECT_FALSE(engine_->find_blob(none->id, blob));
    hand_back(*one, one->leases[0].lease, Code::kUnavailable);
    EXPECT_FALSE(engine_->find_blob(one->id, blob)) << "it has no lease any more";
    CO_ASSERT_UNTIL(!none->leases.empty());
    EXPECT_TRUE(engine_->find_blob(none->id, blob));
    commit(*none, none->leases[0], doubled(kLength));
    CO_ASSERT_UNTIL(status(*job).state == wire::JobState::kDone);
  });
}

TEST_F(EngineJobsTest, TheFirstOfTwoResultsForALeaseCounts) {
  for (const std::int64_t length : {std::int64_t{20}, kLength}) {  // inline, and fetched
    run([&]() -> net::Task<void> {
      const auto host = join("a");
      const auto job = co_await submit_doubling(length);
      CO_ASSERT(job);
      CO_ASSERT_UNTIL(!host->leases.empty());
      wire::Bytes wrong = doubled(length);
      wrong[9] ^= std::byte{1};
      commit(*host, host->leases[0], doubled(length));
      commit(*host, host->leases[0], wrong);
      hand_back(*host, host->leases[0].lease, Code::kInternal);
      CO_ASSERT_UNTIL(status(*job).state == wire::JobState::kDone);
      EXPECT_FALSE(report(*host).quarantined);
      EXPECT_EQ(report(*host).refused, 0u);
      EXPECT_EQ(report(*host).failed, 0u);
      EXPECT_EQ(report(*host).accepted, 1u);
      EXPECT_EQ(status(*job).results_checked, 1u);
    });
    run([&]() -> net::Task<void> {
      const auto host = join("a");
      const auto job = co_await submit_doubling(length);
      CO_ASSERT(job);
      CO_ASSERT_UNTIL(!host->leases.empty());
      wire::Bytes wrong = doubled(length);
      wrong[9] ^= std::byte{1};
      commit(*host, host->leases[0], wrong);
      commit(*host, host->leases[0], doubled(length));
      CO_ASSERT_UNTIL(report(*host).refused == 1);
      EXPECT_EQ(status(*job).tasks_accepted, 0u) << "it had committed to the wrong one";
      EXPECT_TRUE(co_await engine_->cancel(*job));
    });
  }
}

TEST_F(EngineJobsTest, CancelledWhileItsPlannerStarts) {
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    for (int turns = 0; turns < 12; ++turns) {  // at another place of its beginning each time
      const auto job = co_await submit_doubling(kLength);
      CO_ASSERT(job);
      for (int i = 0; i < turns * turns; ++i) {
        co_await loop_->sleep(net::Milliseconds(0));
      }
      EXPECT_TRUE(co_await engine_->cancel(*job));
      EXPECT_EQ(status(*job).state, wire::JobState::kCancelled);
      EXPECT_THAT(staged_files(), IsEmpty());
    }
    const auto job = co_await submit_doubling(kLength);
    CO_ASSERT(job);
    CO_ASSERT_UNTIL(!host->leases.empty() && host->leases.back().job == *job);
    commit(*host, host->leases.back(), doubled(kLength));
    CO_ASSERT_UNTIL(status(*job).state == wire::JobState::kDone);
    CO_ASSERT_UNTIL(engine_->footprint().leases == 0);
    expect_nothing_kept();
    EXPECT_EQ(engine_->running_jobs(), 0u);
  });
}

TEST_F(EngineJobsTest, FailedStartsLeaveNothingBehind) {
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    const auto job = co_await submit_doubling(kLength);
    CO_ASSERT(job);
    for (std::size_t i = 0; i < 4; ++i) {
      CO_ASSERT_UNTIL(host->leases.size() == i + 1);
      EXPECT_EQ(engine_->footprint().leases, 1u);
      wire::Results results;
      wire::TaskResult result;
      result.lease = host->leases[i].lease;
      result.status = i % 2 == 0 ? GOBLIN_INTERNAL : GOBLIN_CANCELLED;
      results.results.push_back(std::move(result));
      EXPECT_TRUE(engine_->results(host->id, results, wire::Bytes{}));
      EXPECT_EQ(engine_->footprint().leases, 0u);
      EXPECT_EQ(engine_->footprint().grants, 0u);
    }
    EXPECT_TRUE(co_await engine_->cancel(*job));
    expect_nothing_kept();
  });
}

/// What an ended job leaves in memory is its status; the journal has the rest, also after a
/// restart.
TEST_F(EngineJobsTest, EndedJobsAreExplainedFromTheJournal) {
  std::uint64_t done = 0;
  std::uint64_t cancelled = 0;
  wire::Digest pin;
  const auto look = [&]() -> net::Task<void> {
    const auto told = co_await engine_->explain(done);
    CO_ASSERT(told);
    EXPECT_EQ(told->status.state, wire::JobState::kDone);
    EXPECT_EQ(told->status.tasks_accepted, 1u);
    for (const auto& ended : {told->status, status(done)}) {
      EXPECT_TRUE(ended.plan_done);
      EXPECT_GT(ended.flops_total, 0);
      EXPECT_EQ(ended.flops_accepted, ended.flops_total);
    }
    EXPECT_EQ(told->policy, wire::Policy::kAlgebraic);
    EXPECT_EQ(told->incident_count, 1u);
    CO_ASSERT(told->incidents.size() == 1);
    EXPECT_EQ(told->incidents[0].what, "handed back");
    CO_ASSERT(told->hosts.size() == 1);
    EXPECT_EQ(told->hosts[0].host, pin);
    EXPECT_EQ(told->hosts[0].accepted, 1u);
    // It says for whom, since hosts that hold inputs are sent less.
    EXPECT_THAT(told->plan,
                ::testing::Contains(::testing::Pair("least bytes to move if hosts held no inputs",
                                                    std::to_string(2 * 8 * kLength))));
    EXPECT_EQ(status(done).outputs.size(), 1u);
    EXPECT_EQ(status(done).kind, "faulty/1");
    const auto gone = co_await engine_->explain(cancelled);
    CO_ASSERT(gone);
    EXPECT_EQ(gone->status.state, wire::JobState::kCancelled);
    EXPECT_EQ(gone->status.message, "the job was cancelled");
    const auto jobs = engine_->jobs().jobs;
    CO_ASSERT(jobs.size() == 2);
    EXPECT_EQ(jobs[0].job, done);
    EXPECT_EQ(jobs[1].job, cancelled);
    const auto none = co_await engine_->explain(77);
    EXPECT_FALSE(none);
  };
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    pin = host->pin();
    const auto job = co_await submit_doubling(kLength);
    CO_ASSERT(job);
    done = *job;
    CO_ASSERT_UNTIL(!host->leases.empty());
    hand_back(*host, host->leases[0].lease, Code::kUnavailable);
    CO_ASSERT_UNTIL(host->leases.size() == 2);
    commit(*host, host->leases[1], doubled(kLength));
    CO_ASSERT_UNTIL(status(done).state == wire::JobState::kDone);
    const auto other = co_await submit_doubling(kLength);
    CO_ASSERT(other);
    cancelled = *other;
    EXPECT_TRUE(co_await engine_->cancel(cancelled));
    co_await look();
  });
  run([&]() -> net::Task<void> {
    co_await look();
    const auto result = co_await engine_->result(done);
    CO_ASSERT(result);
    EXPECT_EQ(result->fds.size(), 1u);
    EXPECT_TRUE(co_await engine_->forget(done));
    EXPECT_TRUE(co_await engine_->forget(cancelled));
    EXPECT_THAT(staged_files(), IsEmpty());
  });
}

TEST_F(EngineJobsTest, JobsAreForgottenSoLongAfterTheirEnd) {
  constexpr std::int64_t kDay = 24LL * 3600 * 1000;
  std::uint64_t number = 0;
  run([&]() -> net::Task<void> {
    const auto job = co_await submit_doubling(kLength);
    CO_ASSERT(job);
  });
  // It began eight days ago and has not ended.
  auto record = journal_->jobs().value().front();
  ASSERT_TRUE(journal_->forget_job(record.job));
  record.created_unix_ms = link::unix_ms() - 8 * kDay;
  number = journal_->add_job(record).value();
  stage_keep_ms_ = 400;  // so that it tidies up ten times a second
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    CO_ASSERT_UNTIL(!host->leases.empty());
    commit(*host, host->leases[0], doubled(kLength));
    CO_ASSERT_UNTIL(status(number).state == wire::JobState::kDone);
    const auto file = co_await engine_->stage(1);  // goes when it tidies up after the end
    CO_ASSERT(file);
    CO_ASSERT_UNTIL(!engine_->is_staged(file->number));
    EXPECT_TRUE(engine_->status(number)) << "it ended just now";
  });
  record = journal_->job(number).value();
  EXPECT_GT(record.ended_unix_ms, link::unix_ms() - kDay);
  ASSERT_TRUE(journal_->set_job_state(number, record.state, record.status, record.message,
                                      record.created_unix_ms, record.summary));
  run([&]() -> net::Task<void> {
    CO_ASSERT_UNTIL(!engine_->status(number));
    CO_ASSERT_UNTIL(staged_files().empty());
  });
}

}  // namespace
}  // namespace goblin::lab::test
