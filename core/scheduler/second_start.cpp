// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Second starts: a host with nothing better takes a task that another host is slow with.
#include <algorithm>

#include "core/scheduler/scheduler_impl.hpp"

namespace goblin::scheduler {
namespace {

/// An idle host looks through running tasks no more often than this.
constexpr Micros kLookInterval = 50'000;
/// While some lease is over its time, an idle host that would not have been faster looks again: the
/// longer the lease lasts, the less is expected of it.
constexpr Micros kPatience = 500'000;

}  // namespace

Task* SchedulerImpl::pick_second(Job& job, Host& host, bool& as_validator) {
  Task* best = nullptr;
  double best_gain = 0;
  std::size_t looks = std::size_t{config_.placement_window} * 8;
  for (Task* task = job.running.front(); task != nullptr && looks-- > 0;
       task = RunningList::next(task)) {
    if (task->state != TaskState::kOpen || ReadyList::linked(task) || ValidateList::linked(task))
      continue;
    for (const Lease* lease : task->running) {
      const std::size_t same_role = static_cast<std::size_t>(
          std::count_if(task->running.begin(), task->running.end(),
                        [&](const Lease* l) { return l->validator == lease->validator; }));
      const std::size_t wanted = lease->validator ? 1 : task->want_results;
      if (same_role > wanted || (!lease->predicted && !lease->straggling)) continue;
      if (draws_replicas(*task) && !lease->straggling) continue;  // who starts it is drawn
      if (lease->validator ? !host.spec.trusted : !takes_ordinary(job, host)) continue;
      if (!eligible(job, host, *task, lease->validator)) continue;
      const auto own = predict(job, host, task->flops);
      if (!own) {
        // No result of the job yet: whoever has waited longest goes first.
        const double waited = double(now_ - lease->start);
        if (!lease->straggling || waited <= best_gain) continue;
        best = task;
        best_gain = waited;
        as_validator = lease->validator;
        continue;
      }
      const double mine = double(*own + transfer_time(host, missing_bytes(host, *task)));
      // Of a lease that is over its time nothing is known but that it has lasted so long.
      const double theirs = lease->expected_end > now_ ? double(lease->expected_end - now_)
                                                       : double(now_ - lease->start);
      const double factor = lease->straggling ? 1.0 : config_.straggler_factor;
      if (!lease->straggling && theirs < double(config_.straggler_floor)) continue;
      if (mine * factor >= theirs || theirs - mine <= best_gain) continue;
      best = task;
      best_gain = theirs - mine;
      as_validator = lease->validator;
    }
  }
  if (Task* late = pick_late(job, host, best_gain)) {
    best = late;
    as_validator = false;
  }
  return best;
}

/// Results that are computed but do not come: one other host at a time computes the task, too.
Task* SchedulerImpl::pick_late(Job& job, Host& host, double& best_gain) {
  Task* best = nullptr;
  if (!takes_ordinary(job, host)) return best;
  std::size_t looks = std::size_t{config_.placement_window} * 8;
  for (Task* task = job.late.front(); task != nullptr && looks-- > 0; task = LateList::next(task)) {
    if (task->state != TaskState::kOpen || ReadyList::linked(task) || !task->running.empty())
      continue;
    bool all_late = true;  // what else is being fetched may do
    bool silent = true;    // how long the fetch has lasted says nothing: it will not end
    double waited = 0;
    for (const Lease* lease : task->committed) {
      all_late = all_late && (lease->fetch_late ||
                              (!lease->fetching && !task->validation.has_bytes(lease->id)));
      if (!lease->fetch_late) continue;
      waited = std::max(waited, double(now_ - lease->fetch_start));
      silent = silent && sends_nothing(*lease);
    }
    const auto own = predict(job, host, task->flops);
    if (!all_late || !own || !eligible(job, host, *task, false)) continue;
    const double mine = double(*own + transfer_time(host, missing_bytes(host, *task)));
    const double gain = silent ? std::max(waited - mine, 1.0) : waited - mine;
    if (gain <= best_gain) continue;
    best = task;
    best_gain = gain;
  }
  return best;
}

bool SchedulerImpl::second_start(Host& host) {
  if (!host.running.empty()) return false;
  bool straggling = false;
  for (const auto& [id, job] : jobs_) straggling = straggling || job->straggling > 0;
  if (straggling) wake_at(host, now_ + kPatience);
  if (!straggling && host.next_look > now_) {
    wake_at(host, host.next_look);
    return false;
  }
  host.next_look = now_ + kLookInterval;
  Job* best_job = nullptr;
  Task* best = nullptr;
  bool as_validator = false;
  for (auto& [id, job] : jobs_) {
    if (job->ended || (job->running.empty() && job->late.empty()) || !serves(*job, host) ||
        pauses(*job, host))
      continue;
    if (best_job != nullptr && best_job->vtime <= job->vtime) continue;
    bool validator = false;
    Task* task = pick_second(*job, host, validator);
    if (task == nullptr) continue;
    best_job = job.get();
    best = task;
    as_validator = validator;
  }
  if (best == nullptr) return false;
  ++best_job->counts.second_starts;
  start(*best_job, host, *best, as_validator);
  return true;
}

}  // namespace goblin::scheduler
