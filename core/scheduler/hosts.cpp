// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Hosts: coming, changing, leaving, and whether they want work.
#include <algorithm>

#include "core/scheduler/scheduler_impl.hpp"

namespace goblin::scheduler {
namespace {

/// Hosts that left and are still remembered: their speed and cache are right when they come back
/// from a broken connection.
constexpr std::size_t kRememberedHosts = 4096;

}  // namespace

void SchedulerImpl::mark(Host& host) {
  if (host.dirty) return;
  host.dirty = true;
  dirty_hosts_.push_back(&host);
}

bool SchedulerImpl::wants_work(const Host& host) const {
  if (!takes_work(host) || host.not_before > now_) return false;
  if (host.running.size() >= host.spec.slots) return false;
  return host.running.size() < 2 || host.load < config_.queue_target;
}

/// Whether the host may start what nobody has a result of. Completing what others have begun is
/// always allowed: it is what frees the results that wait.
bool SchedulerImpl::may_begin(const Host& host) const {
  if (host.committed.empty()) return true;
  return host.committed.size() < config_.max_unjudged &&
         host.unjudged_bytes < config_.max_unjudged_bytes;
}

void SchedulerImpl::update_hunger(Host& host) {
  const bool hungry = wants_work(host) && !host.parked;
  const std::pair<Micros, std::uint32_t> key{host.load,
                                             static_cast<std::uint32_t>(host.running.size())};
  if (host.hungry && hungry && host.key == key) return;
  if (host.hungry) hungry_.erase({host.key, host.id});
  if (hungry) hungry_.insert({key, host.id});
  host.hungry = hungry;
  host.key = key;
}

Micros SchedulerImpl::backoff(std::uint32_t setbacks) const {
  return std::min(config_.backoff_max, config_.backoff_min << std::min(setbacks, 20u));
}

void SchedulerImpl::set_back(Host& host) {
  host.not_before = now_ + backoff(host.setbacks++);
  wake_at(host, host.not_before);
  mark(host);
}

/// Tasks that fail speak against the job's plugin on this host, not against other jobs.
void SchedulerImpl::set_back(Job& job, Host& host) {
  JobHost& known = job.hosts[host.id];
  known.not_before = now_ + backoff(known.setbacks++);
  host.jobs_not_before = std::max(host.jobs_not_before, known.not_before);
  wake_at(host, known.not_before);
  mark(host);
}

bool SchedulerImpl::pauses(const Job& job, const Host& host) const {
  if (host.jobs_not_before <= now_) return false;
  const auto known = job.hosts.find(host.id);
  return known != job.hosts.end() && known->second.not_before > now_;
}

void SchedulerImpl::wake_at(Host& host, Micros when) {
  if (when >= host.timer) return;
  host.timer = when;
  timers_.emplace(when, host.id);
}

void SchedulerImpl::hosts_changed() {
  ++hosts_epoch_;
  unpark_ = true;
  for (auto& [id, job] : jobs_) {
    if (job->ended) continue;
    job->exhausted_memory = 0;
    job->need_bytes = 0;
    rejudge_by_digest(*job);
    mark(*job);
  }
  settle();
}

/// Whether a validator is here decides where abstained checks go, who is left to ask what becomes
/// of a dispute.
void SchedulerImpl::rejudge_by_digest(Job& job) {
  const bool all =
      job.policy.policy == wire::Policy::kAlgebraic || job.policy.policy == wire::Policy::kAdaptive;
  for (auto& [id, task] : job.tasks)
    if (task.state == TaskState::kOpen && task.validation.by_digest() && task.batch == 0 &&
        (all || task.validation.unconfirmed()))
      queue_judge(task);
}

void SchedulerImpl::host_joined(HostId id, const HostSpec& spec, Micros now) {
  advance(now);
  auto [it, fresh] = hosts_.try_emplace(id);
  if (fresh) it->second = std::make_unique<Host>(id, blobs_);
  Host& host = *it->second;
  if (host.connected) drop_host_leases(host, "left");
  std::erase(left_hosts_, id);
  host.connected = true;
  host.spec = spec;
  host.offered = spec.trusted;
  host.spec.trusted = spec.trusted && keeps_role(host);
  host.counts.idle_reason.clear();
  // Its owner may have changed the settings.
  for (const auto& [job_id, job] : jobs_) {
    if (const auto known = job->hosts.find(id); known != job->hosts.end()) {
      known->second.unsuited = false;
    }
  }
  mark(host);
  hosts_changed();
}

void SchedulerImpl::host_changed(HostId id, const HostSpec& spec, Micros now) {
  advance(now);
  Host* host = find_host(id);
  if (host == nullptr || !host->connected) return;
  host->spec = spec;
  host->offered = spec.trusted;
  host->spec.trusted = spec.trusted && keeps_role(*host);
  host->cache.shrink(spec.cache_bytes);
  if (!spec.accepting) {
    take_back_waiting(*host);
    redraw_for_others(*host);
  }
  mark(*host);
  hosts_changed();
}

/// Nobody knows when a paused host goes on: what it has not begun goes to others, without blame.
void SchedulerImpl::take_back_waiting(Host& host) {
  for (std::size_t i = host.running.size(); i-- > 0;) {
    Lease& lease = *host.running[i];
    if (lease.running_since != 0) continue;
    Task& task = *lease.task;
    say(CancelLease{host.id, lease.id});
    end_running(lease);
    queue_judge(task);
  }
}

void SchedulerImpl::drop_host_leases(Host& host, std::string_view why) {
  const auto kept = kept_back(host);
  std::vector<Task*> touched;
  while (!host.running.empty()) {
    Lease& lease = *host.running.back();
    say(Incident{lease.job->id, lease.task->id, host.id, std::string(why)});
    touched.push_back(lease.task);
    end_running(lease);
  }
  while (!host.committed.empty()) {
    Lease& lease = *host.committed.back();
    Task& task = *lease.task;
    unlink(host.committed, lease);
    if (!lease.held) host.unjudged_bytes -= task.output_bytes;
    const bool fetching = lease.fetching;
    end_fetch(lease);
    lease.host = nullptr;
    if (lease.state == LeaseState::kAccepting) continue;
    if (!fetching && task.validation.has_bytes(lease.id)) continue;
    // Its word may still count where digests decide; its bytes cannot be had.
    task.validation.fetch_failed(lease.id, false);
    say(Incident{lease.job->id, task.id, host.id, std::string(why) + " with its result"});
    say(ReleaseResult{host.id, lease.id});
    end_committed(lease);
    touched.push_back(&task);
  }
  for (const auto& [job, task] : kept) count_undelivered(*task->job, *task, host.id);
  for (Task* task : touched) queue_judge(*task);
}

void SchedulerImpl::host_left(HostId id, Micros now) {
  advance(now);
  Host* host = find_host(id);
  if (host == nullptr || !host->connected) return;
  host->connected = false;
  drop_host_leases(*host, "left");
  redraw_for_others(*host);
  host->setbacks = 0;
  host->not_before = 0;
  mark(*host);
  left_hosts_.push_back(id);
  hosts_changed();
  if (left_hosts_.size() > kRememberedHosts) forget_oldest_host();
}

void SchedulerImpl::forget_oldest_host() {
  const auto it = hosts_.find(left_hosts_.front());
  left_hosts_.erase(left_hosts_.begin());
  if (it == hosts_.end() || it->second->connected) return;
  Host& host = *it->second;
  if (host.dirty) std::erase(dirty_hosts_, &host);
  if (host.parked) unpark(host);
  if (host.hungry) hungry_.erase({host.key, host.id});
  host.cache.clear();
  if (host.standing_changed) {
    std::erase(changed_standings_, host.id);
    say(StandingChanged{host.id, host.standing});
  }
  hosts_.erase(it);
}

}  // namespace goblin::scheduler
