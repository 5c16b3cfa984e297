// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Fetches of committed results: how long they may take, and hosts that do not deliver.
#include <algorithm>
#include <string>

#include "core/scheduler/scheduler_impl.hpp"

namespace goblin::scheduler {

void SchedulerImpl::begin_fetch(Lease& lease) {
  lease.fetching = true;
  lease.fetch_start = now_;
  Micros limit = config_.first_fetch;
  if (lease.host != nullptr) {
    // Results of one host take turns on its link.
    lease.fetch_bytes = lease.host->unjudged_bytes;
    const auto all = fetches_.predict(double(lease.fetch_bytes));
    const auto own = lease.host->uplink.predict(double(lease.fetch_bytes));
    if (all) {
      const double seconds = std::max(*all, own.value_or(0)) * config_.straggler_factor;
      limit = std::max(config_.fetch_floor, static_cast<Micros>(std::min(seconds * 1e6, 1e15)));
    }
  }
  lease.fetch_late_at = now_ + limit;
  if (lease.host != nullptr) wake_at(*lease.host, lease.fetch_late_at);
}

/// Called for every lease that was fetched, or dies: harmless where no fetch was under way.
void SchedulerImpl::end_fetch(Lease& lease) {
  lease.fetching = false;
  if (!lease.fetch_late) return;
  lease.fetch_late = false;
  --lease.job->straggling;
  if (--lease.task->late_fetches == 0) lease.job->late.remove(lease.task);
}

void SchedulerImpl::fetch_is_late(Lease& lease) {
  Task& task = *lease.task;
  lease.fetch_late = true;
  ++lease.job->straggling;
  if (task.late_fetches++ == 0) lease.job->late.push_back(&task);
  task.validation.fetch_late(lease.id);
  unpark_ = true;
  queue_judge(task);
}

/// The host committed to a result and its bytes did not come.
void SchedulerImpl::not_delivered(Lease& lease) {
  Job& job = *lease.job;
  const HostId host_id = lease.host_id;
  if (lease.host != nullptr) set_back(*lease.host);
  JobHost& known = job.hosts[host_id];
  known.undelivered += kFailedFetch;
  if (known.barred() || known.undelivered < kFailedFetch * config_.max_failed_fetches) return;
  known.undelivering = true;
  job.view.epoch = 0;
  unpark_ = true;
  mark(job);
  say(Incident{job.id, lease.task->id, host_id,
               "its results could not be fetched " + std::to_string(config_.max_failed_fetches) +
                   " times: no more work of this job until it connects anew"});
  if (lease.host == nullptr) return;
  end_running_of(job, *lease.host);
  if (lease.host->spec.trusted) rejudge_by_digest(job);
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
