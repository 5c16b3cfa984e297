// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Counts, and why a job or a host waits, in words for people.
#include <algorithm>
#include <string>

#include "core/scheduler/scheduler_impl.hpp"

namespace goblin::scheduler {
namespace {

std::string mebibytes(std::uint64_t bytes) {
  constexpr std::uint64_t kMiB = 1u << 20;
  if (bytes < kMiB) return std::to_string(bytes) + " bytes";
  return std::to_string((bytes + kMiB - 1) / kMiB) + " MiB";
}

/// A task that nobody can predict is spoken of when it has run for so long.
constexpr Micros kLongRun = 10'000'000;

std::string seconds(Micros time) { return std::to_string(time / 1'000'000) + " s"; }
std::string seconds_left(Micros time) { return seconds(time + 999'999); }

/// What a host has computed for longest, and for longer than can be expected.
const Lease* long_run(const Host& host, Micros now) {
  const Lease* found = nullptr;
  for (const Lease* lease : host.running) {
    if (lease->running_since == 0 || now - lease->running_since < kLongRun) continue;
    if (lease->predicted && !lease->straggling) continue;
    if (found == nullptr || lease->running_since < found->running_since) found = lease;
  }
  return found;
}

std::string plural(std::uint64_t count, const std::string& word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

}  // namespace

JobCounts SchedulerImpl::job_counts(JobId id) const {
  const Job* job = find_job(id);
  if (job == nullptr) return {};
  JobCounts counts = job->counts;
  counts.ready = job->categories[std::size_t(Category::kReady)] + job->reruns.size();
  counts.leased = job->categories[std::size_t(Category::kLeased)];
  counts.judging = job->categories[std::size_t(Category::kJudging)];
  counts.planned = counts.ready + counts.leased + counts.judging + counts.accepted;
  counts.plan_done = job->plan_done;
  return counts;
}

HostCounts SchedulerImpl::host_counts(HostId id) const {
  const Host* host = find_host(id);
  HostCounts counts;
  if (host == nullptr) {
    counts.idle_reason = "it is not connected";
    return counts;
  }
  counts = host->counts;
  counts.standing = host->standing;
  counts.trusted = host->spec.trusted;
  counts.leases = static_cast<std::uint32_t>(host->running.size());
  counts.flops_per_s = host->speed.rate();
  counts.idle_reason.clear();
  if (counts.leases > 0) return counts;
  std::size_t open = 0;
  std::size_t quarantined = 0;
  std::size_t undelivering = 0;
  std::size_t unsuited = 0;
  std::size_t too_small = 0;
  std::size_t pausing = 0;
  Micros pause_ends = kNever;
  std::uint64_t need = 0;
  for (const auto& [job_id, job] : jobs_) {
    if (job->ended) continue;
    ++open;
    const auto known = job->hosts.find(id);
    if (known != job->hosts.end() && known->second.quarantined) {
      ++quarantined;
    } else if (known != job->hosts.end() && known->second.undelivering) {
      ++undelivering;
    } else if (known != job->hosts.end() && known->second.unsuited) {
      ++unsuited;
    } else if (job->exhausted_memory > 0 && host->spec.memory_bytes <= job->exhausted_memory) {
      ++too_small;
      need = need == 0 ? job->need_bytes : std::min(need, job->need_bytes);
    } else if (pauses(*job, *host)) {
      ++pausing;
      pause_ends = std::min(pause_ends, known->second.not_before);
    }
  }
  if (!host->connected) {
    counts.idle_reason = "it is not connected";
  } else if (!host->spec.accepting) {
    counts.idle_reason = "it is paused or stopping";
  } else if (host->suspended) {
    counts.idle_reason = plural(host->standing.faults, "wrong result") +
                         " of it: it gets no work for " +
                         seconds_left(host->standing.suspended_until - now_);
  } else if (host->spec.slots == 0) {
    counts.idle_reason = "it offers no slots";
  } else if (open == 0) {
    counts.idle_reason = "there is no job";
  } else if (host->not_before > now_) {
    counts.idle_reason = "it handed back tasks, or did not deliver results, and gets no work for " +
                         seconds_left(host->not_before - now_);
  } else if (quarantined == open) {
    counts.idle_reason = "a result of it was refused: it gets no work of " +
                         std::string(open == 1 ? "this job" : "these jobs");
  } else if (undelivering > 0 && quarantined + undelivering == open) {
    counts.idle_reason = "it took leases and did not deliver: it gets no work of " +
                         std::string(open == 1 ? "this job" : "these jobs");
  } else if (unsuited > 0 && quarantined + undelivering + unsuited == open) {
    counts.idle_reason = "it does not run " +
                         std::string(open == 1 ? "this job's kind" : "the kinds of these jobs") +
                         " (its owner does not allow it, or it lacks what the plugin needs)";
  } else if (too_small > 0 && quarantined + undelivering + too_small == open) {
    counts.idle_reason = "each task needs " + mebibytes(need) + " and it offers " +
                         mebibytes(host->spec.memory_bytes);
  } else if (pausing > 0 && quarantined + undelivering + too_small + pausing == open) {
    counts.idle_reason = "tasks of " + std::string(pausing == 1 ? "the job" : "the jobs") +
                         " failed on it: it gets none of them for " +
                         seconds_left(pause_ends - now_);
  } else if (!may_begin(*host)) {
    counts.idle_reason = "its last results wait to be checked";
  } else {
    counts.idle_reason = "no task for it is ready";
  }
  return counts;
}

Footprint SchedulerImpl::footprint() const {
  Footprint all;
  all.jobs = jobs_.size();
  for (const auto& [id, job] : jobs_) all.tasks += job->tasks.size();
  all.leases = leases_.size();
  all.hosts = hosts_.size();
  all.blobs = blobs_.size();
  all.timers = timers_.size();
  return all;
}

/// Of a job that has leases: which task runs for long, or keeps the job's own tasks waiting.
std::string SchedulerImpl::running_reason(const Job& job, const HostName& name) const {
  const Lease* own = nullptr;
  const Lease* ahead = nullptr;
  for (const auto& [id, host] : hosts_) {
    if (!host->spec.accepting) continue;
    bool here = false;
    bool begun = false;
    for (const Lease* lease : host->running) {
      here = here || lease->job == &job;
      begun = begun || (lease->job == &job && lease->running_since != 0);
    }
    if (!here) continue;
    const Lease* const longest = long_run(*host, now_);
    // Something of the job runs as it should, or has just been sent.
    if (longest == nullptr || (begun && longest->job != &job)) return {};
    const Lease*& worst = longest->job == &job ? own : ahead;
    if (worst == nullptr || longest->running_since < worst->running_since) worst = longest;
  }
  const Lease* const lease = own != nullptr ? own : ahead;
  if (lease == nullptr) return {};
  const std::string task = "task " + std::to_string(lease->task->id);
  const std::string has = " has been running for " + seconds(now_ - lease->running_since) +
                          " on host " + name(lease->host_id);
  return lease == own ? task + has
                      : "its tasks wait behind " + task + " of job " +
                            std::to_string(lease->job->id) + ", which" + has;
}

/// Where digests must decide and every host that is here has spoken already.
std::string SchedulerImpl::undecided_reason(Job& job, const HostName& name) const {
  constexpr std::size_t kMostLooks = 256;
  std::size_t looks = 0;
  const Task* split = nullptr;
  for (const auto& [task_id, task] : job.tasks) {
    if (task.category != Category::kReady || ++looks > kMostLooks) continue;
    if (!task.validation.by_digest()) return {};
    for (const auto& [id, host] : hosts_)
      if (serves(job, *host) && host->spec.memory_bytes >= task.memory_bytes &&
          task.validation.may_ask(id, host->spec.group, host->spec.trusted))
        return {};
    if (!task.validation.differing().empty() && (split == nullptr || task.id < split->id))
      split = &task;
  }
  if (looks == 0) return {};
  const std::string here = plural(view(job).groups, "independent host") + " here";
  if (split != nullptr) {
    std::string who;
    for (const HostId host : split->validation.differing())
      who += (who.empty() ? "" : ", ") + name(host);
    return "the results of task " + std::to_string(split->id) + " differ (hosts " + who +
           ") and another independent host must compute it too; " + here +
           ": connect one more, or a validator";
  }
  if (job.policy.policy == wire::Policy::kAlgebraic)
    return "the check abstained and another independent host must compute the task too; " + here +
           ": connect one more, or a validator, which decides alone";
  return "every host here that may has computed its share of each task; " + here +
         ": connect one more";
}

std::string SchedulerImpl::busy_reason(const Job& job) const {
  Micros pause_ends = kNever;
  bool others = false;
  for (const auto& [id, host] : hosts_) {
    if (!serves(job, *host)) continue;
    const auto known = job.hosts.find(id);
    const Micros ends =
        std::max(host->not_before, known == job.hosts.end() ? 0 : known->second.not_before);
    others = others || ends <= now_;
    if (ends > now_) pause_ends = std::min(pause_ends, ends);
  }
  if (pause_ends == kNever) return "its hosts are busy with other jobs";
  return (others ? "its hosts are busy with other jobs or pause after failures, for "
                 : "its hosts pause after failures, for ") +
         seconds_left(pause_ends - now_) + " more";
}

std::string SchedulerImpl::waiting_reason(JobId id, const HostName& name) const {
  Job* job = find_job(id);
  if (job == nullptr) return "there is no such job";
  if (job->ended) return {};
  if (!job->running.empty()) {
    const bool computes = std::any_of(hosts_.begin(), hosts_.end(), [job](const auto& entry) {
      const auto& running = entry.second->running;
      return entry.second->spec.accepting &&
             std::any_of(running.begin(), running.end(),
                         [job](const Lease* lease) { return lease->job == job; });
    });
    return computes ? running_reason(*job, name)
                    : "the hosts that have its tasks are paused or stopping";
  }
  const bool judging = job->categories[std::size_t(Category::kJudging)] > 0;
  const bool needs_hosts = job->needing > 0 || (!job->plan_done && !job->plan_waits);
  const JobView& v = view(*job);
  if (!needs_hosts) {
    if (!job->rechecks.empty())
      return plural(job->rechecks.size(), "accepted result") +
             " of refused hosts must be checked anew";
    return {};
  }
  if (v.connected == 0) return "no host is connected";
  if (v.ordinary + v.trusted == 0) {
    if (v.quarantined == v.connected && v.connected > 1 && job->counts.accepted == 0)
      return "all " + std::to_string(v.connected) + " hosts had results refused" +
             (job->first_refused ? ", first of task " + std::to_string(*job->first_refused) : "") +
             ", and no result of this job was accepted: its kind, or the kind's check, is more "
             "likely at fault than all of them (explain() says what each was refused for); cancel "
             "it and mend the kind, or connect another host";
    if (v.quarantined == v.connected)
      return v.connected == 1
                 ? "the one host had a result refused and gets no more work of this job; it waits "
                   "for another"
                 : "all " + std::to_string(v.connected) +
                       " hosts had results refused and get no more work of this job; it waits for "
                       "others";
    return std::to_string(v.paused) + " of " + plural(v.connected, "host") +
           " paused or stopping, " + std::to_string(v.quarantined) + " refused, " +
           std::to_string(v.undelivering) + " that took leases and did not deliver" +
           (v.suspended > 0 ? ", " + std::to_string(v.suspended) + " suspended for wrong results"
                            : "") +
           (v.unsuited > 0 ? ", " + std::to_string(v.unsuited) +
                                 " that do not run this kind (their owners do not allow it, or "
                                 "they lack what the plugin needs)"
                           : "") +
           "; none takes work";
  }
  if (job->policy.policy == wire::Policy::kValidator && v.trusted == 0)
    return "policy validator needs a trusted host and none takes work";
  if (job->policy.policy == wire::Policy::kAdaptive && v.trusted == 0)
    return "policy adaptive needs a trusted host, which recomputes a share of the results, and "
           "none "
           "takes work";
  if (job->policy.policy == wire::Policy::kReplicate && v.groups < job->policy.replicas)
    return "policy replicate needs " + std::to_string(job->policy.replicas) +
           " independent hosts and " + std::to_string(v.groups) +
           (v.groups == 1 ? " is here" : " are here") +
           " (hosts of one account or address count as one)";
  const Cut& most = cut(*job);
  std::uint64_t least = job->exhausted_memory >= most.memory_bytes ? job->need_bytes : 0;
  if (job->needing > 0) {
    bool fits = false;
    std::uint64_t smallest = 0;
    for (const auto& [task_id, task] : job->tasks) {
      if (task.category != Category::kReady) continue;
      fits = fits || task.memory_bytes <= most.memory_bytes;
      smallest = smallest == 0 ? task.memory_bytes : std::min(smallest, task.memory_bytes);
    }
    if (!fits) least = std::max(least, smallest);
  }
  if (least > most.memory_bytes) {
    std::string who = "no host offers";
    if (most.memory_bytes < v.max_worker_memory)
      who = job->policy.policy == wire::Policy::kValidator ||
                    job->policy.policy == wire::Policy::kAdaptive
                ? "no validator offers"
                : "fewer than " + std::to_string(job->policy.replicas) + " independent hosts offer";
    return "each task needs " + mebibytes(least) + " and " + who + " more than " +
           mebibytes(most.memory_bytes);
  }
  if (judging) return {};
  if (job->needing > 0) {
    std::string undecided = undecided_reason(*job, name);
    return undecided.empty() ? busy_reason(*job) : undecided;
  }
  return job->planning ? "its planner is at work" : "";
}

}  // namespace goblin::scheduler
