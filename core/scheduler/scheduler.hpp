// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Which host computes which task when. Pure logic over a clock that the caller passes in and
// actions that the caller carries out: no socket, thread, file or hidden randomness, so that a
// simulation can drive it. One instance per lab node; one thread.
//
// Every event returns nothing; what follows from it is collected with take_actions(), in order.
// Placement happens in take_actions() too, so a batch of events costs one round of it: call it
// after every event or batch of events. What hosts, planners and checks may get wrong (unknown,
// repeated, late or reordered leases and tasks) is ignored.
// Cost: an event of a lease is O(log n) in hosts and tasks, and a placement compares up to
// Config::placement_window ready tasks (an idle host looks through all of them at most every 50
// ms). Events that change who is here are dearer: host_joined, host_changed and host_left look at
// every job and recompute each job's view of the hosts, O(hosts * jobs), and quarantines and failed
// tasks look at all tasks of the job or all hosts. The caller bounds how often a host may cause
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/scheduler/capacity.hpp"
#include "core/validation/validation.hpp"
#include "core/wire/values.hpp"

namespace goblin::scheduler {

using JobId = std::uint64_t;
using TaskId = std::uint64_t;  ///< the planner's number
using validation::HostId;
using validation::LeaseId;
using validation::Verdict;
using Micros = std::uint64_t;  ///< time on the caller's monotonic clock

struct Config {
  std::uint32_t placement_window = 64;  ///< ready tasks compared for a free slot
  std::uint32_t ready_per_host = 4;     ///< tasks kept planned per host, at least
  std::uint32_t max_ready = 4096;       ///< and at most in all, per job
  Micros queue_target = 250'000;        ///< work queued at a host: so long, or two tasks
  double straggler_factor = 2.0;        ///< second start when so many times slower than expected
  double deadline_factor = 8.0;         ///< a lease ends at so many times the expected time …
  Micros deadline_floor = 20'000'000;   ///< … but never before this, and
  Micros first_deadline = 600'000'000;  ///< this long while nothing is known of host or job
  Micros straggler_floor = 200'000;     ///< no second start of a lease younger than this,
  Micros blind_floor = 30'000'000;      ///< or than this where nobody knows how long it may take,
  Micros fetch_floor = 5'000'000;       ///< nor for a fetch younger than this,
  Micros first_fetch = 30'000'000;      ///< or than this while no fetch has ended yet, unless
  Micros fetch_silence = 5'000'000;     ///< no byte of any result of its host came for so long.
  double fetch_pace = 1024;             ///< Fewer bytes per second than this are none
  /// A host that did not deliver so many results of a job gets no more work of it, whether it
  /// connects anew or not; four delivered results make up for one.
  std::uint32_t max_failed_fetches = 3;
  std::uint32_t max_attempts = 5;  ///< failures (not refusals or departures) of one task
  /// Outputs that a host has committed to and that wait for their judgement: so many bytes and so
  /// many results, then it gets no more work. Bounds what hosts and lab node must keep.
  std::uint64_t max_unjudged_bytes = 256u << 20;
  std::uint32_t max_unjudged = 4096;
  /// Pause of a host that hands back or does not deliver; where its tasks keep failing, as far as
  /// the job is concerned that they are of …
  Micros backoff_min = 100'000;
  Micros backoff_max = 30'000'000;  ///< … doubled each time up to this, ended by a success
  /// A host of which so many results were found right since its last fault is not barred for a
  /// wrong one: memory flips a bit now and then. What rests on its word alone is checked anew all
  /// the same.
  std::uint64_t forgive_after = 1000;
  /// A host that was caught in a second job gets no work of any for so long, doubled each time.
  Micros suspend_min = 600'000'000;
  Micros suspend_max = 604'800'000'000;
  /// A drawn host takes a replica before others may: for as long as it needs for that and what it
  /// was drawn for before, within these.
  Micros draw_min = 50'000;
  Micros draw_max = 30'000'000;
  Micros draw_blind = 5'000'000;  ///< where nobody knows how long it takes
  /// 64 random bits for choices that hosts must not predict: leases' numbers, which host
  /// recomputes, what is recomputed. None: repeatable numbers from `seed`, for simulations.
  std::function<std::uint64_t()> random;
  std::uint64_t seed = 0;
};

/// What a lab node remembers of a host across jobs and restarts.
struct Standing {
  std::uint64_t passed = 0;    ///< results that a check or a trusted host found right, since …
  std::uint32_t faults = 0;    ///< … the last wrong one; wrong ones that were not forgiven
  std::uint32_t forgiven = 0;  ///< and those that were
  Micros suspended_until = 0;  ///< it gets no work before
  friend bool operator==(const Standing&, const Standing&) = default;
};

/// A HostId names one host (one key) for as long as the scheduler lives, whether it is connected or
/// not: quarantines outlive connections.
struct HostSpec {
  std::uint64_t memory_bytes = 0;
  std::uint64_t cache_bytes = 0;
  std::uint32_t slots = 1;
  std::uint32_t threads = 1;
  /// A validator; it gets only validation work unless it is the only kind. One whose result was
  /// proven wrong is none any more, until so many of its results were right as forgive a fault.
  bool trusted = false;
  std::uint64_t group = 0;  ///< hosts of one group are not independent (one account, one address)
  bool accepting = true;    ///< false: paused or stopping, no new leases
};

struct TaskInput {
  wire::Digest digest;
  std::uint64_t bytes = 0;
};
/// A task that can run now. Small inline inputs are left out of `inputs`.
struct ReadyTask {
  JobId job = 0;
  TaskId task = 0;
  double flops = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t output_bytes = 0;
  std::vector<TaskInput> inputs;
};

/// What the host said of a lease.
struct Outcome {
  LeaseId lease = 0;
  std::int32_t status = GOBLIN_OK;  ///< or a closed code
  wire::Digest digest;              ///< over all outputs
  Micros compute = 0;
  Micros fetch = 0;
};

// ---- actions ----

/// Ask the job's planner for at most `max_tasks` tasks for a host with so much memory, or for those
/// who must decide on them and have less. `hosts` and `min_memory_bytes`: see Cut.
struct PlanMore {
  JobId job;
  std::uint32_t max_tasks;
  std::uint64_t memory_bytes, min_memory_bytes, hosts;
  std::uint32_t threads;
};
struct SendLease {
  HostId host;
  LeaseId lease;
  JobId job;
  TaskId task;
  Micros deadline;  ///< from now: the host gives up then, the scheduler perhaps before
};
/// The host need not go on with it.
struct CancelLease {
  HostId host;
  LeaseId lease;
};
/// Pull the bytes of a committed result; answer fetched() or fetch_failed(), and meanwhile, at
/// least before every tick() and host_left(), fetch_progress() if there is any.
struct FetchResult {
  HostId host;
  LeaseId lease;
  JobId job;
  TaskId task;
};
/// Run the kind's check on fetched bytes; answer checked().
struct CheckResult {
  LeaseId lease;
  JobId job;
  TaskId task;
};
/// The result is right: journal it, hand it to the planner; answer accepted().
struct AcceptResult {
  LeaseId lease;
  HostId host;
  JobId job;
  TaskId task;
  wire::Digest digest;
  std::vector<HostId> confirmed{};  ///< others whose equal results it was accepted with
};
/// Bytes or commitment no longer needed: drop them, tell the host (if it is still there). Comes
/// after accepted() for an accepted result. May name a lease that is unknown or over: a result that
/// came too late.
struct ReleaseResult {
  HostId host;
  LeaseId lease;
};
/// The bytes are here, or another copy of them: the host need not keep them. The lease goes on.
struct ForgetBytes {
  HostId host;
  LeaseId lease;
};
/// A result of this host was wrong: no more work of this job goes to it. Said once per job and
/// host.
struct Quarantine {
  JobId job;
  HostId host;
  TaskId task;
  std::string reason;
};
/// What is known of a host changed: keep it, for restore_standing(). Said once for many changes.
/// `fault`: by a result that was wrong; whoever runs the host should hear of it.
struct StandingChanged {
  HostId host;
  Standing standing;
  bool fault = false;
};
/// An accepted result of a host that was caught later: check it anew (fresh seed); answer
/// rechecked(). The job does not end before.
struct Recheck {
  JobId job;
  TaskId task;
  HostId host;
};
/// An accepted result fell at its recheck and the task must be computed anew: hand the task in
/// again with task_ready(). The job does not end before.
struct Rerun {
  JobId job;
  TaskId task;
};
/// For explain(): a start of a task that came to nothing, or what else people should hear of.
struct Incident {
  JobId job;
  TaskId task;
  HostId host;
  std::string what;
  bool refused = false;  ///< its result was wrong
  bool note = false;     ///< nothing failed
};
/// Every task is accepted and none waits for a recheck. Said once; remove_job() is still due.
struct FinishJob {
  JobId job;
};
/// The job cannot go on; its leases were cancelled. Said once; remove_job() is still due.
struct FailJob {
  JobId job;
  Error error;
};
using Action = std::variant<PlanMore, SendLease, CancelLease, FetchResult, CheckResult,
                            AcceptResult, ReleaseResult, ForgetBytes, Quarantine, StandingChanged,
                            Recheck, Rerun, Incident, FinishJob, FailJob>;

/// Numbers for progress, status and tests.
/// planned == ready + leased + judging + accepted, with tasks to be run again among the ready.
struct JobCounts {
  std::uint64_t ready = 0, leased = 0, judging = 0, accepted = 0, planned = 0;
  std::uint64_t refused = 0, failed = 0, second_starts = 0, rechecks = 0;
  double flops_accepted = 0;
  bool plan_done = false;
};
struct HostCounts {
  std::uint32_t leases = 0;
  std::uint64_t accepted = 0, refused = 0, failed = 0;
  Standing standing;
  double flops_per_s = 0;   ///< estimate, 0 while unknown
  bool trusted = false;     ///< a validator that has kept its role
  std::string idle_reason;  ///< empty while it has leases
};

/// What is kept in memory, counted: tests bound it.
struct Footprint {
  std::size_t jobs = 0, tasks = 0, leases = 0;
  std::size_t hosts = 0;  ///< those that left among them
  std::size_t blobs = 0;  ///< inputs of tasks, and what hosts are thought to hold
  std::size_t timers = 0;
};

/// Contract of fairness: among jobs that could use a free slot, the one with the least work done
/// and leased (predicted seconds) per weight goes first, so shares follow weights.
class Scheduler {
 public:
  static std::unique_ptr<Scheduler> create(const Config& config);
  virtual ~Scheduler() = default;

  // jobs
  virtual void add_job(JobId job, validation::PolicySpec policy, std::uint32_t weight,
                       Micros now) = 0;
  /// After a restart: these tasks are accepted already (and were planned).
  virtual void restore_accepted(JobId job, TaskId task, double flops, HostId host) = 0;
  /// After a restart, after restore_accepted(): this host was quarantined in the job. Says nothing
  /// but the rechecks of what rests on its word alone.
  virtual void restore_quarantine(JobId job, HostId host) = 0;
  /// Ends a job (cancelled, failed): its leases are cancelled, nothing more is said of it.
  virtual void remove_job(JobId job, Micros now) = 0;
  /// The planner's answer to PlanMore: tasks became ready (already accepted ones are not passed
  /// in); then planned() says how it stands.
  virtual void task_ready(ReadyTask task, Micros now) = 0;
  /// `exhausted`: the planner had nothing for that much memory (`need_bytes` would do).
  virtual void planned(JobId job, std::uint32_t progress /* GOBLIN_PLAN_* */, bool exhausted,
                       std::uint64_t need_bytes, Micros now) = 0;

  // hosts
  virtual void host_joined(HostId host, const HostSpec& spec, Micros now) = 0;
  /// What was known of the host before a restart. For a host that has joined.
  virtual void restore_standing(HostId host, const Standing& standing, Micros now) = 0;
  /// When it accepts no more, leases that no heartbeat has named as begun are cancelled and go to
  /// others; say heartbeat() first. What its cache cannot hold any more is forgotten.
  virtual void host_changed(HostId host, const HostSpec& spec, Micros now) = 0;
  /// Its leases end; results that were not fetched are lost. That counts against a host that sent
  /// nothing at all while they were being fetched.
  virtual void host_left(HostId host, Micros now) = 0;

  // leases
  /// `from` is the host that says so: it speaks for its own leases only.
  virtual void outcome(HostId from, const Outcome& outcome, Micros now) = 0;
  /// kUnavailable and kCancelled (paused, stopping, no room): nobody's fault. kUnsupported: the
  /// host gets no task of the job any more, until it joins anew. Any other reason is a failure of
  /// the task, as an outcome with that status would be.
  virtual void handed_back(HostId from, LeaseId lease, Code reason, Micros now) = 0;
  /// Moves the deadlines of the leases that it names, each up to its limit, and of those that queue
  /// behind them.
  virtual void heartbeat(HostId host, const std::vector<LeaseId>& running, Micros now) = 0;
  /// So many bytes of the result have come since this was last said of it. They need not be right.
  virtual void fetch_progress(LeaseId lease, std::uint64_t bytes, Micros now) = 0;
  virtual void fetched(LeaseId lease, Micros now) = 0;
  /// `wrong`: the bytes do not hash to what the host had committed to.
  virtual void fetch_failed(LeaseId lease, bool wrong, Micros now) = 0;
  virtual void checked(LeaseId lease, Verdict verdict, Micros now) = 0;
  virtual void accepted(JobId job, TaskId task, Micros now) = 0;
  /// kAccept: stands. kReject: the task runs again (Rerun). kAbstain: the task runs again and its
  /// digest decides.
  virtual void rechecked(JobId job, TaskId task, Verdict verdict, Micros now) = 0;

  /// Deadlines, stragglers. Call it at least when next_wakeup() says.
  virtual void tick(Micros now) = 0;
  [[nodiscard]] virtual Micros next_wakeup() const = 0;  ///< max() when nothing is due

  virtual std::vector<Action> take_actions() = 0;
  /// What a job that is not known yet would be cut for now.
  [[nodiscard]] virtual Cut cut_now(const validation::PolicySpec& policy) const = 0;
  [[nodiscard]] virtual JobCounts job_counts(JobId job) const = 0;
  [[nodiscard]] virtual HostCounts host_counts(HostId host) const = 0;
  [[nodiscard]] virtual Footprint footprint() const = 0;
  /// Empty while something of the job runs as expected; else why nothing does ("no host is
  /// connected", "each task needs 300 MiB and no host offers more than 256 MiB", …) or what runs
  /// for long ("task 3 has been running for 60 s on host 7"). `name`: how to call a host.
  using HostName = std::function<std::string(HostId)>;
  [[nodiscard]] virtual std::string waiting_reason(JobId job, const HostName& name) const = 0;
  [[nodiscard]] std::string waiting_reason(JobId job) const {
    return waiting_reason(job, [](HostId host) { return std::to_string(host); });
  }
};

}  // namespace goblin::scheduler
