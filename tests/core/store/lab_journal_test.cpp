// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/store/lab_journal.hpp"

#include <ctime>

#include "tests/core/store/records.hpp"

namespace goblin::store::test {
namespace {

class LabJournalTest : public ::testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    journal_.reset();
    auto opened = LabJournal::open(path_, false);
    GOBLIN_ASSERT_OK(opened);
    journal_ = std::move(*opened);
  }
  std::uint64_t add(std::uint64_t number) { return journal_->add_job(sample_job(number)).value(); }

  TempDir directory_;
  std::string path_ = directory_ / "journal.db";
  std::unique_ptr<LabJournal> journal_;
};

TEST_F(LabJournalTest, JobsComeBackWholeAfterReopening) {
  EXPECT_EQ(add(1), 1u);
  JobRecord second = sample_job(2);
  second.plan_state = random_bytes(1000, 1);
  second.summary = random_bytes(50, 2);
  second.message = "waits for hosts";
  EXPECT_EQ(journal_->add_job(second).value(), 2u);
  open();
  const auto jobs = journal_->jobs();
  GOBLIN_ASSERT_OK(jobs);
  ASSERT_EQ(jobs->size(), 2u);
  EXPECT_EQ((*jobs)[0].job, 1u);
  EXPECT_EQ((*jobs)[1].job, 2u);
  expect_same((*jobs)[0], sample_job(1));
  expect_same((*jobs)[1], second);
}

TEST_F(LabJournalTest, OneJobByItsNumber) {
  add(1);
  JobRecord second = sample_job(2);
  second.summary = random_bytes(50, 2);
  EXPECT_EQ(journal_->add_job(second).value(), 2u);
  open();
  const auto job = journal_->job(2);
  GOBLIN_ASSERT_OK(job);
  EXPECT_EQ(job->job, 2u);
  expect_same(*job, second);
  GOBLIN_EXPECT_CODE(Code::kNotFound, journal_->job(3));
  std::vector<std::uint64_t> visited;
  GOBLIN_ASSERT_OK(
      journal_->visit_jobs([&](const JobRecord& record) { visited.push_back(record.job); }));
  EXPECT_EQ(visited, (std::vector<std::uint64_t>{1, 2}));
}

TEST_F(LabJournalTest, RepeatedTokenIsTheSameJob) {
  EXPECT_EQ(add(7), 1u);
  JobRecord again = sample_job(7);
  again.kind = "other/2";
  EXPECT_EQ(journal_->add_job(again).value(), 1u);
  ASSERT_EQ(journal_->jobs()->size(), 1u);
  EXPECT_EQ(journal_->jobs()->front().kind, "matmul/1");
}

TEST_F(LabJournalTest, ForgottenNumbersAreNotUsedAgain) {
  add(1);
  EXPECT_EQ(add(2), 2u);
  GOBLIN_ASSERT_OK(journal_->forget_job(2));
  open();
  EXPECT_EQ(add(3), 3u);
}

TEST_F(LabJournalTest, PlanStateIsSetOnce) {
  add(1);
  const wire::Bytes state = random_bytes(10, 1);
  GOBLIN_ASSERT_OK(journal_->set_plan_state(1, state));
  GOBLIN_ASSERT_OK(journal_->set_plan_state(1, state));
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, journal_->set_plan_state(1, random_bytes(10, 2)));
  GOBLIN_EXPECT_CODE(Code::kNotFound, journal_->set_plan_state(2, state));
  EXPECT_EQ(journal_->jobs()->front().plan_state, state);
}

TEST_F(LabJournalTest, EmptyPlanStateIsNotNone) {
  add(1);
  EXPECT_EQ(journal_->jobs()->front().plan_state, std::nullopt);
  GOBLIN_ASSERT_OK(journal_->set_plan_state(1, {}));
  EXPECT_EQ(journal_->jobs()->front().plan_state, wire::Bytes());
}

TEST_F(LabJournalTest, JobStateChanges) {
  add(1);
  const wire::Bytes summary = random_bytes(300, 4);
  GOBLIN_ASSERT_OK(journal_->set_job_state(1, wire::JobState::kFailed, GOBLIN_EXHAUSTED,
                                           "line one\nline two", 1'800'000'000'456, summary));
  open();
  const JobRecord job = journal_->jobs()->front();
  EXPECT_EQ(job.state, wire::JobState::kFailed);
  EXPECT_EQ(job.status, GOBLIN_EXHAUSTED);
  EXPECT_EQ(job.message, "line one\nline two");
  EXPECT_EQ(job.summary, summary);
  EXPECT_EQ(job.created_unix_ms, sample_job(1).created_unix_ms);
  EXPECT_EQ(job.ended_unix_ms, 1'800'000'000'456);
  GOBLIN_EXPECT_CODE(Code::kNotFound,
                     journal_->set_job_state(9, wire::JobState::kDone, 0, "", 0, {}));
}

TEST_F(LabJournalTest, AcceptedComeBackInOrderOfAcceptance) {
  add(1);
  add(2);
  GOBLIN_ASSERT_OK(journal_->record_accepted(
      {sample_accepted(1, 9), sample_accepted(1, 4), sample_accepted(2, 4)}));
  GOBLIN_ASSERT_OK(journal_->record_accepted({sample_accepted(1, 6)}));
  open();
  const auto accepted = journal_->accepted(1).value();
  ASSERT_EQ(accepted.size(), 3u);
  EXPECT_TRUE(same(accepted[0], sample_accepted(1, 9)));
  EXPECT_TRUE(same(accepted[1], sample_accepted(1, 4)));
  EXPECT_TRUE(same(accepted[2], sample_accepted(1, 6)));
  EXPECT_EQ(journal_->accepted(2)->size(), 1u);
  EXPECT_TRUE(journal_->accepted(3)->empty());
  EXPECT_TRUE(same(journal_->accepted_task(1, 4).value(), sample_accepted(1, 4)));
  GOBLIN_EXPECT_CODE(Code::kNotFound, journal_->accepted_task(1, 5));
}

TEST_F(LabJournalTest, SecondRecordOfATaskReplacesTheFirst) {
  add(1);
  GOBLIN_ASSERT_OK(journal_->record_accepted({sample_accepted(1, 1), sample_accepted(1, 2)}));
  AcceptedRecord other = sample_accepted(1, 1);
  other.host = digest_of(77);
  GOBLIN_ASSERT_OK(journal_->record_accepted({other}));
  const auto accepted = journal_->accepted(1).value();
  ASSERT_EQ(accepted.size(), 2u);
  EXPECT_EQ(accepted[0].task, 2u);
  EXPECT_TRUE(same(accepted[1], other));
}

TEST_F(LabJournalTest, NumbersUseAll64Bits) {
  add(1);
  AcceptedRecord record = sample_accepted(1, ~0ull);
  record.stage = ~0ull - 1;
  record.stage_offset = 1ull << 63;
  GOBLIN_ASSERT_OK(journal_->record_accepted({record}));
  EXPECT_TRUE(same(journal_->accepted_task(1, ~0ull).value(), record));
}

TEST_F(LabJournalTest, ABatchIsWhollyThereOrNotAtAll) {
  add(1);
  // The last record belongs to no job.
  GOBLIN_EXPECT_CODE(Code::kNotFound,
                     journal_->record_accepted({sample_accepted(1, 1), sample_accepted(5, 1)}));
  EXPECT_TRUE(journal_->accepted(1)->empty());
  GOBLIN_ASSERT_OK(journal_->record_accepted({sample_accepted(1, 1)}));
  EXPECT_EQ(journal_->accepted(1)->size(), 1u);
}

TEST_F(LabJournalTest, Withdrawn) {
  add(1);
  GOBLIN_ASSERT_OK(journal_->record_accepted({sample_accepted(1, 1), sample_accepted(1, 2)}));
  EXPECT_EQ(journal_->accepted_task(1, 1)->planned, sample_accepted(1, 1).planned);
  GOBLIN_ASSERT_OK(journal_->withdraw_accepted(1, 1));
  GOBLIN_EXPECT_CODE(Code::kNotFound, journal_->accepted_task(1, 1));
  GOBLIN_EXPECT_CODE(Code::kNotFound, journal_->withdraw_accepted(1, 1));
  EXPECT_EQ(journal_->accepted(1)->size(), 1u);
}

TEST_F(LabJournalTest, Quarantines) {
  add(1);
  GOBLIN_ASSERT_OK(journal_->record_quarantine({1, digest_of(2), 17, "refused by check"}));
  GOBLIN_ASSERT_OK(journal_->record_quarantine({1, digest_of(3), 18, "late"}));
  GOBLIN_ASSERT_OK(journal_->record_quarantine({1, digest_of(2), 17, "refused twice"}));
  open();
  const auto list = journal_->quarantines(1).value();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].host, digest_of(3));
  EXPECT_EQ(list[1].host, digest_of(2));
  EXPECT_EQ(list[1].task, 17u);
  EXPECT_EQ(list[1].reason, "refused twice");
  GOBLIN_EXPECT_CODE(Code::kNotFound, journal_->record_quarantine({9, digest_of(2), 1, "x"}));
}

TEST_F(LabJournalTest, ForgettingTakesEverythingOfTheJobAndNothingElse) {
  add(1);
  add(2);
  GOBLIN_ASSERT_OK(journal_->record_accepted({sample_accepted(1, 1), sample_accepted(2, 1)}));
  GOBLIN_ASSERT_OK(journal_->record_quarantine({1, digest_of(2), 17, "x"}));
  GOBLIN_ASSERT_OK(journal_->forget_job(1));
  EXPECT_EQ(journal_->jobs()->size(), 1u);
  EXPECT_TRUE(journal_->accepted(1)->empty());
  EXPECT_TRUE(journal_->quarantines(1)->empty());
  EXPECT_EQ(journal_->accepted(2)->size(), 1u);
  GOBLIN_EXPECT_CODE(Code::kNotFound, journal_->forget_job(1));
}

TEST_F(LabJournalTest, FileIsPrivate) {
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

// Prints what docs quote; asserts nothing about time.
TEST_F(LabJournalTest, ManyRecords) {
  add(1);
  constexpr std::uint64_t kBatch = 5000;
  constexpr std::uint64_t kTasks = 100'000;
  std::vector<AcceptedRecord> all;
  for (std::uint64_t task = 0; task < kTasks; ++task) {
    all.push_back(sample_accepted(1, task));
  }
  std::vector<std::vector<AcceptedRecord>> batches;
  for (std::uint64_t first = 0; first < kTasks; first += kBatch) {
    batches.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(first),
                         all.begin() + static_cast<std::ptrdiff_t>(first + kBatch));
  }
  const auto seconds_since = [](std::clock_t start) {
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  std::clock_t start = std::clock();
  for (const auto& batch : batches) {
    GOBLIN_ASSERT_OK(journal_->record_accepted(batch));
  }
  const double write_seconds = seconds_since(start);
  start = std::clock();
  open();
  const double open_seconds = seconds_since(start);
  start = std::clock();
  const auto accepted = journal_->accepted(1);
  const double read_seconds = seconds_since(start);
  GOBLIN_ASSERT_OK(accepted);
  ASSERT_EQ(accepted->size(), kTasks);
  EXPECT_TRUE(same(accepted->back(), all.back()));
  std::printf(
      "a second of processor time: %.0f records written, %.0f read; %.0f bytes a record; "
      "opening takes %.0f ms\n",
      kTasks / write_seconds, kTasks / read_seconds,
      static_cast<double>(std::filesystem::file_size(path_)) / kTasks, open_seconds * 1e3);
}

}  // namespace
}  // namespace goblin::store::test
