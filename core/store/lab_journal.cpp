// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/store/lab_journal.hpp"

#include <array>

#include "core/store/record_codec.hpp"
#include "core/store/sqlite.hpp"

namespace goblin::store {
namespace {

constexpr std::uint32_t kApplicationId = 0x47424c4a;  // "GBLJ"

// Values of `merged` that no flipped bit turns into each other; the checksum leaves it out because
// it changes later.
constexpr std::int64_t kKept = 0x33;
constexpr std::int64_t kMerged = 0x4c;

constexpr auto kMostPolicy = static_cast<std::int64_t>(wire::Policy::kAdaptive);

// `accepted.seq` gives the order of acceptance. AUTOINCREMENT: a forgotten job's number is never
// given out again.
constexpr std::array<const char*, 3> kMigrations = {R"sql(
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
)sql",
                                                    // Nobody knows when jobs of the first schema
                                                    // ended: they are kept from now on.
                                                    R"sql(
ALTER TABLE jobs ADD COLUMN ended_unix_ms INTEGER NOT NULL DEFAULT 0;
UPDATE jobs SET ended_unix_ms = unixepoch() * 1000 WHERE state >= 4;
)sql",
                                                    R"sql(
CREATE TABLE standings(
  host BLOB PRIMARY KEY,
  passed INTEGER NOT NULL,
  faults INTEGER NOT NULL,
  forgiven INTEGER NOT NULL,
  suspended_until_unix_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
)sql"};

class SqliteJournal final : public LabJournal {
 public:
  explicit SqliteJournal(std::unique_ptr<Database> database) : database_(std::move(database)) {}

  Result<std::uint64_t> add_job(const JobRecord& job) override {
    GOBLIN_TRY(auto transaction, database_->begin());
    {
      GOBLIN_TRY(auto known, database_->query("SELECT job FROM jobs WHERE token=?", job.token));
      GOBLIN_TRY(const bool found, known.step());
      if (found) {
        return known.number(0);
      }
    }
    const wire::Bytes description = encode_description(job);
    const wire::Bytes summary = seal(job.summary);
    GOBLIN_TRY_VOID(database_->run(
        "INSERT INTO jobs(token,kind,plugin,kind_index,description,policy,replicas,weight,state,"
        "status,message,created_unix_ms,ended_unix_ms,summary)"
        " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        job.token, job.kind, job.plugin, job.kind_index, description, job.policy, job.replicas,
        job.weight, job.state, job.status, job.message, job.created_unix_ms, job.ended_unix_ms,
        summary));
    const auto number = static_cast<std::uint64_t>(database_->last_row());
    if (job.plan_state) {
      GOBLIN_TRY_VOID(write_plan_state(number, *job.plan_state));
    }
    GOBLIN_TRY_VOID(transaction.commit());
    return number;
  }

  Result<void> set_plan_state(std::uint64_t job, const wire::Bytes& state) override {
    {
      GOBLIN_TRY(auto row, database_->query("SELECT plan_state FROM jobs WHERE job=?", job));
      GOBLIN_TRY(const bool found, row.step());
      if (!found) {
        return no_job(job);
      }
      if (!row.is_null(0)) {
        GOBLIN_TRY(const wire::Bytes old, checked(unseal(row.blob(0)), job));
        if (old == state) {
          return {};
        }
        return fail(Code::kInvalidArgument,
                    "job " + std::to_string(job) +
                        " has another plan state already; it is set once, before the first task");
      }
    }
    return write_plan_state(job, state);
  }

  Result<void> set_job_state(std::uint64_t job, wire::JobState state, std::int32_t status,
                             const std::string& message, std::int64_t ended_unix_ms,
                             const wire::Bytes& summary) override {
    const wire::Bytes sealed = seal(summary);
    GOBLIN_TRY(const std::uint64_t changed,
               database_->run("UPDATE jobs SET state=?,status=?,message=?,ended_unix_ms=?,summary=?"
                              " WHERE job=?",
                              state, status, message, ended_unix_ms, sealed, job));
    return changed == 0 ? no_job(job) : Result<void>();
  }

  Result<void> record_accepted(const std::vector<AcceptedRecord>& records) override {
    GOBLIN_TRY(auto transaction, database_->begin());
    for (const AcceptedRecord& record : records) {
      encode_planned(record, planned_);
      auto written = database_->run(
          "INSERT OR REPLACE INTO accepted(job,task,host,digest,merged,stage,"
          "stage_offset,planned) VALUES(?,?,?,?,?,?,?,?)",
          record.job, record.task, record.host, record.digest, record.merged ? kMerged : kKept,
          record.stage, record.stage_offset, planned_);
      if (!written) {
        return fail(written.error().with_context("task " + std::to_string(record.task) +
                                                 " of job " + std::to_string(record.job)));
      }
    }
    return transaction.commit();
  }

  Result<void> withdraw_accepted(std::uint64_t job, std::uint64_t task) override {
    GOBLIN_TRY(const std::uint64_t changed,
               database_->run("DELETE FROM accepted WHERE job=? AND task=?", job, task));
    return changed == 0 ? no_task(job, task) : Result<void>();
  }

  Result<void> record_quarantine(const QuarantineRecord& record) override {
    GOBLIN_TRY_VOID(
        database_->run("INSERT OR REPLACE INTO quarantines(job,host,task,reason) VALUES(?,?,?,?)",
                       record.job, record.host, record.task, record.reason));
    return {};
  }

  Result<void> record_standings(const std::vector<StandingRecord>& records) override {
    GOBLIN_TRY(auto transaction, database_->begin());
    for (const StandingRecord& record : records) {
      GOBLIN_TRY_VOID(
          database_->run("INSERT OR REPLACE INTO standings(host,passed,faults,forgiven,"
                         "suspended_until_unix_ms) VALUES(?,?,?,?,?)",
                         record.host, record.passed, record.faults, record.forgiven,
                         record.suspended_until_unix_ms));
    }
    return transaction.commit();
  }

  Result<void> forget_standings(const std::vector<wire::Digest>& hosts) override {
    GOBLIN_TRY(auto transaction, database_->begin());
    for (const wire::Digest& host : hosts) {
      GOBLIN_TRY_VOID(database_->run("DELETE FROM standings WHERE host=?", host));
    }
    return transaction.commit();
  }

  Result<void> forget_job(std::uint64_t job) override {
    GOBLIN_TRY(const std::uint64_t changed, database_->run("DELETE FROM jobs WHERE job=?", job));
    return changed == 0 ? no_job(job) : Result<void>();
  }

// One list of columns for both queries; the parameter is a literal, as query() wants it.
#define GOBLIN_JOB_COLUMNS                                                                       \
  "SELECT job,token,kind,plugin,kind_index,description,policy,replicas,weight,plan_state,state," \
  "status,message,created_unix_ms,summary,ended_unix_ms FROM jobs "
  Result<void> visit_jobs(const std::function<void(JobRecord)>& visit) override {
    GOBLIN_TRY(auto row, database_->query(GOBLIN_JOB_COLUMNS "ORDER BY job"));
    for (;;) {
      GOBLIN_TRY(const bool found, row.step());
      if (!found) {
        return {};
      }
      GOBLIN_TRY(JobRecord job, read_job(row));
      visit(std::move(job));
    }
  }

  Result<JobRecord> job(std::uint64_t number) override {
    GOBLIN_TRY(auto row, database_->query(GOBLIN_JOB_COLUMNS "WHERE job=?", number));
    GOBLIN_TRY(const bool found, row.step());
    if (!found) {
      return fail(no_job(number).error());
    }
    return read_job(row);
  }
#undef GOBLIN_JOB_COLUMNS

  Result<std::vector<JobRecord>> jobs() override {
    std::vector<JobRecord> list;
    GOBLIN_TRY_VOID(visit_jobs([&list](JobRecord job) { list.push_back(std::move(job)); }));
    return list;
  }

  Result<std::vector<AcceptedRecord>> accepted(std::uint64_t job) override {
    std::vector<AcceptedRecord> list;
    GOBLIN_TRY(auto row,
               database_->query("SELECT task,host,digest,merged,stage,stage_offset,planned"
                                " FROM accepted WHERE job=? ORDER BY seq",
                                job));
    for (;;) {
      GOBLIN_TRY(const bool found, row.step());
      if (!found) {
        return list;
      }
      GOBLIN_TRY(AcceptedRecord record, read_accepted(row, job));
      list.push_back(std::move(record));
    }
  }

  Result<AcceptedRecord> accepted_task(std::uint64_t job, std::uint64_t task) override {
    GOBLIN_TRY(auto row,
               database_->query("SELECT task,host,digest,merged,stage,stage_offset,planned"
                                " FROM accepted WHERE job=? AND task=?",
                                job, task));
    GOBLIN_TRY(const bool found, row.step());
    if (!found) {
      return fail(no_task(job, task).error());
    }
    return read_accepted(row, job);
  }

  Result<std::vector<QuarantineRecord>> quarantines(std::uint64_t job) override {
    std::vector<QuarantineRecord> list;
    GOBLIN_TRY(
        auto row,
        database_->query("SELECT host,task,reason FROM quarantines WHERE job=? ORDER BY seq", job));
    for (;;) {
      GOBLIN_TRY(const bool found, row.step());
      if (!found) {
        return list;
      }
      QuarantineRecord& record = list.emplace_back();
      record.job = job;
      GOBLIN_TRY_VOID(row.fixed(0, record.host.bytes));
      record.task = row.number(1);
      record.reason = row.text(2);
    }
  }

  Result<std::vector<StandingRecord>> standings() override {
    std::vector<StandingRecord> list;
    GOBLIN_TRY(auto row, database_->query("SELECT host,passed,faults,forgiven,"
                                          "suspended_until_unix_ms FROM standings"));
    for (;;) {
      GOBLIN_TRY(const bool found, row.step());
      if (!found) {
        return list;
      }
      StandingRecord& record = list.emplace_back();
      GOBLIN_TRY_VOID(row.fixed(0, record.host.bytes));
      record.passed = row.number(1);
      record.faults = static_cast<std::uint32_t>(row.number(2));
      record.forgiven = static_cast<std::uint32_t>(row.number(3));
      record.suspended_until_unix_ms = static_cast<std::int64_t>(row.number(4));
    }
  }

 private:
  Result<JobRecord> read_job(Database::Query& row) {
    JobRecord job;
    job.job = row.number(0);
    GOBLIN_TRY_VOID(row.fixed(1, job.token));
    job.kind = row.text(2);
    GOBLIN_TRY_VOID(row.fixed(3, job.plugin.bytes));
    job.kind_index = static_cast<std::uint32_t>(row.number(4));
    GOBLIN_TRY_VOID(checked(decode_description(row.blob(5), job), job.job));
    job.replicas = static_cast<std::uint32_t>(row.number(7));
    job.weight = static_cast<std::uint32_t>(row.number(8));
    if (!row.is_null(9)) {
      GOBLIN_TRY(job.plan_state, checked(unseal(row.blob(9)), job.job));
    }
    if (row.integer(6) < 0 || row.integer(6) > kMostPolicy || row.integer(10) < 1 ||
        row.integer(10) > 6) {
      return fail(database_->damaged("policy or state of job " + std::to_string(job.job)));
    }
    job.policy = static_cast<wire::Policy>(row.integer(6));
    job.state = static_cast<wire::JobState>(row.integer(10));
    job.status = static_cast<std::int32_t>(row.integer(11));
    job.message = row.text(12);
    job.created_unix_ms = row.integer(13);
    GOBLIN_TRY(job.summary, checked(unseal(row.blob(14)), job.job));
    job.ended_unix_ms = row.integer(15);
    return job;
  }

  Result<AcceptedRecord> read_accepted(const Database::Query& row, std::uint64_t job) const {
    AcceptedRecord record;
    record.job = job;
    record.task = row.number(0);
    GOBLIN_TRY_VOID(row.fixed(1, record.host.bytes));
    GOBLIN_TRY_VOID(row.fixed(2, record.digest.bytes));
    if (row.integer(3) != kKept && row.integer(3) != kMerged) {
      return fail(database_->damaged("task " + std::to_string(record.task) + " of job " +
                                     std::to_string(job) + ": merged"));
    }
    record.merged = row.integer(3) == kMerged;
    record.stage = row.number(4);
    record.stage_offset = row.number(5);
    GOBLIN_TRY_VOID(checked(decode_planned(row.blob(6), record), job));
    return record;
  }

  Result<void> write_plan_state(std::uint64_t job, const wire::Bytes& state) {
    const wire::Bytes sealed = seal(state);
    GOBLIN_TRY_VOID(database_->run("UPDATE jobs SET plan_state=? WHERE job=?", sealed, job));
    return {};
  }
  static Result<void> no_job(std::uint64_t job) {
    return fail(Code::kNotFound, "the lab journal has no job " + std::to_string(job));
  }
  static Result<void> no_task(std::uint64_t job, std::uint64_t task) {
    return fail(Code::kNotFound, "the lab journal has no accepted task " + std::to_string(task) +
                                     " of job " + std::to_string(job));
  }
  /// Damage within a record is damage of the file.
  template <typename T>
  Result<T> checked(Result<T> result, std::uint64_t job) const {
    if (!result) {
      return fail(database_->damaged("job " + std::to_string(job) + ": " + result.error().message));
    }
    return result;
  }

  std::unique_ptr<Database> database_;
  wire::Bytes planned_;  // kept for its capacity
};

}  // namespace

Result<std::unique_ptr<LabJournal>> LabJournal::open(const std::string& path, bool synchronous_full,
                                                     bool must_exist) {
  const DatabaseOptions options{"lab journal", kApplicationId, kMigrations, synchronous_full,
                                must_exist};
  GOBLIN_TRY(auto database, Database::open(path, options));
  return std::make_unique<SqliteJournal>(std::move(database));
}

}  // namespace goblin::store
