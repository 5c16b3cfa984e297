// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Policy adaptive: results that are believed are held in batches, one of each is recomputed by a
// trusted host. Which one is drawn when all have been committed to, so that a host that was honest
// for long and then is not gains nothing but its last batch.
#include <algorithm>

#include "core/scheduler/scheduler_impl.hpp"

namespace goblin::scheduler {

/// The result counts as a result of the host that is known least among those that vouch for it.
void SchedulerImpl::hold(Task& task, Lease& lease) {
  Job& job = *task.job;
  if (!lease.held && lease.host != nullptr) {
    lease.host->unjudged_bytes -= task.output_bytes;  // its bytes are here
    mark(*lease.host);
  }
  lease.held = true;
  HostId owner = lease.host_id;
  std::uint64_t least = UINT64_MAX;
  for (const HostId voter : task.validation.voters()) {
    const Host* host = find_host(voter);
    const std::uint64_t passed = host == nullptr ? 0 : host->standing.passed;
    if (passed < least) {
      least = passed;
      owner = voter;
    }
  }
  if (least == UINT64_MAX) least = 0;
  std::uint64_t& open = job.hosts[owner].batch;
  if (open == 0) {
    open = ++job.last_batch;
    job.batches[open].host = owner;
    ++job.open_batches;
  }
  Batch& batch = job.batches[open];
  batch.tasks.push_back(task.id);
  batch.bytes += task.output_bytes;
  task.batch = open;
  ++job.batched;
  if (batch.tasks.size() >= validation::batch_size(least, job.policy.trust) ||
      batch.bytes >= config_.max_unjudged_bytes)
    close_batch(job, open);
  for (const Lease* waits : task.committed)
    if (waits->host != nullptr) close_batches_of_full(*waits->host);
}

/// A host that may begin nothing more, because so many of its results wait, brings nothing that
/// would fill the batches in which they wait: those are closed as they are.
void SchedulerImpl::close_batches_of_full(const Host& host) {
  if (may_begin(host)) return;
  for (const Lease* lease : host.committed) {
    const auto batch = lease->job->batches.find(lease->task->batch);
    if (batch != lease->job->batches.end() && !batch->second.audited)
      close_batch(*lease->job, batch->first);
  }
}

/// Draws the result that is recomputed.
void SchedulerImpl::close_batch(Job& job, std::uint64_t number) {
  Batch& batch = job.batches.at(number);
  if (batch.audited) return;
  job.hosts[batch.host].batch = 0;  // what follows is another batch
  --job.open_batches;
  std::erase_if(batch.tasks, [&](TaskId id) {
    const auto it = job.tasks.find(id);
    return it == job.tasks.end() || it->second.batch != number;
  });
  if (batch.tasks.empty()) {
    job.batches.erase(number);
    return;
  }
  const TaskId drawn = batch.tasks[random_below(batch.tasks.size())];
  batch.audited = drawn;
  Task& task = job.tasks.at(drawn);
  task.audit = number;
  task.validation.audit();
  queue_judge(task);
}

void SchedulerImpl::leave_batch(Task& task) {
  if (task.batch == 0) return;
  task.batch = 0;
  --task.job->batched;
}

void SchedulerImpl::batch_passed(Job& job, std::uint64_t number) {
  const auto batch = job.batches.extract(number);
  if (batch.empty()) return;  // its host was caught
  for (const TaskId id : batch.mapped().tasks) {
    const auto it = job.tasks.find(id);
    if (it == job.tasks.end() || it->second.batch != number) continue;
    it->second.validation.release();
    queue_judge(it->second);
  }
}

/// The host was caught: what it computed alone is computed anew, the rest judged without it.
void SchedulerImpl::dissolve_batches(Job& job, HostId host) {
  for (auto it = job.batches.begin(); it != job.batches.end();) {
    if (it->second.host != host) {
      ++it;
      continue;
    }
    for (const TaskId id : it->second.tasks) {
      const auto task = job.tasks.find(id);
      if (task == job.tasks.end() || task->second.batch != it->first) continue;
      leave_batch(task->second);
      queue_judge(task->second);
    }
    if (!it->second.audited) --job.open_batches;
    it = job.batches.erase(it);
  }
  job.hosts[host].batch = 0;
}

/// Nothing more comes to fill the open batches.
void SchedulerImpl::close_batches_of_drained(Job& job) {
  if (job.open_batches == 0 || job.planning || job.tasks.size() != job.batched) return;
  std::vector<std::uint64_t> open;
  for (const auto& [number, batch] : job.batches)
    if (!batch.audited) open.push_back(number);
  for (const std::uint64_t number : open) close_batch(job, number);
  settle();
}

}  // namespace goblin::scheduler
