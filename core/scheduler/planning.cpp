// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// When the planner is asked for more, for whom, and when a job is complete.
#include <algorithm>
#include <cmath>

#include "core/scheduler/scheduler_impl.hpp"
#include "goblin/abi/plugin.h"

namespace goblin::scheduler {
namespace {

Lent lent_by(const HostSpec& spec) {
  return {spec.memory_bytes, spec.threads, spec.trusted, spec.group};
}

}  // namespace

void SchedulerImpl::task_ready(ReadyTask ready, Micros now) {
  advance(now);
  Job* job = find_job(ready.job);
  if (job == nullptr || job->ended || job->tasks.contains(ready.task) ||
      job->rechecks.contains(ready.task))
    return;
  if (!std::isfinite(ready.flops) || ready.flops < 0) ready.flops = 0;
  bool by_digest = false;
  if (const auto it = job->reruns.find(ready.task); it != job->reruns.end()) {
    by_digest = it->second == RerunKind::kByDigest;
    job->counts.flops_accepted = std::max(0.0, job->counts.flops_accepted - ready.flops);
    job->reruns.erase(it);
  }
  const bool validator = view(*job).trusted > 0;
  Task& task = job->tasks
                   .try_emplace(ready.task, job, ready,
                                validation::TaskValidation(job->policy, validator, by_digest))
                   .first->second;
  task.inputs.reserve(ready.inputs.size());
  for (const TaskInput& input : ready.inputs)
    task.inputs.push_back(blobs_.acquire(input.digest, input.bytes));
  ++job->categories[static_cast<std::size_t>(task.category)];
  ++job->task_events;
  judge(task);
  settle();
}

void SchedulerImpl::planned(JobId job_id, std::uint32_t progress, bool exhausted,
                            std::uint64_t need_bytes, Micros now) {
  advance(now);
  Job* job = find_job(job_id);
  if (job == nullptr || job->ended || !job->planning) return;
  job->planning = false;
  mark(*job);
  if (exhausted) {
    // Whoever has no more memory than this is not asked for again until hosts change.
    job->exhausted_memory = std::max(job->exhausted_memory, job->plan_asked_memory);
    if (need_bytes > 0) job->exhausted_memory = std::max(job->exhausted_memory, need_bytes - 1);
    job->need_bytes = std::max({job->need_bytes, need_bytes, job->exhausted_memory + 1});
    return;
  }
  const bool nothing_new = job->task_events == job->tasks_at_plan;
  if (progress == GOBLIN_PLAN_DONE) {
    job->plan_done = true;
    return;
  }
  job->empty_answers = nothing_new ? job->empty_answers + 1 : 0;
  if (progress != GOBLIN_PLAN_WAIT) return;
  if (job->accept_events != job->accepts_at_plan) return;  // it answered before that result came in
  if (!job->tasks.empty() || !job->rechecks.empty() || !job->reruns.empty()) {
    job->plan_waits = true;
    return;
  }
  // After a restart, tasks that were accepted come up again and the lab node keeps them back: so
  // many empty answers are right. More means that it waits for what cannot come.
  if (job->empty_answers > job->empty_allowed)
    fail_job(*job, Error{Code::kInternal,
                         "the planner waits for another result, but every task that it planned is "
                         "accepted: a fault of the kind's planner"});
}

std::uint64_t SchedulerImpl::ready_target(Job& job) const {
  const JobView& v = view(job);
  const std::uint64_t hosts = std::max<std::uint64_t>(v.ordinary + v.trusted, 1);
  std::uint64_t target = hosts * config_.ready_per_host;
  // Short tasks: a second of work for every host, so that the planner's answer never is late.
  const double mean_flops =
      job.counts.accepted > 0 ? job.counts.flops_accepted / double(job.counts.accepted) : 0;
  if (const auto seconds = job.speed.predict(mean_flops)) {
    const double tasks = double(hosts) / std::max(*seconds, 1e-6);
    target = std::max(target, static_cast<std::uint64_t>(std::min(tasks, 1e9)));
  }
  return std::min<std::uint64_t>(target, std::max(config_.max_ready, 1u));
}

/// An idle host that found nothing, else the smallest one: what fits it fits all.
const Host* SchedulerImpl::host_to_plan_for(Job& job) {
  const std::uint64_t most = cut(job).memory_bytes;
  const auto suits = [&](const Host& host) {
    return serves(job, host) && takes_ordinary(job, host) &&
           (job.exhausted_memory == 0 ||
            std::min(host.spec.memory_bytes, most) > job.exhausted_memory);
  };
  if (job.has_asker) {
    const Host* asker = find_host(job.asker);
    if (asker != nullptr && suits(*asker)) return asker;
  }
  std::size_t looked = 0;
  for (const HungryKey& key : hungry_) {
    const Host* host = find_host(key.second);
    if (suits(*host)) return host;
    if (++looked == config_.placement_window) break;
  }
  const Host* best = nullptr;
  for (const auto& [id, host] : hosts_)
    if (suits(*host) && (best == nullptr || std::pair(host->spec.memory_bytes, id) <
                                                std::pair(best->spec.memory_bytes, best->id)))
      best = host.get();
  return best;
}

const Cut& SchedulerImpl::cut(Job& job) const {
  view(job);
  std::optional<Cut>& known = job.view.cut;
  if (!known) {
    std::vector<Lent> lent;
    for (const auto& [id, host] : hosts_)
      if (serves(job, *host)) lent.push_back(lent_by(host->spec));
    known = cut_for(job.policy, lent);
  }
  return *known;
}

Cut SchedulerImpl::cut_now(const validation::PolicySpec& policy) const {
  std::vector<Lent> lent;
  for (const auto& [id, host] : hosts_)
    if (takes_work(*host)) lent.push_back(lent_by(host->spec));
  return cut_for(policy, lent);
}

void SchedulerImpl::maybe_plan(Job& job) {
  if (job.ended || job.planning || job.plan_done || job.plan_waits) return;
  const JobView& v = view(job);
  if (v.ordinary + v.trusted == 0 || !has_quorum_of_hosts(job)) return;
  const std::uint64_t target = ready_target(job);
  const std::uint64_t ready = job.categories[static_cast<std::size_t>(Category::kReady)];
  const std::uint64_t most = std::min<std::uint64_t>(2 * target, std::max(config_.max_ready, 1u));
  // A host that can take nothing of what is ready may ask for its own, within the same bound.
  if (ready >= most || (ready >= target && !job.has_asker)) return;
  const Host* host = host_to_plan_for(job);
  job.has_asker = false;
  if (host == nullptr) return;
  job.planning = true;
  const Cut& c = cut(job);
  job.plan_asked_memory = std::min(host->spec.memory_bytes, c.memory_bytes);
  job.accepts_at_plan = job.accept_events;
  job.tasks_at_plan = job.task_events;
  say(PlanMore{job.id, static_cast<std::uint32_t>(most - ready), job.plan_asked_memory,
               c.min_memory_bytes, c.hosts, host->spec.threads});
}

void SchedulerImpl::maybe_finish(Job& job) {
  if (job.ended || !job.plan_done || job.planning || !job.tasks.empty() || !job.rechecks.empty() ||
      !job.reruns.empty())
    return;
  job.ended = true;
  say(FinishJob{job.id});
}

}  // namespace goblin::scheduler
