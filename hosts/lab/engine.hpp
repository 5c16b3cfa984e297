// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The lab node's centre: turns what clients, hosts and runners say into events of the scheduler and
// carries out its actions. Loop's thread only.
//
//   engine.cpp          the pump, leases
//   engine_hosts.cpp    events of hosts
//   engine_submit.cpp   jobs come in, from clients and from the journal
//   engine_jobs.cpp     jobs run: start, plan, a plan opened anew
//   engine_prepare.cpp  planned tasks become tasks to lease
//   engine_end.cpp      leases and jobs end; ended jobs are forgotten
//   engine_files.cpp    files of jobs and of clients
//   engine_fetch.cpp    fetching, and where runners find results
//   engine_check.cpp    checking, rechecking
//   engine_accept.cpp   accepting
//   engine_report.cpp   status and explanation
//   engine_estimate.cpp how long a job will take
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "core/log/log.hpp"
#include "core/plugin/runner_client.hpp"
#include "core/scheduler/scheduler.hpp"
#include "goblin/abi/plugin.h"
#include "hosts/lab/dry_plan.hpp"
#include "hosts/lab/host_speeds.hpp"
#include "hosts/lab/job.hpp"
#include "hosts/lab/job_spec.hpp"
#include "hosts/lab/lease_frames.hpp"
#include "hosts/lab/link_survey.hpp"
#include "hosts/lab/standings.hpp"
#include "hosts/lab/turns.hpp"

namespace goblin::lab {

/// A connected host, as the engine sees it.
class HostPort {
 public:
  virtual ~HostPort() = default;
  [[nodiscard]] virtual const wire::Digest& pin() const = 0;
  /// Queues a frame; a lost connection shows elsewhere.
  virtual void send(net::Frame frame) = 0;
  virtual net::Task<Result<std::uint64_t>> fetch(wire::Digest digest,
                                                 std::shared_ptr<SlotSink> sink) = 0;
  virtual net::Task<Result<LinkMeasure>> measure_link() = 0;
  [[nodiscard]] virtual std::uint64_t bytes_sent() const = 0;
  [[nodiscard]] virtual std::uint64_t bytes_received() const = 0;
};

/// What the scheduler sees of a host.
scheduler::HostSpec host_spec(const wire::HostCapacity& capacity, wire::HostState state,
                              bool trusted, std::uint64_t group);

/// A plugin that implements a kind.
struct PluginFile {
  wire::Digest digest;
  std::uint32_t kind_index = 0;
  std::string kind;                            ///< with version: "matmul/1"
  std::shared_ptr<const net::UniqueFd> memfd;  ///< sealed
};
class PluginSource {
 public:
  virtual ~PluginSource() = default;
  /// kNotFound lists the kinds there are.
  virtual net::Task<Result<PluginFile>> find(KindName kind) = 0;
  virtual net::Task<Result<PluginFile>> find(wire::Digest plugin, std::uint32_t kind_index) = 0;
  /// Is it known that the plugin may not run any more?
  [[nodiscard]] virtual bool revoked(const wire::Digest& plugin) const = 0;
  /// Every plugin once (kind_index 0).
  virtual net::Task<Result<std::vector<PluginFile>>> all() = 0;
};

struct EngineOptions {
  scheduler::Config scheduler;
  validation::Trust trust;                    ///< for policy adaptive
  plugin::RunnerOptions runner;               ///< program, backend, device; plugin is filled in
  net::Milliseconds plan_deadline{120'000};   ///< for one answer of a planner
  net::Milliseconds check_deadline{600'000};  ///< for one batch of checks
  std::uint64_t retry_ms = 5'000;  ///< a job whose files cannot be opened now tries again then
  std::uint64_t stage_keep_ms = 24ULL * 3600 * 1000;  ///< staged and not submitted: removed then
  std::uint32_t max_jobs = 256;                       ///< that have not ended: each has two runners
  std::uint64_t result_keep_ms = 7ULL * 24 * 3600 * 1000;  ///< ended jobs are forgotten after this
  /// Keys of hosts that are remembered, with their totals. Beyond it those that left first are
  /// forgotten, but for those that a running job knows: keys cost nothing.
  std::size_t max_known_hosts = 100'000;
};

class Engine {
 public:
  Engine(net::Loop& loop, store::LabJournal& journal, store::Staging& staging,
         PluginSource& plugins, EngineOptions options, log::Logger logger);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Takes up the journal's jobs and removes staging files that none of them names.
  net::Task<Result<void>> restore();
  /// Spawns what runs for the engine's life: the clock of the scheduler.
  void start();
  /// Stops runners; jobs stay in the journal.
  void shut_down();

  // hosts
  scheduler::HostId host_joined(std::shared_ptr<HostPort> port, const wire::HostCapacity& capacity,
                                wire::HostState state, bool trusted, std::uint64_t group);
  void host_changed(scheduler::HostId host, const wire::HostCapacity& capacity,
                    wire::HostState state);
  /// Ignored unless `port` is the host's present connection.
  void host_left(scheduler::HostId host, const HostPort* port);
  /// kCorrupt when the message is impossible (a place outside the payload): close the connection.
  Result<void> results(scheduler::HostId host, const wire::Results& results,
                       const wire::Bytes& payload);
  void handed_back(scheduler::HostId host, const wire::HandBack& message);
  void heartbeat(scheduler::HostId host, const wire::Heartbeat& message);
  /// What a host may pull: the inputs of its leases.
  Result<std::shared_ptr<net::BlobSource>> find_blob(scheduler::HostId host,
                                                     const wire::Digest& digest);

  /// Jobs of plugins that were revoked fail.
  void catalogue_changed();

  // clients
  struct Outputs {
    wire::JobStatus status;
    std::vector<net::UniqueFd> fds;  ///< one per staged output, in order
  };
  net::Task<Result<wire::ReplyBody>> submit(wire::Submit submit, std::vector<net::UniqueFd> fds);
  Result<wire::JobStatus> status(std::uint64_t job) const;
  wire::JobList jobs() const;
  net::Task<Result<wire::Explanation>> explain(std::uint64_t job);
  /// How long what is left of it will take. Moves some MiB over each host's link, at most once a
  /// minute. kUnavailable without a host.
  net::Task<Result<wire::Estimated>> estimate(std::uint64_t job);
  net::Task<Result<void>> cancel(std::uint64_t job);
  net::Task<Result<Outputs>> result(std::uint64_t job);
  net::Task<Result<void>> forget(std::uint64_t job);
  wire::HostList hosts() const;
  net::Task<Result<wire::KindList>> kinds();
  /// A job to follow, null if there is none: whoever holds it sees its end, also when it is
  /// forgotten at once.
  [[nodiscard]] std::shared_ptr<Job> follow(std::uint64_t job) const { return find_job(job); }
  /// Waits until the job's version is not `seen`; answers the new one.
  net::Task<std::uint64_t> wait_change(std::shared_ptr<Job> job, std::uint64_t seen);
  [[nodiscard]] wire::JobStatus status_of(const Job& job) const;
  [[nodiscard]] std::uint32_t running_jobs() const;
  /// What is kept in memory for hosts and running jobs, counted; `goblin lab status` shows it.
  struct Footprint {
    std::size_t hosts = 0;  ///< connected
    std::size_t leases = 0, blobs = 0, grants = 0, tasks = 0, views = 0;
  };
  [[nodiscard]] Footprint footprint() const;
  /// Makes a staging file that no job names yet; removed when its client goes without using it.
  net::Task<Result<store::Staging::File>> stage(std::uint64_t bytes);
  /// False once it was removed: it was not submitted for EngineOptions::stage_keep_ms.
  [[nodiscard]] bool is_staged(std::uint64_t stage) const { return loose_stages_.contains(stage); }
  /// Clients take turns: at the disk, and where runners are started for them.
  Turns& disk_turns() { return disk_turns_; }
  Turns& runner_turns() { return runner_turns_; }
  net::Task<void> unstage(std::vector<std::uint64_t> stages);

 private:
  struct HostEntry {
    std::shared_ptr<HostPort> port;
    wire::HostCapacity capacity;
    wire::HostState state = wire::HostState::kReady;
    bool trusted = false;
    std::uint64_t group = 0;
    std::unordered_map<wire::Digest, std::uint32_t> granted;  ///< blobs of its leases, counted
  };
  struct LeaseEntry {
    scheduler::HostId host = 0;
    wire::Digest pin;
    std::shared_ptr<Job> job;
    std::shared_ptr<const PreparedTask> task;
    wire::TaskResult result;
    wire::Bytes payload;     ///< inline bytes of its outputs, one after another
    bool answered = false;   ///< the first result counts; the scheduler hears of others, too
    bool doubted = false;    ///< see Doubt
    bool grants = true;      ///< counted in HostEntry::granted
    bool malformed = false;  ///< outputs that are not what the task asks for
    bool forgotten = false;  ///< its host was told to let go of the bytes
    std::optional<Slot> slot;

    /// Outputs that stand in the frame of the result are kept by nobody.
    [[nodiscard]] bool host_keeps_bytes() const {
      return !answered || std::any_of(result.outputs.begin(), result.outputs.end(),
                                      [](const auto& output) { return !output.is_inline(); });
    }
  };
  using LeaseMap = std::unordered_map<std::uint64_t, LeaseEntry>;
  using JobPtr = std::shared_ptr<Job>;

  // engine.cpp
  void pump_soon();
  void pump();
  [[nodiscard]] scheduler::Micros now() const;
  net::Task<void> run_clock();
  void touch(Job& job);
  void on(const scheduler::PlanMore& action);
  void on(const scheduler::SendLease& action);
  void on(const scheduler::CancelLease& action);
  void on(const scheduler::FetchResult& action);
  void on(const scheduler::CheckResult& action);
  void on(const scheduler::AcceptResult& action);
  void on(const scheduler::ReleaseResult& action);
  void on(const scheduler::ForgetBytes& action);
  void on(const scheduler::Quarantine& action);
  void on(const scheduler::StandingChanged& action);
  void on(const scheduler::Recheck& action);
  void on(const scheduler::Rerun& action);
  void on(const scheduler::Incident& action);
  void on(const scheduler::FinishJob& action);
  void on(const scheduler::FailJob& action);
  void flush_leases();
  void drop_lease(std::uint64_t lease);
  void forget_lease(LeaseMap::iterator lease);
  /// A lease that came to nothing, of which the scheduler says no more.
  void lease_failed(std::uint64_t lease);
  /// Why the scheduler will say that a result is refused, or could not be fetched.
  static void saw_wrong(Job& job, std::uint64_t task, const wire::Digest& host, std::string why);
  void note_incident(Job& job, std::uint64_t task, const wire::Digest& host, std::string what,
                     std::string detail);
  JobPtr find_job(std::uint64_t job) const;
  const HostEntry* find_connected(const wire::Digest& pin) const;
  /// A key keeps its number until it is forgotten; no number is given out twice.
  scheduler::HostId id_of(const wire::Digest& pin);
  wire::Digest pin_of(scheduler::HostId host) const;
  void forget_hosts();
  [[nodiscard]] Clocks clocks() const;
  /// Writes what hosts have earned, now and then.
  net::Task<void> keep_standings();
  [[nodiscard]] validation::PolicySpec policy_of(const store::JobRecord& record) const;

  // engine_jobs.cpp
  net::Task<Result<std::shared_ptr<MappedRunner>>> start_runner(
      std::shared_ptr<const net::UniqueFd> memfd);
  net::Task<void> run_job(JobPtr job);
  net::Task<Result<void>> open_plan(JobPtr job);
  net::Task<Result<void>> adopt_kept(JobPtr job);
  net::Task<Result<void>> replay_accepted(JobPtr job);
  net::Task<Result<void>> start_runners(JobPtr job);
  net::Task<void> planner_broke(JobPtr job, Error error);
  /// Opens the job's files on a worker. `fds`: what came with the submission; null after a restart.
  net::Task<Result<void>> open_files(JobPtr job, std::shared_ptr<std::vector<net::UniqueFd>> fds);
  /// Whether the job's files are apart from each other and from those of running jobs.
  [[nodiscard]] Result<void> files_apart(const Job& job) const;
  /// Whether nobody cut, removed or replaced the researcher's files that the job writes to.
  net::Task<Result<void>> out_files_hold(JobPtr job);
  /// Leaves only what a job that has ended still needs in memory; the journal has the rest.
  static void trim(store::JobRecord& record);
  /// Staged inputs, and outputs if asked for, of a job.
  static std::vector<std::uint64_t> stages_of(const Job& job, bool outputs_too);
  net::Task<void> remove_stages(std::vector<std::uint64_t> stages);
  net::Task<void> forget_old();
  net::Task<void> unstage_old();
  net::Task<void> finish_job(JobPtr job);
  net::Task<void> end_job(JobPtr job, wire::JobState state, Error error);
  static Error revoked_error(const Job& job);
  void close_job(Job& job);
  wire::Capacity capacity_now(const Job& job) const;
  net::Task<void> plan_more(JobPtr job, scheduler::PlanMore action);
  net::Task<Result<std::shared_ptr<PreparedTask>>> prepare(JobPtr job, wire::PlannedTask planned);
  static scheduler::ReadyTask ready_task(std::uint64_t job, const PreparedTask& task);
  net::Task<Result<void>> hash_windows(JobPtr job, std::shared_ptr<PreparedTask> task);
  Result<std::shared_ptr<PreparedTask>> bind(Job& job, wire::PlannedTask planned) const;

  // engine_fetch.cpp, engine_check.cpp, engine_accept.cpp
  net::Task<void> fetch(std::uint64_t lease);
  /// Tells the scheduler which results have grown.
  void report_fetches();
  void store_inline(std::uint64_t lease);
  net::Task<void> check_loop(JobPtr job);
  net::Task<Result<wire::Checked>> run_checks(JobPtr job, const std::vector<std::uint64_t>& leases);
  net::Task<void> accept_loop(JobPtr job);
  net::Task<Result<void>> accept_batch(JobPtr job, std::vector<scheduler::AcceptResult> batch);
  /// Whether the task's inputs still have the bytes that hosts were sent. If not, the researcher's
  /// file was changed: the job fails and says so, and no host is to blame.
  /// `sound`: digests that need not be looked at again; grows.
  using Sound = std::shared_ptr<std::unordered_set<wire::Digest>>;
  net::Task<bool> inputs_hold(JobPtr job, std::shared_ptr<const PreparedTask> task, Sound sound);
  net::Task<bool> inputs_of_leases_hold(JobPtr job, std::vector<std::uint64_t> leases);
  /// A host says that bytes of a lease's inputs are not what their digests say. Before that counts
  /// against it the inputs are hashed again; the scheduler hears of it afterwards.
  void doubt(std::uint64_t lease, scheduler::HostId host,
             std::optional<scheduler::Outcome> outcome);
  net::Task<void> settle_doubts(JobPtr job);
  net::Task<void> recheck_loop(JobPtr job);
  net::Task<void> recheck(JobPtr job, scheduler::Recheck action);
  net::Task<Result<scheduler::Verdict>> recheck_verdict(JobPtr job, std::uint64_t task);
  net::Task<Result<wire::RunnerTask>> runner_task(JobPtr job, MappedRunner& runner,
                                                  std::shared_ptr<const PreparedTask> task,
                                                  Slot slot, std::uint64_t id);
  net::Task<Result<std::vector<wire::TensorAt>>> outputs_at(
      JobPtr job, MappedRunner& runner, std::shared_ptr<const PreparedTask> task, Slot slot,
      bool writable);
  JobPtr make_job();
  /// A slot for a result of the job; made on a worker where no file has room. kCancelled when the
  /// job ended, or its plan was opened anew, meanwhile.
  net::Task<Result<Slot>> allocate_slot(JobPtr job, std::uint64_t bytes);
  net::Task<void> release_slot(JobPtr job, Slot slot);
  /// Nobody is leased the task any more: its blobs go when no other task has them.
  void drop_task(Job& job, std::uint64_t task);
  void forget_blobs(Job& job);
  /// The task's result was withdrawn: views on it have other bytes from now on.
  void forget_views_of(Job& job, std::uint64_t task);
  net::Task<Result<std::vector<wire::TensorAt>>> inputs_at(
      JobPtr job, MappedRunner& runner, std::shared_ptr<const PreparedTask> task);

  // engine_estimate.cpp
  /// `told` has what is known without hosts.
  net::Task<Result<wire::Estimated>> forecast(std::shared_ptr<MappedRunner> runner,
                                              DryPlanRequest request, validation::PolicySpec policy,
                                              std::string kind, wire::Estimated told);
  [[nodiscard]] std::uint32_t running_beside(std::uint64_t job) const;
  static Computation computation_of(const store::JobRecord& record);

  // engine_report.cpp
  [[nodiscard]] std::string why_unplanned(const Job& job) const;
  wire::Explanation explain_job(const Job& job) const;

  /// Runs a journal call on a worker, one at a time.
  template <typename F>
  auto with_journal(F&& fn) {
    static_assert(net::kSafeInAwait<F>, "name the function first: see core/net/task.hpp");
    auto call = [this, own = std::decay_t<F>(std::forward<F>(fn))]() mutable {
      const std::lock_guard<std::mutex> lock(journal_mutex_);
      return own(journal_);
    };
    return loop_.offload(call);
  }

  /// What the loops of checking and accepting still have to do for a job.
  struct Queues {
    std::vector<std::uint64_t> check;
    std::vector<scheduler::AcceptResult> accept;
    bool checking = false, accepting = false;
  };

  net::Loop& loop_;
  store::LabJournal& journal_;
  std::mutex journal_mutex_;
  store::Staging& staging_;
  PluginSource& plugins_;
  EngineOptions options_;
  log::Logger logger_;
  std::unique_ptr<scheduler::Scheduler> scheduler_;

  std::map<std::uint64_t, JobPtr> jobs_;
  std::map<std::array<std::uint8_t, 16>, std::uint64_t> by_token_;  ///< of jobs_
  std::unordered_map<scheduler::HostId, HostEntry> hosts_;
  std::map<wire::Digest, wire::HostReport> past_hosts_;  ///< totals by pin
  std::map<wire::Digest, scheduler::HostId> host_ids_;
  Standings standings_;
  HostSpeeds speeds_;
  LinkSurvey survey_;
  struct KnownHost {
    wire::Digest pin;
    net::TimePoint left;
  };
  std::unordered_map<scheduler::HostId, KnownHost> known_hosts_;
  scheduler::HostId last_host_id_ = 0;  ///< number 0 is no host
  std::size_t forget_hosts_at_ = 0;     ///< so many are known
  LeaseMap leases_;
  std::unordered_map<std::uint64_t, Queues> queues_;  ///< by job
  struct Arriving {
    std::shared_ptr<SlotSink> sink;
    std::uint64_t reported = 0;  ///< bytes
  };
  std::unordered_map<std::uint64_t, Arriving> fetches_;  ///< by lease
  net::TimePoint fetches_reported_{};
  /// Who has a blob's bytes: jobs with the same array have the same blobs.
  std::unordered_map<wire::Digest, std::map<std::uint64_t, TensorFile>> blobs_;
  struct Outgoing {
    LeaseFrames leases;
    wire::CancelLeases cancel;
    wire::ReleaseResults release;
  };
  std::unordered_map<scheduler::HostId, Outgoing> outgoing_;
  std::unordered_map<std::uint64_t, net::TimePoint> loose_stages_;  ///< staged, named by no job yet
  std::uint32_t submissions_ = 0;                                   ///< under way
  std::unordered_set<JobPtr> arriving_;  ///< submitted, not yet in jobs_: their files count
  std::map<wire::Digest, std::vector<wire::KindDescription>> descriptions_;
  /// Turns are taken in this order, so that nobody waits in a circle: at runners, at the disk, at
  /// making files for results, at removing files.
  Turns runner_turns_, disk_turns_, result_turns_, removal_turns_;
  net::Event hosts_changed_;
  net::Event standings_due_;  ///< a fault: write at once
  net::Event clock_;
  bool pump_posted_ = false;
  bool stopped_ = false;
};

}  // namespace goblin::lab
