// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Journals that earlier releases wrote open with this one.
#include <array>
#include <ctime>

#include "core/store/record_codec.hpp"
#include "core/store/sqlite.hpp"
#include "tests/core/store/records.hpp"

namespace goblin::store::test {
namespace {

/// As the releases with schema 1 wrote it: never changed.
constexpr std::array<const char*, 1> kSchema1 = {R"sql(
CREATE TABLE jobs(
  job INTEGER PRIMARY KEY AUTOINCREMENT,
  token BLOB NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  plugin BLOB NOT NULL,
  kind_index INTEGER NOT NULL,
  description BLOB NOT NULL,
  policy INTEGER NOT NULL,
  replicas INTEGER NOT NULL,
  weight INTEGER NOT NULL,
  plan_state BLOB,
  state INTEGER NOT NULL,
  status INTEGER NOT NULL,
  message TEXT NOT NULL,
  created_unix_ms INTEGER NOT NULL,
  summary BLOB NOT NULL
) STRICT;
CREATE TABLE accepted(
  seq INTEGER PRIMARY KEY,
  job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
  task INTEGER NOT NULL,
  host BLOB NOT NULL,
  digest BLOB NOT NULL,
  merged INTEGER NOT NULL,
  stage INTEGER NOT NULL,
  stage_offset INTEGER NOT NULL,
  planned BLOB NOT NULL,
  UNIQUE(job, task)
) STRICT;
CREATE TABLE quarantines(
  seq INTEGER PRIMARY KEY,
  job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
  host BLOB NOT NULL,
  task INTEGER NOT NULL,
  reason TEXT NOT NULL,
  UNIQUE(job, host, task)
) STRICT;
)sql"};
constexpr std::uint32_t kJournal = 0x47424c4a;

void add_as_schema_1(Database& database, const JobRecord& job) {
  const wire::Bytes description = encode_description(job);
  const wire::Bytes summary = seal(job.summary);
  GOBLIN_ASSERT_OK(database.run(
      "INSERT INTO jobs(token,kind,plugin,kind_index,description,policy,replicas,weight,state,"
      "status,message,created_unix_ms,summary) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)",
      job.token, job.kind, job.plugin, job.kind_index, description, job.policy, job.replicas,
      job.weight, job.state, job.status, job.message, job.created_unix_ms, summary));
}

TEST(LabJournalSchema, OfTheFirstOneEndedJobsAreKeptFromNowOn) {
  const TempDir directory;
  const std::string path = directory / "journal.db";
  JobRecord running = sample_job(1);
  {
    auto database = Database::open(path, {"lab journal", kJournal, kSchema1, false});
    GOBLIN_ASSERT_OK(database);
    add_as_schema_1(**database, running);
    for (const auto state :
         {wire::JobState::kDone, wire::JobState::kFailed, wire::JobState::kCancelled}) {
      JobRecord ended = sample_job(10 + static_cast<std::uint64_t>(state));
      ended.state = state;
      add_as_schema_1(**database, ended);
    }
  }
  const std::int64_t before = std::int64_t{::time(nullptr)} * 1000;
  for (int opening = 0; opening < 2; ++opening) {  // brought up to date, then as it is
    auto journal = LabJournal::open(path, false);
    GOBLIN_ASSERT_OK(journal);
    const auto jobs = (*journal)->jobs();
    GOBLIN_ASSERT_OK(jobs);
    ASSERT_EQ(jobs->size(), 4u);
    running.ended_unix_ms = 0;
    expect_same((*jobs)[0], running);
    for (std::size_t i = 1; i < 4; ++i) {
      EXPECT_EQ((*jobs)[i].created_unix_ms, running.created_unix_ms);
      EXPECT_GE((*jobs)[i].ended_unix_ms, before);
      EXPECT_LE((*jobs)[i].ended_unix_ms, before + 60'000);
    }
  }
}

}  // namespace
}  // namespace goblin::store::test
