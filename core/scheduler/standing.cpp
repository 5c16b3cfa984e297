// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What hosts have earned, what faults cost them, across jobs.
#include <algorithm>

#include "core/scheduler/scheduler_impl.hpp"

namespace goblin::scheduler {

void SchedulerImpl::credit(HostId id) {
  Host* host = find_host(id);
  if (host == nullptr || host->spec.trusted) return;
  ++host->standing.passed;
  if (host->offered && keeps_role(*host)) set_role(*host, true);
  if (host->standing_changed) return;
  host->standing_changed = true;
  changed_standings_.push_back(id);
}

/// Only what a check or a trusted host has seen counts: hosts that agree with each other could earn
/// by that whatever they like.
void SchedulerImpl::credit_voters(const Task& task, const Lease& lease) {
  if (!task.validation.by_digest()) return credit(lease.host_id);
  const std::vector<HostId> voters = task.validation.voters();
  const bool by_trusted = std::any_of(voters.begin(), voters.end(), [this](HostId id) {
    const Host* host = find_host(id);
    return host != nullptr && host->spec.trusted;
  });
  if (!by_trusted) return;
  for (const HostId voter : voters) credit(voter);
}

/// Ordinary hosts that agree may be the ones that lie.
bool SchedulerImpl::proves(validation::RefusalReason reason) {
  return reason != validation::RefusalReason::kQuorumDiffers &&
         reason != validation::RefusalReason::kUnsettled;
}

bool SchedulerImpl::keeps_role(const Host& host) const {
  return host.standing.faults == 0 || host.standing.passed >= config_.forgive_after;
}

/// A validator was wrong: what it says is worth no more than what others say, in any job, and what
/// it said of results that are not decided on counts no more.
void SchedulerImpl::lose_role(Host& host, Job& job, const Task& task) {
  constexpr TaskId kNone = ~TaskId{0};
  say(Incident{job.id, task.id, host.id, "is no validator any more: its result was wrong", false,
               true});
  set_role(host, false);
  for (const auto& [id, other] : jobs_) {
    if (other.get() == &job || other->ended) continue;
    end_running_of(*other, host);
    distrust(*other, &host, host.id, kNone);
  }
}

void SchedulerImpl::set_role(Host& host, bool trusted) {
  if (host.spec.trusted == trusted) return;
  host.spec.trusted = trusted;
  ++hosts_epoch_;
  unpark_ = true;
  for (const auto& [id, job] : jobs_) {
    if (job->ended) continue;
    rejudge_by_digest(*job);
    mark(*job);
  }
}

/// Whether the fault is forgiven.
bool SchedulerImpl::count_fault(Host& host, validation::RefusalReason reason) {
  // Hosts that agree against one may be the ones that lie: that ends its part in the job, no more.
  if (!proves(reason)) return false;
  Standing& standing = host.standing;
  const bool numbers = reason == validation::RefusalReason::kCheckFailed ||
                       reason == validation::RefusalReason::kValidatorDiffers;
  const bool forgiven = numbers && standing.passed >= config_.forgive_after;
  standing.passed = 0;
  if (forgiven) {
    ++standing.forgiven;
  } else {
    ++standing.faults;
    constexpr std::uint32_t kMostDoubled = 20;
    if (standing.faults > 1 && config_.suspend_min > 0)
      suspend(host, now_ + std::min(config_.suspend_max, config_.suspend_min << std::min(
                                                             standing.faults - 2, kMostDoubled)));
  }
  say(StandingChanged{host.id, standing, true});
  return forgiven;
}

void SchedulerImpl::suspend(Host& host, Micros until) {
  host.standing.suspended_until = std::max(host.standing.suspended_until, until);
  host.suspended = host.standing.suspended_until > now_;
  if (!host.suspended) return;
  wake_at(host, host.standing.suspended_until);
  for (const auto& [id, job] : jobs_)
    if (!job->ended) end_running_of(*job, host);
  ++hosts_epoch_;
  unpark_ = true;
  mark(host);
}

void SchedulerImpl::end_suspension(Host& host) {
  host.suspended = false;
  mark(host);
  hosts_changed();
}

void SchedulerImpl::restore_standing(HostId id, const Standing& standing, Micros now) {
  advance(now);
  Host* host = find_host(id);
  if (host == nullptr) return;
  host->standing = standing;
  host->spec.trusted = host->offered && keeps_role(*host);
  if (standing.suspended_until > now_) suspend(*host, standing.suspended_until);
  hosts_changed();
}

void SchedulerImpl::say_standings() {
  for (const HostId id : changed_standings_) {
    Host* host = find_host(id);
    if (host == nullptr) continue;
    host->standing_changed = false;
    say(StandingChanged{id, host->standing});
  }
  changed_standings_.clear();
}

}  // namespace goblin::scheduler
