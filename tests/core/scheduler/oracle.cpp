// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What must hold in every history. Works from what the lab node and hosts saw, never from the
// scheduler's own books.
#include <algorithm>
#include <iostream>

#include "tests/core/scheduler/world.hpp"

namespace goblin::scheduler::sim {

void World::violate(std::string what) {
  if (violation_.empty()) violation_ = "at " + std::to_string(now_) + " us: " + std::move(what);
}

/// One line an action, with the fields that it has.
void World::print(const Action& action) const {
  static constexpr const char* kNames[] = {
      "PlanMore",     "SendLease",     "CancelLease", "FetchResult", "CheckResult",
      "AcceptResult", "ReleaseResult", "ForgetBytes", "Quarantine",  "StandingChanged",
      "Recheck",      "Rerun",         "Incident",    "FinishJob",   "FailJob"};
  std::cerr << now_ << " " << kNames[action.index()];
  std::visit(
      [](const auto& a) {
        if constexpr (requires { a.job; }) std::cerr << " job " << a.job;
        if constexpr (requires { a.task; }) std::cerr << " task " << a.task;
        if constexpr (requires { a.host; }) std::cerr << " host " << a.host;
        if constexpr (requires { a.lease; })
          std::cerr << " lease " << std::hex << a.lease << std::dec;
        if constexpr (requires { a.max_tasks; })
          std::cerr << " at most " << a.max_tasks << " for " << a.memory_bytes << " bytes";
        if constexpr (requires { a.what; }) std::cerr << " " << a.what;
        if constexpr (requires { a.reason; }) std::cerr << " " << a.reason;
        if constexpr (requires { a.error; }) std::cerr << " " << a.error.message;
      },
      action);
  std::cerr << "\n";
}

void World::watch_send(const SendLease& send) {
  const std::string name = "task " + std::to_string(send.task) + " of job " +
                           std::to_string(send.job) + " leased to host " +
                           std::to_string(send.host);
  const auto job_it = jobs_.find(send.job);
  if (job_it == jobs_.end() || job_it->second.removed) return violate(name + ": no such job");
  const SimJob& job = job_it->second;
  if (job.ended) return violate(name + " after the job ended");
  const SimHost& host = hosts_.at(send.host);
  if (!host.connected) return violate(name + ", which is not connected");
  if (!host.spec.accepting) return violate(name + ", which is paused");
  if (job.quarantined.contains(send.host)) return violate(name + ", which is quarantined");
  if (host.spec.memory_bytes < job.memory) return violate(name + ", which is too small");
  if (job.journal.contains(send.task) && !job.rerunning.contains(send.task))
    return violate(name + " though it is accepted");
  if (sent_.contains(send.lease)) return violate(name + " under a lease number used before");
  if (send.deadline == 0) return violate(name + " without a deadline");
  std::size_t held = 0;
  std::size_t starts = 0;
  for (const auto& [id, lease] : leases_) {
    const bool running = !lease.committed;
    if (running && lease.host == send.host) ++held;
    if (lease.job != send.job || lease.task != send.task) continue;
    if (running && lease.host == send.host) return violate(name + " twice at once");
    if (running) ++starts;
    if (lease.committed && lease.host == send.host && !lease.forgotten)
      return violate(name + ", which has committed to it");
    if (job.policy.policy == wire::Policy::kReplicate &&
        groups_for(job, send.task, result_digest(send.job, send.task, 0)) < job.policy.replicas &&
        running && hosts_.at(lease.host).spec.group == host.spec.group)
      return violate(name + " while host " + std::to_string(lease.host) + " of its group has it");
  }
  if (held >= host.spec.slots) return violate(name + " over its slots");
  // Those wanted, and a second start in each role.
  const bool replicate = job.policy.policy == wire::Policy::kReplicate;
  const std::size_t most = (replicate ? job.policy.replicas : 2) + 3;
  if (starts >= most) return violate(name + " as start " + std::to_string(starts + 1));
}

std::size_t World::groups_for(const SimJob& job, TaskId task, const wire::Digest& digest) const {
  std::set<std::uint64_t> groups;
  const auto it = commits_.find({job.id, task});
  if (it == commits_.end()) return 0;
  for (const Commit& c : it->second)
    if (c.digest == digest && !job.quarantined.contains(c.host)) groups.insert(c.group);
  return groups.size();
}

void World::watch_accept(const AcceptResult& accept) {
  SimJob& job = jobs_.at(accept.job);
  const std::string name = "task " + std::to_string(accept.task) + " of job " +
                           std::to_string(accept.job) + " accepted from host " +
                           std::to_string(accept.host);
  if (job.ended) return violate(name + " after the job ended");
  if (job.journal.contains(accept.task) && !job.rerunning.contains(accept.task))
    return violate(name + " a second time");
  const auto it = leases_.find(accept.lease);
  if (it == leases_.end() || it->second.host != accept.host || it->second.job != accept.job ||
      it->second.task != accept.task)
    return violate(name + " under another's lease");
  if (it->second.accepting) return violate(name + " said twice");
  if (!it->second.fetched) return violate(name + " without its bytes");
  if (job.quarantined.contains(accept.host)) return violate(name + ", which is quarantined");
  it->second.accepting = true;
  bool passed = false;
  bool trusted = false;
  for (const Commit& c : commits_[{accept.job, accept.task}]) {
    if (c.digest != accept.digest || job.quarantined.contains(c.host)) continue;
    passed = passed || c.passed;
    trusted = trusted || c.trusted;
  }
  const std::size_t groups = groups_for(job, accept.task, accept.digest);
  bool enough = false;
  if (job.policy.policy == wire::Policy::kAlgebraic) enough = passed || trusted || groups >= 2;
  if (job.policy.policy == wire::Policy::kValidator) enough = trusted;
  if (job.policy.policy == wire::Policy::kReplicate) enough = groups >= job.policy.replicas;
  const bool adaptive = job.policy.policy == wire::Policy::kAdaptive;
  if (adaptive) enough = trusted || groups >= 1;  // its batch: audits_test.cpp
  if (!enough) return violate(name + " unchecked");
  if (accept.digest != result_digest(accept.job, accept.task, 0) && !(job.miss > 0 && passed) &&
      (!adaptive || trusted))
    return violate(name + " though it is wrong");
}

void World::watch_finish(const FinishJob& finish) {
  SimJob& job = jobs_.at(finish.job);
  const std::string name = "job " + std::to_string(finish.job);
  if (job.ended) return violate(name + " ended twice");
  if (job.journal.size() != job.tasks)
    return violate(name + " finished with " + std::to_string(job.journal.size()) + " of " +
                   std::to_string(job.tasks) + " tasks");
  if (!job.rerunning.empty()) return violate(name + " finished with a task to be run again");
  for (const auto& [task, host] : job.journal) {
    const bool wrong = job.digests.at(task) != result_digest(job.id, task, 0);
    const bool may_be = job.miss > 0 || job.policy.policy == wire::Policy::kAdaptive;
    if (wrong && (!may_be || job.quarantined.contains(host)))
      return violate(name + " finished with a wrong task " + std::to_string(task));
    // What rests on a caught host's word alone was looked at again.
    if (!job.quarantined.contains(host) || job.verified.contains(task)) continue;
    bool supported = false;
    const auto it = commits_.find({job.id, task});
    if (it != commits_.end())
      for (const Commit& c : it->second)
        supported = supported || (!job.quarantined.contains(c.host) && c.host != host &&
                                  c.digest == job.digests.at(task));
    if (!supported)
      return violate(name + " finished with task " + std::to_string(task) +
                     " on the word of quarantined host " + std::to_string(host));
  }
}

void World::watch_fail(const FailJob& fail) {
  SimJob& job = jobs_.at(fail.job);
  const std::string name = "job " + std::to_string(fail.job);
  if (job.ended) return violate(name + " ended twice");
  if (fail.error.message.empty()) return violate(name + " failed without a word");
  std::uint32_t most = 0;
  for (const auto& [task, failures] : job.failures) most = std::max(most, failures);
  if (most < options_.config.max_attempts)
    return violate(name + " failed too early: " + fail.error.message);
}

void World::watch_counts() {
  for (const auto& [id, job] : jobs_) {
    if (!job.added || job.removed) continue;
    const JobCounts c = scheduler_->job_counts(id);
    if (c.planned != c.ready + c.leased + c.judging + c.accepted)
      return violate("the counts of job " + std::to_string(id) + " do not add up");
    // Ready beyond the cap only by what hosts have given back.
    std::size_t slots = 0;
    for (const auto& [host, h] : hosts_) slots += h.spec.slots;
    if (c.ready > options_.config.max_ready + slots + options_.tasks / 4)
      return violate("job " + std::to_string(id) + " keeps " + std::to_string(c.ready) +
                     " ready tasks");
    if (job.plans > 40 * (job.tasks + 20))
      return violate("the planner of job " + std::to_string(id) + " is asked without end");
  }
  for (const auto& [id, host] : hosts_) {
    std::size_t held = 0;
    for (const auto& [lease, l] : leases_) held += l.host == id && !l.committed ? 1 : 0;
    if (host.connected && scheduler_->host_counts(id).leases != held)
      return violate("host " + std::to_string(id) + " holds " + std::to_string(held) +
                     " leases and the scheduler thinks " +
                     std::to_string(scheduler_->host_counts(id).leases));
  }
}

}  // namespace goblin::scheduler::sim
