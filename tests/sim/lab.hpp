// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A lab node: the real scheduler and the real journal, wired as hosts/lab/engine wires them, with
// planners, checks and connections that are simulated. What must hold is watched by oracle.cpp,
// which works from what lab node and hosts saw and never from the scheduler's own books.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <unordered_map>

#include "tests/sim/job_plan.hpp"
#include "tests/sim/journal_book.hpp"
#include "tests/sim/network.hpp"
#include "tests/sim/vfs.hpp"

namespace goblin::sim {

class World;
struct SimHost;
using scheduler::HostId;
using scheduler::LeaseId;
using Pin = wire::Digest;
using Connection = std::uint64_t;

/// A result that the scheduler was told of.
struct Commit {
  LeaseId lease = 0;
  Pin host;
  std::uint64_t group = 0;
  bool trusted = false, passed = false;
  wire::Digest digest;
};

/// The lab node's view of a lease.
struct SimLease {
  HostId host = 0;
  Pin pin;
  Connection connection = 0;
  JobId job = 0;
  TaskId task = 0;
  std::uint64_t group = 0, output_bytes = 0;
  wire::Digest digest;
  bool trusted = false;
  bool committed = false, fetching = false, fetched = false, accepting = false;
  bool forgotten = false;  ///< its host was told to let go of the bytes
};

struct SimJob {
  JobId id = 0;
  const JobPlan* plan = nullptr;
  // Until the lab node stops:
  bool started = false, scheduled = false, ended = false;
  std::uint64_t next = 0, plans = 0;
  std::set<TaskId> restored;  ///< accepted before a restart, not yet planned anew
  struct Accepted {
    Pin host;
    wire::Digest digest;
  };
  std::map<TaskId, Accepted> accepted;
  std::set<TaskId> told;  ///< those of which the scheduler knows
  std::set<TaskId> rerunning, rechecking, verified;
  std::map<TaskId, std::map<Pin, std::uint32_t>> failures;
  std::map<TaskId, std::map<std::string, std::uint32_t>> failure_codes;
  std::map<TaskId, std::uint32_t> said_failed;  ///< by hosts, not yet by the scheduler
  std::map<TaskId, std::vector<Commit>> commits;
  std::vector<scheduler::AcceptResult> accepting;
  bool writing = false;
  // For ever:
  std::set<Pin> quarantined;   ///< whose quarantine was acknowledged by the journal
  std::set<Pin> caught;        ///< said by the scheduler in this life
  std::set<TaskId> withdrawn;  ///< ever
  bool disk_failed = false;    ///< a call of the journal for it has failed
  bool done = false;           ///< its end was journalled
  bool forgotten = false;      ///< … and it was removed, or that was tried
};

class Lab {
 public:
  Lab(World& world, NodeId node, std::uint64_t seed, std::vector<JobPlan> plans);
  ~Lab();

  /// Opens the journal and takes its jobs up; tries again later while the disk fails.
  void open();
  [[nodiscard]] bool up() const { return scheduler_ != nullptr; }
  [[nodiscard]] NodeId node() const { return node_; }
  [[nodiscard]] std::uint32_t wanted() const;
  /// Every job has come to its end.
  [[nodiscard]] bool done() const;
  /// At the end of a history: kills and reads once more, and looks for what should have gone.
  void final_look();
  [[nodiscard]] std::string why_open() const;

  // the scheduler's clock
  [[nodiscard]] Micros next_wakeup() const;
  void tick();

  // from the network; each ignores what comes while it is down
  void hello(Connection connection, SimHost& host, bool own_list);
  void lost(Connection connection);
  void changed(Connection connection, const scheduler::HostSpec& spec);
  void outcome(Connection connection, const scheduler::Outcome& outcome);
  void handed_back(Connection connection, LeaseId lease, Code reason);
  void heartbeat(Connection connection, const std::vector<LeaseId>& running);
  void bytes_came(LeaseId lease, std::uint64_t bytes);
  enum class Fetched : std::uint8_t { kRight, kWrong, kGone };
  void fetched(LeaseId lease, std::uint64_t fetch, Fetched how);
  /// The coordinator's word; each holds for `lease`.
  void assigned(const std::set<Pin>& hosts, Micros lease);

  // faults
  enum class Stop : std::uint8_t { kClean, kKill, kPower };
  void stop(Stop how);
  Disk& disk() { return disk_; }

  /// For tests that need a certain world: before the history begins.
  [[nodiscard]] std::vector<JobPlan>& plans() { return plans_; }
  /// Of jobs that were never short of tasks: whether hosts' time was shared by weight.
  void watch_shares(double tolerance);
  /// A host begins on a task, for so long; less than 0: it ended so much sooner.
  void computes(std::uint64_t key, double seconds);

 private:
  struct Seat {
    Connection connection = 0;
    SimHost* host = nullptr;
    HostId id = 0;
    Pin pin;
    scheduler::HostSpec spec;
  };

  // lab.cpp
  void pump();
  void on(const scheduler::PlanMore& a);
  void on(const scheduler::SendLease& a);
  void on(const scheduler::CancelLease& a);
  void on(const scheduler::FetchResult& a);
  void on(const scheduler::CheckResult& a);
  void on(const scheduler::AcceptResult& a);
  void on(const scheduler::ReleaseResult& a);
  void on(const scheduler::ForgetBytes& a);
  void on(const scheduler::Quarantine& a);
  void on(const scheduler::StandingChanged& a);
  void on(const scheduler::Recheck& a);
  void on(const scheduler::Rerun& a);
  void on(const scheduler::Incident& a);
  void on(const scheduler::FinishJob& a);
  void on(const scheduler::FailJob& a);
  void tell_release(HostId host, LeaseId lease);
  SimJob* find_job(JobId job);
  Seat* seat_of(HostId host);
  Seat* seat_of_connection(Connection connection);
  HostId id_of(const Pin& pin);
  /// Runs later, unless the lab node has stopped meanwhile.
  void later(Micros delay, Timeline::Step step);
  [[nodiscard]] Micros work_time();

  // lab_jobs.cpp
  void submit(std::size_t plan);
  void start(SimJob& job);
  void plan_more(const scheduler::PlanMore& ask);
  void end_job(SimJob& job, wire::JobState state);
  void write_end(SimJob& job, wire::JobState state, int tries);
  void write_accepted(JobId job);
  void write_standings();
  void recheck(const scheduler::Recheck& ask);
  void take_up();
  bool restore(SimJob& job);
  /// After each call of the journal: the machine may have stopped in it.
  bool still_up();

  // oracle.cpp
  void watch_send(const scheduler::SendLease& send);
  void watch_accept(const scheduler::AcceptResult& accept);
  void watch_finish(const SimJob& job);
  void watch_fail(const SimJob& job, const Error& error);
  void watch_counts(std::size_t actions);
  [[nodiscard]] std::size_t groups_for(const SimJob& job, TaskId task,
                                       const wire::Digest& digest) const;
  [[nodiscard]] const RightResults& right(const SimJob& job);
  /// What a task reads, as the lab node has it.
  [[nodiscard]] std::uint64_t before(const SimJob& job, TaskId task);

  World& world_;
  NodeId node_;
  Disk disk_;
  Mount mount_;
  std::string path_;
  std::vector<JobPlan> plans_;
  std::vector<JobId> submitted_;  ///< by plan; 0: not acknowledged
  std::vector<double> seconds_;   ///< computed, by plan
  JournalBook book_;
  Stop stopped_by_ = Stop::kClean;
  bool power_lost_ = false, opened_before_ = false;

  // Gone with the process:
  std::uint64_t life_ = 0;
  std::unique_ptr<store::LabJournal> journal_;
  std::unique_ptr<scheduler::Scheduler> scheduler_;
  std::map<Pin, HostId> ids_;
  HostId last_id_ = 0;
  std::map<HostId, Seat> seats_;
  std::map<Pin, Micros> admitted_;
  std::set<Connection> greeted_;  ///< ever
  std::map<Pin, scheduler::Standing> standings_;
  std::set<Pin> standings_due_;  ///< to be journalled
  std::unordered_map<LeaseId, SimLease> leases_;
  std::set<LeaseId> used_leases_;
  std::map<LeaseId, std::uint64_t> fetches_;  ///< counts asks, so that late answers are known
  std::uint64_t fetch_counter_ = 0;

  std::map<JobId, SimJob> jobs_;
  std::map<std::uint64_t, RightResults> right_;  ///< by key
};

}  // namespace goblin::sim
