// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A whole network around one Scheduler under a virtual clock: lab node, planners, checks and hosts
// that crash, stall, lie, hand back, fail, change speed and come back. One seed, one history.
// oracle.cpp watches every action; the first thing that must not happen ends the history.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "core/scheduler/scheduler.hpp"

namespace goblin::scheduler::sim {

/// Splitmix64: the same numbers everywhere, unlike std's distributions.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
  double uniform() { return double(next() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  bool chance(double p) { return uniform() < p; }

 private:
  std::uint64_t state_;
};

/// Probabilities and sizes of one history. `draw` makes a random mixture.
struct Options {
  std::uint32_t hosts = 4, trusted = 0, groups = 4, jobs = 1, tasks = 60;
  std::uint32_t late_hosts = 3;  ///< honest ones that join when the faults end
  double liars = 0.25;           ///< share of hosts that lie …
  double lie = 0.3;              ///< … in so many of their results
  double wrong_bytes = 0.0;      ///< a liar sends other bytes than it committed to
  double stall = 0.01, status = 0.01, hand_back = 0.01;  ///< per task
  double duplicate = 0.02, forged = 0.01, lost_fetch = 0.02;
  double crash_per_minute = 0.5, change_per_minute = 0.3;
  double abstain = 0.1;
  double miss = 0;       ///< the check passes so many of the wrong results (a sampled check may)
  double restart = 0.2;  ///< of the lab node, once in a history
  double cancel = 0.1;   ///< a job is cancelled midway
  double speed_spread = 10;
  std::size_t most_kept = 1000;  ///< results that fill a host's memory: it computes no more
  Micros faults_end = 90'000'000;
  Config config;

  static Options draw(Random& random);
};

struct SimJob {
  JobId id = 0;
  validation::PolicySpec policy;
  std::uint32_t weight = 1;
  std::uint64_t tasks = 0, next = 0, round = 0;  ///< round 0: no rounds
  double flops = 1e8, spread = 0;
  std::uint64_t memory = 0;
  std::uint32_t panels = 0;  ///< > 0: task i takes panel i / panels and panel i % panels
  double abstain = 0, miss = 0;
  bool added = false, ended = false, failed = false, cancelled = false, removed = false;
  std::uint64_t plans = 0;
  std::map<TaskId, HostId> journal;        ///< accepted, with the lease's host
  std::map<TaskId, wire::Digest> digests;  ///< of what was accepted
  std::set<TaskId> verified;               ///< passed a recheck
  std::set<TaskId> rerunning;
  std::map<TaskId, std::uint32_t> failures;
  std::set<HostId> quarantined;
  double seconds = 0;  ///< computed for it
};

enum class Temper : std::uint8_t { kHonest, kLiar };
struct SimHost {
  HostId id = 0;
  HostSpec spec;
  Temper temper = Temper::kHonest;
  bool connected = false;
  std::uint64_t life = 0;  ///< counts connections: messages of an earlier one are lost
  double speed = 1e9;
  std::deque<LeaseId> queue;
  LeaseId running = 0;
  std::uint64_t work = 0;  ///< counts starts: a cancelled one's end is void
  std::map<LeaseId, wire::Digest> kept;
  std::set<wire::Digest> cache;
};

/// The lab node's view of a lease.
struct SimLease {
  HostId host = 0;
  JobId job = 0;
  TaskId task = 0;
  bool committed = false, fetching = false, fetched = false, accepting = false;
  bool forgotten = false;  ///< its host was told to let go of the bytes
};
/// A result that the scheduler was told of.
struct Commit {
  LeaseId lease = 0;
  HostId host = 0;
  std::uint64_t group = 0;
  bool trusted = false, passed = false, abstained = false;
  wire::Digest digest;
};

class World {
 public:
  World(std::uint64_t seed, Options options);

  /// Runs to the end of every job; false when something happened that must not.
  bool run();
  [[nodiscard]] const std::string& violation() const { return violation_; }
  [[nodiscard]] Micros now() const { return now_; }
  [[nodiscard]] const std::map<JobId, SimJob>& jobs() const { return jobs_; }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  /// What happened, to see that a history exercises something.
  std::map<std::string, std::uint64_t> tally;

  /// For tests that need a certain world: change hosts and jobs before run().
  std::map<HostId, SimHost>& hosts() { return hosts_; }
  std::map<JobId, SimJob>& jobs() { return jobs_; }
  bool trace = false;  ///< say every action on stderr
  Micros stop_at = 0;  ///< 0: when every job has ended

 private:
  using Step = std::function<void()>;
  struct Event {
    Micros when;
    std::uint64_t order;
    Step step;
    bool operator>(const Event& other) const {
      return std::pair(when, order) > std::pair(other.when, other.order);
    }
  };

  void populate();
  void after(Micros delay, Step step);
  Micros delay() { return 500 + random_.below(random_.chance(0.05) ? 400'000 : 8'000); }
  bool faulty() const { return now_ < options_.faults_end; }
  void violate(std::string what);

  // the lab node
  void start_jobs();
  void pump();
  void act(const Action& action);
  void on(const PlanMore& a);
  void on(const SendLease& a);
  void on(const CancelLease& a);
  void on(const FetchResult& a);
  void on(const CheckResult& a);
  void on(const AcceptResult& a);
  void on(const ReleaseResult& a);
  void on(const ForgetBytes& a);
  void on(const Quarantine& a);
  void on(const Recheck& a);
  void on(const Rerun& a);
  void on(const Incident& a);
  void on(const StandingChanged&) { ++tally["standing"]; }
  void on(const FinishJob& a);
  void on(const FailJob& a);
  void plan(const PlanMore& ask);
  ReadyTask make_task(const SimJob& job, TaskId task) const;
  void fetch(const FetchResult& ask);
  void check(const CheckResult& ask);
  void recheck(const Recheck& ask);
  void restart();
  void end_job(SimJob& job);

  // hosts
  void join(SimHost& host);
  void leave(SimHost& host);
  void deliver(HostId host, std::uint64_t life, LeaseId lease);
  void work_on(SimHost& host);
  void let_go(SimHost& host, LeaseId lease);
  void finish(SimHost& host, LeaseId lease, std::uint64_t work, Micros compute);
  void report(SimHost& host, Outcome outcome);
  void tell(HostId from, const Outcome& outcome);
  void beat(HostId host, std::uint64_t life);
  void schedule_faults(HostId host);

  // oracle.cpp
  void watch_send(const SendLease& send);
  void watch_accept(const AcceptResult& accept);
  void watch_finish(const FinishJob& finish);
  void watch_fail(const FailJob& fail);
  void watch_counts();
  void print(const Action& action) const;
  std::size_t groups_for(const SimJob& job, TaskId task, const wire::Digest& digest) const;

  Random random_;
  Options options_;
  std::unique_ptr<Scheduler> scheduler_;
  std::uint64_t lab_life_ = 0;
  Micros now_ = 0;
  std::uint64_t order_ = 0, steps_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::map<HostId, SimHost> hosts_;
  std::map<JobId, SimJob> jobs_;
  std::map<LeaseId, SimLease> leases_;
  std::map<std::pair<JobId, TaskId>, std::vector<Commit>> commits_;
  std::map<LeaseId, std::pair<JobId, TaskId>> sent_;  ///< every lease ever, for hosts' answers
  std::string violation_;
};

/// The right digest of a task (variant 0) or a wrong one.
wire::Digest result_digest(JobId job, TaskId task, std::uint64_t variant);

}  // namespace goblin::scheduler::sim
