// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Fetches of committed results: how long they may take, and hosts that do not deliver.
#include <algorithm>
#include <string>

#include "core/scheduler/scheduler_impl.hpp"

namespace goblin::scheduler {
namespace {

/// A host that leaves sooner after a fetch began had no time to send anything.
constexpr Micros kTimeToSend = 1'000'000;

}  // namespace

void SchedulerImpl::begin_fetch(Lease& lease) {
  lease.fetching = true;
  lease.fetch_start = now_;
  lease.fetch_came = 0;
  Micros limit = config_.first_fetch;
  if (lease.host != nullptr) {
    if (lease.host->fetching++ == 0) lease.host->quiet_until = now_ + config_.fetch_silence;
    // Results of one host take turns on its link.
    lease.fetch_bytes = lease.host->unjudged_bytes;
    const auto all = fetches_.predict(double(lease.fetch_bytes));
    const auto own = lease.host->uplink.predict(double(lease.fetch_bytes));
    if (all) {
      // One that is known to send for longer than anybody is waited for has no claim on that time
      // again: whoever has nothing better to do may compute the task, too.
      const bool slow =
          own && *own * 1e6 > double(config_.fetch_floor) && *own > *all * config_.straggler_factor;
      const double seconds =
          (slow ? *all : std::max(*all, own.value_or(0))) * config_.straggler_factor;
      limit = std::max(slow ? config_.straggler_floor : config_.fetch_floor,
                       static_cast<Micros>(std::min(seconds * 1e6, 1e15)));
    }
  }
  lease.fetch_late_at = now_ + limit;
  if (lease.host != nullptr) wake_at(*lease.host, fetch_due(lease));
}

/// When the fetch is late unless bytes come. Results of one host take turns: it is silent only when
/// nothing of any of them comes.
Micros SchedulerImpl::fetch_due(const Lease& lease) {
  return lease.host == nullptr ? lease.fetch_late_at
                               : std::min(lease.fetch_late_at, lease.host->quiet_until);
}

bool SchedulerImpl::sends_nothing(const Lease& lease) const {
  return lease.fetch_came == 0 || lease.host == nullptr || lease.host->quiet_until <= now_;
}

void SchedulerImpl::fetch_progress(LeaseId id, std::uint64_t bytes, Micros now) {
  advance(now);
  Lease* lease = find_lease(id);
  if (lease == nullptr || !lease->fetching || lease->host == nullptr || bytes == 0) return;
  lease->fetch_came += bytes;
  Host& host = *lease->host;
  host.heard = now_;
  // A byte now and then buys no time to speak of.
  const double bought = double(bytes) / config_.fetch_pace * 1e6;
  host.quiet_until = std::min(now_ + config_.fetch_silence,
                              host.quiet_until + static_cast<Micros>(std::min(bought, 1e15)));
}

/// Called for every lease that was fetched, or dies: harmless where no fetch was under way.
void SchedulerImpl::end_fetch(Lease& lease) {
  if (lease.fetching && lease.host != nullptr) --lease.host->fetching;
  lease.fetching = false;
  if (!lease.fetch_late) return;
  lease.fetch_late = false;
  --lease.job->straggling;
  if (--lease.task->late_fetches == 0) lease.job->late.remove(lease.task);
}

void SchedulerImpl::fetch_is_late(Lease& lease) {
  Task& task = *lease.task;
  if (lease.host != nullptr && lease.fetch_came > 0) {
    const Micros time = std::max<Micros>(now_ - lease.fetch_start, 1);
    const double per_second = double(lease.fetch_came) * 1e6 / double(time);
    lease.host->uplink.add(double(lease.fetch_came), double(time) * 1e-6);
    say(Incident{lease.job->id, task.id, lease.host_id,
                 "sends its results slowly: " + std::to_string(lease.fetch_came) + " bytes in " +
                     std::to_string(time / 1000) + " ms, " +
                     std::to_string(static_cast<std::uint64_t>(per_second)) + " bytes/s",
                 false, true});
  }
  lease.fetch_late = true;
  ++lease.job->straggling;
  if (task.late_fetches++ == 0) lease.job->late.push_back(&task);
  task.validation.fetch_late(lease.id);
  unpark_ = true;
  queue_judge(task);
}

/// The host committed to a result and its bytes did not come.
void SchedulerImpl::not_delivered(Lease& lease) {
  if (lease.host != nullptr) set_back(*lease.host);
  count_undelivered(*lease.job, *lease.task, lease.host_id);
}

void SchedulerImpl::count_undelivered(Job& job, const Task& task, HostId host_id) {
  JobHost& known = job.hosts[host_id];
  known.undelivered += kFailedFetch;
  if (known.barred() || known.undelivered < kFailedFetch * config_.max_failed_fetches) return;
  known.undelivering = true;
  job.view.epoch = 0;
  unpark_ = true;
  mark(job);
  say(Incident{job.id, task.id, host_id,
               "took leases and did not deliver, " + std::to_string(config_.max_failed_fetches) +
                   " times: no more work of this job"});
  Host* host = find_host(host_id);
  if (host == nullptr) return;
  end_running_of(job, *host);
  if (host->spec.trusted) rejudge_by_digest(job);
}

/// Of a host that leaves: for each job a task of it whose result it kept back. One whose bytes were
/// on their way, of this result or of another, has lost its connection through no fault of its own.
std::map<JobId, const Task*> SchedulerImpl::kept_back(const Host& host) const {
  std::map<JobId, const Task*> tasks;
  for (const Lease* lease : host.committed) {
    if (!lease->fetching || lease->fetch_came > 0 || host.heard > lease->fetch_start) continue;
    if (now_ - lease->fetch_start >= kTimeToSend) tasks.emplace(lease->job->id, lease->task);
  }
  return tasks;
}

void SchedulerImpl::fetched(LeaseId id, Micros now) {
  advance(now);
  Lease* lease = find_lease(id);
  if (lease == nullptr || !lease->fetching || lease->state != LeaseState::kCommitted) return;
  end_fetch(*lease);
  const double seconds = double(std::max<Micros>(now_ - lease->fetch_start, 1)) * 1e-6;
  fetches_.add(double(lease->fetch_bytes), seconds);
  if (Host* host = lease->host; host != nullptr) {
    host->uplink.add(double(lease->fetch_bytes), seconds);
    host->heard = now_;
    host->quiet_until = now_ + config_.fetch_silence;
    JobHost& known = lease->job->hosts[host->id];
    if (known.undelivered > 0 && --known.undelivered == 0) host->setbacks = 0;
  }
  lease->task->validation.fetched(id);
  say(ForgetBytes{lease->host_id, id});
  queue_judge(*lease->task);
  settle();
}

void SchedulerImpl::fetch_failed(LeaseId id, bool wrong, Micros now) {
  advance(now);
  Lease* lease = find_lease(id);
  if (lease == nullptr || !lease->fetching || lease->state != LeaseState::kCommitted) return;
  end_fetch(*lease);
  Task& task = *lease->task;
  task.validation.fetch_failed(id, wrong);
  if (!wrong) {
    say(Incident{lease->job->id, task.id, lease->host_id, "result could not be fetched"});
    say(ReleaseResult{lease->host_id, id});
    not_delivered(*lease);
    end_committed(*lease);
  }
  queue_judge(task);
  settle();
}

}  // namespace goblin::scheduler
