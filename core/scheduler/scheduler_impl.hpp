// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The scheduler's one implementation; its functions stand in jobs.cpp, planning.cpp, hosts.cpp,
// leases.cpp, judging.cpp, audits.cpp, standing.cpp, draws.cpp, placement.cpp, second_start.cpp and
// explain.cpp. Private to this folder.
#pragma once

#include <functional>
#include <map>
#include <queue>

#include "core/scheduler/state.hpp"

namespace goblin::scheduler {

class SchedulerImpl final : public Scheduler {
 public:
  explicit SchedulerImpl(const Config& config);
  ~SchedulerImpl() override;

  void add_job(JobId job, validation::PolicySpec policy, std::uint32_t weight, Micros now) override;
  void restore_accepted(JobId job, TaskId task, double flops, HostId host) override;
  void restore_quarantine(JobId job, HostId host) override;
  void remove_job(JobId job, Micros now) override;
  void task_ready(ReadyTask task, Micros now) override;
  void planned(JobId job, std::uint32_t progress, bool exhausted, std::uint64_t need_bytes,
               Micros now) override;
  void host_joined(HostId host, const HostSpec& spec, Micros now) override;
  void restore_standing(HostId host, const Standing& standing, Micros now) override;
  void host_changed(HostId host, const HostSpec& spec, Micros now) override;
  void host_left(HostId host, Micros now) override;
  void outcome(HostId from, const Outcome& outcome, Micros now) override;
  void handed_back(HostId from, LeaseId lease, Code reason, Micros now) override;
  void heartbeat(HostId host, const std::vector<LeaseId>& running, Micros now) override;
  void fetch_progress(LeaseId lease, std::uint64_t bytes, Micros now) override;
  void fetched(LeaseId lease, Micros now) override;
  void fetch_failed(LeaseId lease, bool wrong, Micros now) override;
  void checked(LeaseId lease, Verdict verdict, Micros now) override;
  void accepted(JobId job, TaskId task, Micros now) override;
  void rechecked(JobId job, TaskId task, Verdict verdict, Micros now) override;
  void tick(Micros now) override;
  [[nodiscard]] Micros next_wakeup() const override;
  std::vector<Action> take_actions() override;
  [[nodiscard]] Cut cut_now(const validation::PolicySpec& policy) const override;
  [[nodiscard]] JobCounts job_counts(JobId job) const override;
  [[nodiscard]] HostCounts host_counts(HostId host) const override;
  [[nodiscard]] Footprint footprint() const override;
  using Scheduler::waiting_reason;
  [[nodiscard]] std::string waiting_reason(JobId job, const HostName& name) const override;

 private:
  using HungryKey = std::pair<std::pair<Micros, std::uint32_t>, HostId>;

  // lookup
  Job* find_job(JobId job) const;
  Host* find_host(HostId host) const;
  Lease* find_lease(LeaseId lease);
  void advance(Micros now) { now_ = std::max(now_, now); }
  void say(Action action) { actions_.push_back(std::move(action)); }

  // jobs.cpp
  void fail_job(Job& job, Error error);
  void end_leases(Job& job);
  void record_accepted(Job& job, Task& task, const std::vector<HostId>& voters);
  void recheck_unsupported(Job& job, HostId host);
  void demand_recheck(Job& job, TaskId task, HostId host);
  void forget_task(Job& job, Task& task);
  void book(Job& job, double seconds);
  void update_runnable(Job& job);
  void mark(Job& job);
  const JobView& view(Job& job) const;

  // planning.cpp
  void maybe_plan(Job& job);
  const Cut& cut(Job& job) const;
  void maybe_finish(Job& job);
  std::uint64_t ready_target(Job& job) const;
  const Host* host_to_plan_for(Job& job);

  // hosts.cpp
  void take_back_waiting(Host& host);
  void drop_host_leases(Host& host, std::string_view why);
  void hosts_changed();
  void rejudge_by_digest(Job& job);
  void mark(Host& host);
  void update_hunger(Host& host);
  bool wants_work(const Host& host) const;
  bool may_begin(const Host& host) const;
  void set_back(Host& host);
  void set_back(Job& job, Host& host);
  Micros backoff(std::uint32_t setbacks) const;
  bool pauses(const Job& job, const Host& host) const;
  void wake_at(Host& host, Micros when);
  void forget_oldest_host();

  // leases.cpp
  void end_running(Lease& lease);  ///< takes it from host, task and job; it dies
  void end_committed(Lease& lease);
  void unlink(std::vector<Lease*>& list, Lease& lease);
  void lease_failed(Lease& lease, Code code, std::string what);
  void host_says_failed(Lease& lease, Code code);
  void unsuited(Job& job, const Task& task, Host& host);
  void observe(Lease& lease, const Outcome& outcome);
  void expire(Host& host);
  void learn(Lease& lease);

  // explain.cpp
  std::string running_reason(const Job& job, const HostName& name) const;
  std::string undecided_reason(Job& job, const HostName& name) const;
  std::string busy_reason(const Job& job) const;

  // judging.cpp
  void queue_judge(Task& task);
  void settle();
  void judge(Task& task);
  void begin_fetch(Lease& lease);
  void end_fetch(Lease& lease);
  void fetch_is_late(Lease& lease);
  static Micros fetch_due(const Lease& lease);
  [[nodiscard]] bool sends_nothing(const Lease& lease) const;
  void not_delivered(Lease& lease);
  void count_undelivered(Job& job, const Task& task, HostId host);
  [[nodiscard]] std::map<JobId, const Task*> kept_back(const Host& host) const;
  void end_running_of(Job& job, Host& host);
  void accept(Task& task, Lease& lease);
  void look_for_more(Task& task);
  void refuse(Task& task, const validation::Refusal& refusal);
  void not_used(Task& task, const validation::Refusal& refusal);
  void quarantine(Job& job, Host* host, HostId host_id, TaskId task, std::string reason);
  void distrust(Job& job, Host* host, HostId host_id, TaskId except);
  void update_lists(Task& task);

  // audits.cpp
  void hold(Task& task, Lease& lease);
  void close_batch(Job& job, std::uint64_t batch);
  void dissolve_batches(Job& job, HostId host);
  void leave_batch(Task& task);
  void batch_passed(Job& job, std::uint64_t batch);
  void close_batches_of_drained(Job& job);
  void close_batches_of_full(const Host& host);

  // standing.cpp
  void credit(HostId host);
  void credit_voters(const Task& task, const Lease& lease);
  bool count_fault(Host& host, validation::RefusalReason reason);
  void suspend(Host& host, Micros until);
  void end_suspension(Host& host);
  static bool proves(validation::RefusalReason reason);
  [[nodiscard]] bool keeps_role(const Host& host) const;
  void lose_role(Host& host, Job& job, const Task& task);
  void set_role(Host& host, bool trusted);
  void say_standings();

  // draws.cpp
  [[nodiscard]] static bool draws_replicas(const Task& task);
  [[nodiscard]] static bool draws_quorum(const Job& job);
  void redraw_for_others(Host& host);
  Task* pick_fresh_drawn(Job& job, Host& host);
  [[nodiscard]] Micros time_to_come(const Job& job, const Host& host, const Task& task) const;
  void draw(Task& task, std::size_t need);
  void redraw();
  Task* pick_drawn(Job& job, Host& host);
  std::uint64_t random();
  std::size_t random_below(std::size_t n);

  // placement.cpp
  void dispatch();
  void dispatch_once();
  void unpark(Host& host);
  bool assign_one(Host& host);
  Task* pick(Job& job, Host& host, bool& as_validator);
  Task* pick_from(ReadyQueue& queue, Job& job, Host& host, bool fresh);
  bool takes_work(const Host& host) const;
  bool serves(const Job& job, const Host& host) const;
  bool takes_ordinary(Job& job, const Host& host) const;
  bool has_quorum_of_hosts(Job& job) const;
  bool eligible(Job& job, const Host& host, const Task& task, bool validator) const;
  bool failed_here_but_not_elsewhere(Job& job, const Host& host, const Task& task,
                                     bool validator) const;
  void start(Job& job, Host& host, Task& task, bool validator);
  std::optional<Micros> predict(const Job& job, const Host& host, double flops) const;
  Micros transfer_time(const Host& host, std::uint64_t bytes) const;
  std::uint64_t missing_bytes(const Host& host, const Task& task) const;

  // second_start.cpp
  bool second_start(Host& host);
  Task* pick_second(Job& job, Host& host, bool& as_validator);
  Task* pick_late(Job& job, Host& host, double& best_gain);

  Config config_;
  Micros now_ = 0;
  std::uint64_t random_;
  double vtime_ = 0;  ///< of the job served last

  BlobTable blobs_;  ///< before hosts_: their caches give references back
  std::unordered_map<HostId, std::unique_ptr<Host>> hosts_;
  std::vector<HostId> left_hosts_;  ///< oldest first
  SpeedModel fetches_;              ///< of all hosts: the lab node's own link may be what is slow
  std::map<JobId, std::unique_ptr<Job>> jobs_;
  std::unordered_map<LeaseId, Lease> leases_;
  std::uint64_t hosts_epoch_ = 1;

  std::set<std::pair<double, JobId>> runnable_;
  std::set<HungryKey> hungry_;
  std::vector<Host*> parked_;
  bool unpark_ = false;
  std::vector<Host*> dirty_hosts_;
  std::vector<Job*> dirty_jobs_;
  std::vector<Task*> judge_queue_;
  std::vector<HostId> changed_standings_;
  struct Draw {
    Micros until;
    JobId job;
    TaskId task;
    friend auto operator<=>(const Draw&, const Draw&) = default;
  };
  std::priority_queue<Draw, std::vector<Draw>, std::greater<>> draws_;
  std::priority_queue<std::pair<Micros, HostId>, std::vector<std::pair<Micros, HostId>>,
                      std::greater<>>
      timers_;
  std::vector<Action> actions_;
};

}  // namespace goblin::scheduler
