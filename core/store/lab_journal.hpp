// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What a lab node must still know after a crash: jobs, plans, accepted results, quarantines, what
// hosts have earned. SQLite behind it (WAL, one writer). Calls block: make them from a worker
// thread; any one thread at a time. A call that returns success is durable against a crash of the
// process; against a loss of power as well when `synchronous` is full.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/wire/client.hpp"

namespace goblin::store {

/// A job as it was submitted and validated.
struct JobRecord {
  std::uint64_t job = 0;
  std::array<std::uint8_t, 16> token{};
  std::string kind;  ///< with version: "matmul/1"
  wire::Digest plugin;
  std::uint32_t kind_index = 0;
  std::vector<wire::JobInput> inputs;  ///< in the description's order; staged ones by number
  std::vector<wire::Value> params;     ///< in the description's order
  std::vector<wire::OutputInfo> outputs;
  std::vector<wire::JobOutputFile> output_files;
  std::vector<std::uint64_t>
      output_stages;  ///< staging number per output, 0: the researcher's file
  wire::Policy policy = wire::Policy::kAlgebraic;
  std::uint32_t replicas = 0;
  std::uint32_t weight = 1;
  std::optional<wire::Bytes> plan_state;  ///< set once, before the first task
  wire::JobState state = wire::JobState::kQueued;
  std::int32_t status = 0;
  std::string message;
  std::int64_t created_unix_ms = 0;
  std::int64_t ended_unix_ms = 0;  ///< 0 while it has not ended
  wire::Bytes summary;             ///< encoded wire::Explanation of an ended job; empty before
};

struct AcceptedRecord {
  std::uint64_t job = 0;
  std::uint64_t task = 0;
  wire::Digest host;
  wire::Digest digest;             ///< over all outputs
  bool merged = false;             ///< its elements stand in the outputs; else kept in `stage`
  std::uint64_t stage = 0;         ///< staging number of the kept result
  std::uint64_t stage_offset = 0;  ///< where it begins there
  wire::PlannedTask planned;       ///< as the planner emitted it
};
struct QuarantineRecord {
  std::uint64_t job = 0;
  wire::Digest host;
  std::uint64_t task = 0;
  std::string reason;
};

/// What is known of a host, whichever job it was.
struct StandingRecord {
  wire::Digest host;
  std::uint64_t passed = 0;
  std::uint32_t faults = 0, forgiven = 0;
  std::int64_t suspended_until_unix_ms = 0;
};

class LabJournal {
 public:
  /// Makes or opens the data base. kUnsupported: written by a newer release (names both schema
  /// versions). kCorrupt: fails SQLite's quick_check (says how to restore). kUnavailable: another
  /// process has it open. kNotFound, and nothing is touched: it `must_exist` and is missing or was
  /// cut to nothing.
  static Result<std::unique_ptr<LabJournal>> open(const std::string& path, bool synchronous_full,
                                                  bool must_exist = false);
  virtual ~LabJournal() = default;

  /// Adds the job with the next free number, or answers the job that has this token already.
  virtual Result<std::uint64_t> add_job(const JobRecord& job) = 0;
  virtual Result<void> set_plan_state(std::uint64_t job, const wire::Bytes& state) = 0;
  virtual Result<void> set_job_state(std::uint64_t job, wire::JobState state, std::int32_t status,
                                     const std::string& message, std::int64_t ended_unix_ms,
                                     const wire::Bytes& summary) = 0;
  /// One transaction for all; a record for a task that has one replaces it.
  virtual Result<void> record_accepted(const std::vector<AcceptedRecord>& records) = 0;
  /// A recheck refused it.
  virtual Result<void> withdraw_accepted(std::uint64_t job, std::uint64_t task) = 0;
  virtual Result<void> record_quarantine(const QuarantineRecord& record) = 0;
  /// One transaction for all; a record for a host that has one replaces it.
  virtual Result<void> record_standings(const std::vector<StandingRecord>& records) = 0;
  virtual Result<void> forget_standings(const std::vector<wire::Digest>& hosts) = 0;
  virtual Result<void> forget_job(std::uint64_t job) = 0;

  virtual Result<std::vector<JobRecord>> jobs() = 0;
  /// The same one at a time, in order: summaries and states of planners need not all be in memory.
  virtual Result<void> visit_jobs(const std::function<void(JobRecord)>& visit) = 0;
  /// kNotFound when there is none of that number.
  virtual Result<JobRecord> job(std::uint64_t number) = 0;
  /// In the order in which they were accepted.
  virtual Result<std::vector<AcceptedRecord>> accepted(std::uint64_t job) = 0;
  /// One of them; kNotFound when the task is not accepted.
  virtual Result<AcceptedRecord> accepted_task(std::uint64_t job, std::uint64_t task) = 0;
  virtual Result<std::vector<QuarantineRecord>> quarantines(std::uint64_t job) = 0;
  virtual Result<std::vector<StandingRecord>> standings() = 0;
};

}  // namespace goblin::store
