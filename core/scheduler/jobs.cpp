// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Jobs: beginning, end, what was accepted and what must be checked anew.
#include <algorithm>

#include "core/scheduler/scheduler_impl.hpp"

namespace goblin::scheduler {
namespace {

/// How far behind a job may fall, in seconds of work per weight, and still make it up: covers the
/// planner's answers, not a long sleep.
constexpr double kLag = 1.0;

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

std::unique_ptr<Scheduler> Scheduler::create(const Config& config) {
  return std::make_unique<SchedulerImpl>(config);
}

SchedulerImpl::SchedulerImpl(const Config& config)
    : config_(config), random_(mix(config.seed) | 1) {}

SchedulerImpl::~SchedulerImpl() {
  for (auto& [id, host] : hosts_) host->cache.clear();
}

Job* SchedulerImpl::find_job(JobId job) const {
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? nullptr : it->second.get();
}

Host* SchedulerImpl::find_host(HostId host) const {
  const auto it = hosts_.find(host);
  return it == hosts_.end() ? nullptr : it->second.get();
}

Lease* SchedulerImpl::find_lease(LeaseId lease) {
  const auto it = leases_.find(lease);
  return it == leases_.end() ? nullptr : &it->second;
}

void SchedulerImpl::mark(Job& job) {
  if (job.dirty || job.ended) return;
  job.dirty = true;
  dirty_jobs_.push_back(&job);
}

void SchedulerImpl::add_job(JobId job, validation::PolicySpec policy, std::uint32_t weight,
                            Micros now) {
  advance(now);
  auto [it, fresh] = jobs_.try_emplace(job);
  if (!fresh) return;
  it->second = std::make_unique<Job>();
  Job& added = *it->second;
  added.id = job;
  added.policy = policy;
  added.weight = std::max(weight, 1u);
  added.vtime = vtime_;
  mark(added);
}

void SchedulerImpl::restore_accepted(JobId job_id, TaskId task, double flops, HostId host) {
  Job* job = find_job(job_id);
  if (job == nullptr || job->ended) return;
  ++job->counts.accepted;
  job->counts.flops_accepted += flops;
  ++job->empty_allowed;
  // Who else vouched for it was not journalled: take it to rest on this host alone.
  job->hosts[host].accepted.push_back(task);
}

void SchedulerImpl::restore_quarantine(JobId job_id, HostId host) {
  Job* job = find_job(job_id);
  if (job == nullptr || job->ended || job->hosts[host].quarantined) return;
  job->hosts[host].quarantined = true;
  job->view.epoch = 0;
  recheck_unsupported(*job, host);
  mark(*job);
}

void SchedulerImpl::book(Job& job, double seconds) {
  const bool listed = job.runnable;
  if (listed) runnable_.erase({job.vtime, job.id});
  job.vtime += seconds / job.weight;
  if (listed) runnable_.insert({job.vtime, job.id});
}

void SchedulerImpl::update_runnable(Job& job) {
  const bool should = job.needing > 0 && !job.ended;
  if (should == job.runnable) return;
  if (!should) {
    runnable_.erase({job.vtime, job.id});
    job.runnable = false;
    return;
  }
  job.vtime = std::max(job.vtime, vtime_ - kLag);
  runnable_.insert({job.vtime, job.id});
  job.runnable = true;
}

const JobView& SchedulerImpl::view(Job& job) const {
  if (job.view.epoch == hosts_epoch_) return job.view;
  JobView v;
  v.epoch = hosts_epoch_;
  std::unordered_set<std::uint64_t> groups;
  std::unordered_set<std::uint64_t> ordinary_groups;
  for (const auto& [id, host] : hosts_) {
    if (!host->connected) continue;
    ++v.connected;
    const auto known = job.hosts.find(id);
    if (known != job.hosts.end() && known->second.barred()) {
      ++(known->second.quarantined    ? v.quarantined
         : known->second.undelivering ? v.undelivering
                                      : v.unsuited);
      continue;
    }
    if (host->suspended) {
      ++v.suspended;
      continue;
    }
    if (!host->spec.accepting || host->spec.slots == 0) {
      ++v.paused;
      continue;
    }
    v.max_memory = std::max(v.max_memory, host->spec.memory_bytes);
    groups.insert(host->spec.group);
    if (host->spec.trusted) {
      ++v.trusted;
      v.max_trusted_memory = std::max(v.max_trusted_memory, host->spec.memory_bytes);
    } else {
      ++v.ordinary;
      ordinary_groups.insert(host->spec.group);
      v.max_worker_memory = std::max(v.max_worker_memory, host->spec.memory_bytes);
    }
  }
  if (v.ordinary == 0) v.max_worker_memory = v.max_memory;
  v.groups = static_cast<std::uint32_t>(groups.size());
  v.ordinary_groups = static_cast<std::uint32_t>(ordinary_groups.size());
  job.view = v;
  return job.view;
}

void SchedulerImpl::forget_task(Job& job, Task& task) {
  if (ReadyList::linked(&task)) (task.ready_partial ? job.partial : job.fresh).remove(&task);
  if (ValidateList::linked(&task)) job.validate.remove(&task);
  if (RunningList::linked(&task)) job.running.remove(&task);
  if (LateList::linked(&task)) job.late.remove(&task);
  for (const BlobId blob : task.inputs) blobs_.release(blob);
  task.inputs.clear();
}

void SchedulerImpl::end_leases(Job& job) {
  for (auto& [id, task] : job.tasks) {
    while (!task.running.empty()) {
      Lease& lease = *task.running.back();
      say(CancelLease{lease.host_id, lease.id});
      end_running(lease);
    }
    while (!task.committed.empty()) {
      Lease& lease = *task.committed.back();
      say(ReleaseResult{lease.host_id, lease.id});
      end_committed(lease);
    }
  }
}

void SchedulerImpl::fail_job(Job& job, Error error) {
  if (job.ended) return;
  job.ended = true;
  end_leases(job);
  update_runnable(job);
  say(FailJob{job.id, std::move(error)});
}

void SchedulerImpl::remove_job(JobId job_id, Micros now) {
  advance(now);
  Job* job = find_job(job_id);
  if (job == nullptr) return;
  // What was said of it and not yet collected would name a job that is gone.
  std::erase_if(actions_, [&](const Action& action) {
    return std::visit(
        [&](const auto& a) {
          if constexpr (requires { a.job; })
            return a.job == job_id;
          else
            return false;
        },
        action);
  });
  job->ended = true;
  end_leases(*job);
  for (auto& [id, task] : job->tasks) forget_task(*job, task);
  job->needing = 0;
  update_runnable(*job);
  if (job->dirty) std::erase(dirty_jobs_, job);
  jobs_.erase(job_id);
}

void SchedulerImpl::demand_recheck(Job& job, TaskId task, HostId host) {
  if (!job.rechecks.emplace(task, host).second) return;
  ++job.counts.rechecks;
  say(Recheck{job.id, task, host});
}

void SchedulerImpl::recheck_unsupported(Job& job, HostId host) {
  std::vector<TaskId> alone;
  alone.swap(job.hosts[host].accepted);
  for (const TaskId task : alone) demand_recheck(job, task, host);
  const auto caught = [&](HostId id) {
    const auto it = job.hosts.find(id);
    return it != job.hosts.end() && it->second.quarantined;
  };
  std::erase_if(job.accepted_together, [&](const auto& entry) {
    const auto& [voters, tasks] = entry;
    if (!std::binary_search(voters.begin(), voters.end(), host)) return false;
    if (!std::all_of(voters.begin(), voters.end(), caught)) return false;
    for (const TaskId task : tasks) demand_recheck(job, task, host);
    return true;
  });
}

void SchedulerImpl::record_accepted(Job& job, Task& task, const std::vector<HostId>& voters) {
  bool all_caught = !voters.empty();
  for (const HostId voter : voters) all_caught = all_caught && job.hosts[voter].quarantined;
  if (all_caught) {
    demand_recheck(job, task.id, voters.front());
  } else if (voters.size() == 1) {
    job.hosts[voters.front()].accepted.push_back(task.id);
  } else if (!voters.empty()) {
    job.accepted_together[voters].push_back(task.id);
  }
}

void SchedulerImpl::accepted(JobId job_id, TaskId task_id, Micros now) {
  advance(now);
  Job* job = find_job(job_id);
  if (job == nullptr || job->ended) return;
  const auto it = job->tasks.find(task_id);
  if (it == job->tasks.end() || it->second.state != TaskState::kAccepting) return;
  Task& task = it->second;
  Lease* lease = find_lease(task.accepting);
  if (lease != nullptr) {
    if (Host* host = find_host(lease->host_id)) ++host->counts.accepted;
    say(ReleaseResult{lease->host_id, lease->id});
    end_committed(*lease);
  }
  ++job->counts.accepted;
  ++job->accept_events;
  job->counts.flops_accepted += task.flops;
  job->plan_waits = false;
  job->empty_answers = 0;
  record_accepted(*job, task, task.validation.voters());
  --job->categories[static_cast<std::size_t>(task.category)];
  forget_task(*job, task);
  job->tasks.erase(it);
  mark(*job);
}

void SchedulerImpl::rechecked(JobId job_id, TaskId task, Verdict verdict, Micros now) {
  advance(now);
  Job* job = find_job(job_id);
  if (job == nullptr || job->ended) return;
  const auto it = job->rechecks.find(task);
  if (it == job->rechecks.end()) return;
  const HostId host = it->second;
  job->rechecks.erase(it);
  mark(*job);
  if (verdict == Verdict::kAccept) return;
  const bool wrong = verdict == Verdict::kReject;
  --job->counts.accepted;
  if (wrong) {
    ++job->counts.refused;
    if (Host* known = find_host(host)) ++known->counts.refused;
  }
  job->reruns.emplace(task, wrong ? RerunKind::kByCheck : RerunKind::kByDigest);
  say(Incident{job->id, task, host,
               wrong ? "refused by recheck" : "recheck abstained: computed again", wrong});
  say(Rerun{job->id, task});
}

}  // namespace goblin::scheduler
