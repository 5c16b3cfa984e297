// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Leases: what hosts say of them, deadlines, and how long things take.
#include <algorithm>
#include <string>

#include "core/scheduler/scheduler_impl.hpp"

namespace goblin::scheduler {
namespace {

/// A lease whose duration nobody can predict yet is looked at so often: other hosts may teach it.
constexpr Micros kLearnInterval = 1'000'000;

Micros micros(double seconds) {
  return seconds <= 0 ? 0 : static_cast<Micros>(std::min(seconds * 1e6, 1e15));
}

}  // namespace

void SchedulerImpl::unlink(std::vector<Lease*>& list, Lease& lease) {
  list[lease.host_index] = list.back();
  list[lease.host_index]->host_index = lease.host_index;
  list.pop_back();
}

void SchedulerImpl::end_running(Lease& lease) {
  Task& task = *lease.task;
  Job& job = *lease.job;
  Host& host = *lease.host;
  unlink(host.running, lease);
  host.load -= lease.load;
  mark(host);
  std::erase(task.running, &lease);
  if (task.running.empty()) job.running.remove(&task);
  if (lease.straggling) --job.straggling;
  // What it took of the host is the job's; the rest was not used.
  book(job, -std::max(0.0, lease.charged - double(now_ - lease.start) * 1e-6));
  leases_.erase(lease.id);
}

void SchedulerImpl::end_committed(Lease& lease) {
  end_fetch(lease);
  if (lease.host != nullptr) {
    unlink(lease.host->committed, lease);
    if (!lease.held) lease.host->unjudged_bytes -= lease.task->output_bytes;
    mark(*lease.host);
  }
  std::erase(lease.task->committed, &lease);
  leases_.erase(lease.id);
}

void SchedulerImpl::observe(Lease& lease, const Outcome& outcome) {
  Host& host = *lease.host;
  Job& job = *lease.job;
  // A host cannot have computed for longer than it had the lease, whatever it says.
  const Micros elapsed = std::max<Micros>(now_ - lease.start, 1);
  const double compute = double(std::clamp<Micros>(outcome.compute, 1, elapsed)) * 1e-6;
  const double flops = lease.task->flops;
  host.speed.add(flops, compute);
  job.speed.add(flops, compute);
  job.hosts[host.id].speed.add(flops, compute);
  if (lease.missing_bytes > 0 && outcome.fetch > 0)
    host.link.add(double(lease.missing_bytes), double(std::min(outcome.fetch, elapsed)) * 1e-6);
  book(job, compute - lease.charged);
  lease.charged = 0;
  for (Lease* other : host.running)
    if (!other->predicted && other != &lease) learn(*other);
}

void SchedulerImpl::outcome(HostId from, const Outcome& outcome, Micros now) {
  advance(now);
  Lease* lease = find_lease(outcome.lease);
  if (lease == nullptr) {
    // Cancelled, late, or of a job that is gone: the host may drop what it keeps for us.
    if (outcome.status == GOBLIN_OK) say(ReleaseResult{from, outcome.lease});
    return;
  }
  if (lease->host_id != from || lease->state != LeaseState::kRunning) return;
  Task& task = *lease->task;
  Host& host = *lease->host;
  if (outcome.status == GOBLIN_CANCELLED)
    return handed_back(from, outcome.lease, Code::kCancelled, now);
  if (outcome.status != GOBLIN_OK) {
    host_says_failed(*lease, code_from_status(outcome.status));
    return settle();
  }
  observe(*lease, outcome);
  // Of a host that could not deliver, a commitment alone is no success.
  JobHost& known = lease->job->hosts[from];
  if (known.undelivered == 0) host.setbacks = 0;
  known.setbacks = 0;
  unlink(host.running, *lease);
  host.load -= lease->load;
  std::erase(task.running, lease);
  if (task.running.empty()) lease->job->running.remove(&task);
  if (lease->straggling) --lease->job->straggling;
  lease->straggling = false;
  lease->state = LeaseState::kCommitted;
  lease->digest = outcome.digest;
  lease->host_index = host.committed.size();
  host.committed.push_back(lease);
  host.unjudged_bytes += task.output_bytes;
  task.committed.push_back(lease);
  mark(host);
  task.validation.committed(lease->id, from, lease->group, host.spec.trusted, outcome.digest,
                            host.standing.passed);
  queue_judge(task);
  settle();
  close_batches_of_full(host);
  settle();
}

void SchedulerImpl::host_says_failed(Lease& lease, Code code) {
  Task& task = *lease.task;
  Host& host = *lease.host;
  if (code == Code::kExhausted)
    task.exhausted_at = std::max(task.exhausted_at, host.spec.memory_bytes);
  if (code == Code::kUnavailable || code == Code::kNotFound || code == Code::kCorrupt)
    for (const BlobId blob : task.inputs) host.cache.erase(blob);
  lease_failed(lease, code, "failed: " + std::string(code_name(code)));
}

void SchedulerImpl::handed_back(HostId from, LeaseId id, Code reason, Micros now) {
  advance(now);
  Lease* lease = find_lease(id);
  if (lease == nullptr || lease->host_id != from || lease->state != LeaseState::kRunning) return;
  if (reason == Code::kUnsupported) {
    unsuited(*lease->job, *lease->task, *lease->host);
    return settle();
  }
  if (reason != Code::kUnavailable && reason != Code::kCancelled) {
    host_says_failed(*lease, reason);
    return settle();
  }
  Task& task = *lease->task;
  say(Incident{lease->job->id, task.id, from, "handed back"});
  set_back(*lease->host);
  end_running(*lease);
  queue_judge(task);
  settle();
}

/// Its owner does not allow the kind, or it lacks what that needs: no fault of host or task.
void SchedulerImpl::unsuited(Job& job, const Task& task, Host& host) {
  job.hosts[host.id].unsuited = true;
  job.view.epoch = 0;
  unpark_ = true;
  mark(job);
  say(Incident{job.id, task.id, host.id, "does not run this kind: no more work of this job"});
  end_running_of(job, host);
  if (host.spec.trusted) rejudge_by_digest(job);
}

void SchedulerImpl::lease_failed(Lease& lease, Code code, std::string what) {
  Task& task = *lease.task;
  Job& job = *lease.job;
  Host& host = *lease.host;
  ++job.counts.failed;
  ++host.counts.failed;
  task.failures.push_back({host.id, code});
  say(Incident{job.id, task.id, host.id, std::move(what)});
  // One failure may be the task's fault: a row of them makes a pause.
  if (JobHost& known = job.hosts[host.id]; known.setbacks > 0) {
    set_back(job, host);
  } else {
    known.setbacks = 1;
  }
  end_running(lease);
  queue_judge(task);
  if (task.failures.size() < config_.max_attempts) return;

  std::map<HostId, std::uint32_t> by_host;
  std::map<std::string, std::uint32_t> by_code;
  for (const Failure& f : task.failures) {
    ++by_host[f.host];
    ++by_code[std::string(code_name(f.code))];
  }
  bool all = true;
  for (const auto& [id, other] : hosts_)
    all = all && (!serves(job, *other) || by_host.contains(id));
  if (by_host.size() < 2 && !all) return;
  std::string counts;
  for (const auto& [name, count] : by_code)
    counts += (counts.empty() ? "" : ", ") + name + " " + std::to_string(count) + "×";
  fail_job(job, Error{code, "task " + std::to_string(task.id) + " failed " +
                                std::to_string(task.failures.size()) + " times on " +
                                std::to_string(by_host.size()) +
                                (by_host.size() == 1 ? " host (" : " hosts (") + counts + ")" +
                                (by_code.contains(std::string(code_name(Code::kExhausted)))
                                     ? "; it needs " + std::to_string(task.memory_bytes) +
                                           " bytes of memory"
                                     : "") +
                                "; the logs of the hosts say why"});
}

void SchedulerImpl::learn(Lease& lease) {
  const auto own = predict(*lease.job, *lease.host, lease.task->flops);
  if (!own) return;
  lease.predicted = true;
  lease.own = *own;
  lease.host->load += *own - lease.load;
  lease.load = *own;
  mark(*lease.host);
  // Its place in the queue is unknown: allow for one such task before it.
  const Micros expected = 2 * *own + transfer_time(*lease.host, lease.missing_bytes);
  lease.expected_end = lease.start + expected;
  const Micros allowed = micros(double(expected) * 1e-6 * config_.deadline_factor);
  lease.deadline = std::max(lease.deadline, lease.start + allowed);
  lease.last_deadline = std::max(lease.last_deadline, lease.deadline);
}

void SchedulerImpl::heartbeat(HostId id, const std::vector<LeaseId>& running, Micros now) {
  advance(now);
  Host* host = find_host(id);
  if (host == nullptr || !host->connected) return;
  const auto longest = [&](const Lease& lease) {
    if (!lease.predicted)
      return micros(double(config_.first_deadline) * 1e-6 * config_.deadline_factor);
    return std::max(config_.deadline_floor,
                    micros(double(lease.own) * 1e-6 * config_.deadline_factor));
  };
  const auto extend = [&](Lease& lease) {
    const Micros more = lease.predicted ? config_.deadline_floor : config_.first_deadline;
    lease.deadline = std::max(lease.deadline, std::min(lease.last_deadline, now_ + more));
  };
  bool computing = false;
  for (const LeaseId lease_id : running) {
    Lease* lease = find_lease(lease_id);
    if (lease == nullptr || lease->host != host || lease->state != LeaseState::kRunning) continue;
    computing = true;
    if (lease->running_since == 0) {
      lease->running_since = now_;
      // Its time in the queue is over: only its own counts from here.
      if (lease->predicted)
        lease->last_deadline = std::max(lease->last_deadline, now_ + longest(*lease));
    }
    extend(*lease);
  }
  if (!computing) return;
  // Those behind it wait through no fault of theirs; what they wait for has its own end.
  for (Lease* lease : host->running) {
    if (lease->running_since != 0) continue;
    lease->last_deadline = std::max(lease->last_deadline, now_ + longest(*lease));
    extend(*lease);
  }
}

void SchedulerImpl::expire(Host& host) {
  Micros next = host.not_before > now_ ? host.not_before : kNever;
  if (host.suspended) {
    if (host.standing.suspended_until > now_) {
      next = std::min(next, host.standing.suspended_until);
    } else {
      end_suspension(host);
    }
  }
  if (host.next_look > now_) next = std::min(next, host.next_look);
  if (host.jobs_not_before > now_) {
    for (const auto& [id, job] : jobs_) {
      const auto known = job->hosts.find(host.id);
      if (known != job->hosts.end() && known->second.not_before > now_)
        next = std::min(next, known->second.not_before);
    }
  }
  std::vector<LeaseId> over;
  for (Lease* lease : host.running) {
    if (lease->deadline <= now_) {
      over.push_back(lease->id);
      continue;
    }
    next = std::min(next, lease->deadline);
    if (!lease->predicted) learn(*lease);
    if (!lease->predicted) {
      // Slow or silent, nobody can tell: a host that has nothing else to do may find out.
      if (!lease->straggling && now_ - lease->start >= config_.blind_floor) {
        lease->straggling = true;
        ++lease->job->straggling;
        unpark_ = true;
      }
      next = std::min(next, now_ + kLearnInterval);
    } else if (!lease->straggling) {
      const double expected = double(lease->expected_end - lease->start);
      const Micros late =
          lease->start +
          std::max(config_.straggler_floor, micros(expected * 1e-6 * config_.straggler_factor));
      if (late > now_) {
        next = std::min(next, late);
      } else {
        lease->straggling = true;
        ++lease->job->straggling;
        unpark_ = true;
        if (draws_replicas(*lease->task) && !lease->validator) draw(*lease->task, 1);
      }
    }
  }
  for (Lease* lease : host.committed) {
    if (!lease->fetching || lease->fetch_late) continue;
    if (const Micros due = fetch_due(*lease); due > now_) {
      next = std::min(next, due);
    } else {
      fetch_is_late(*lease);
    }
  }
  for (const LeaseId id : over) {
    Lease* lease = find_lease(id);  // failing one job may have ended others of its leases
    if (lease == nullptr) continue;
    say(CancelLease{host.id, id});
    lease_failed(*lease, Code::kUnavailable, "late");
  }
  if (next != kNever) wake_at(host, next);
}

void SchedulerImpl::tick(Micros now) {
  advance(now);
  while (!timers_.empty() && timers_.top().first <= now_) {
    const auto [when, id] = timers_.top();
    timers_.pop();
    Host* host = find_host(id);
    if (host == nullptr || host->timer != when) continue;
    host->timer = kNever;
    mark(*host);
    expire(*host);
  }
  redraw();
  settle();
}

Micros SchedulerImpl::next_wakeup() const {
  const Micros timer = timers_.empty() ? kNever : timers_.top().first;
  return draws_.empty() ? timer : std::min(timer, draws_.top().until);
}

}  // namespace goblin::scheduler
