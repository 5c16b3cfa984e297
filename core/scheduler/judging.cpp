// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// From a committed result to an accepted task, and what happens to a host that was wrong.
#include <algorithm>
#include <string>

#include "core/scheduler/scheduler_impl.hpp"

namespace goblin::scheduler {
namespace {

std::string reason_text(validation::RefusalReason reason) {
  switch (reason) {
    case validation::RefusalReason::kCheckFailed:
      return "refused by check";
    case validation::RefusalReason::kBytesDiffer:
      return "refused: its bytes are not what it had committed to";
    case validation::RefusalReason::kValidatorDiffers:
      return "refused: a validator computed another result";
    case validation::RefusalReason::kQuorumDiffers:
      return "refused: independent hosts agree on another result";
    case validation::RefusalReason::kCommitmentChanged:
      return "refused: it had committed to another result before";
    case validation::RefusalReason::kUnsettled:
      return "not used: a validator computed another result, and no further host was here to tell "
             "which of the two is wrong";
  }
  return "refused";
}

}  // namespace

void SchedulerImpl::queue_judge(Task& task) {
  if (task.judge_pending || task.state != TaskState::kOpen) return;
  task.judge_pending = true;
  judge_queue_.push_back(&task);
}

void SchedulerImpl::settle() {
  while (!judge_queue_.empty()) {
    Task* task = judge_queue_.back();
    judge_queue_.pop_back();
    task->judge_pending = false;
    judge(*task);
  }
}

void SchedulerImpl::judge(Task& task) {
  Job& job = *task.job;
  if (job.ended || task.state != TaskState::kOpen) return;
  const JobView& v = view(job);
  task.validation.set_validator_available(v.trusted > 0 &&
                                          v.max_trusted_memory >= task.memory_bytes);
  task.validation.set_replicas_available(!task.running.empty() ||
                                         v.ordinary_groups > task.validation.groups());
  if (task.validation.unconfirmed()) look_for_more(task);
  const validation::Decision decision = task.validation.decide();
  task.want_results = decision.want_results;
  task.want_validator = decision.want_validator;
  if (decision.fetch) {
    Lease& lease = *find_lease(*decision.fetch);
    begin_fetch(lease);
    say(FetchResult{lease.host_id, lease.id, job.id, task.id});
  }
  for (const LeaseId id : decision.release) {
    if (const Lease* lease = find_lease(id)) say(ForgetBytes{lease->host_id, id});
  }
  if (decision.check) say(CheckResult{*decision.check, job.id, task.id});
  for (const validation::Refusal& refusal : decision.refuse) refuse(task, refusal);
  if (decision.fail) {
    fail_job(job, decision.fail->with_context("task " + std::to_string(task.id)));
    return;
  }
  if (decision.accept) accept(task, *find_lease(*decision.accept));
  if (decision.hold) hold(task, *find_lease(*decision.hold));
  update_lists(task);
}

/// Who could still compute a task of which too little is known.
void SchedulerImpl::look_for_more(Task& task) {
  Job& job = *task.job;
  bool validator = false;
  bool host = false;
  for (const Lease* lease : task.running) (lease->validator ? validator : host) = true;
  for (const auto& [id, other] : hosts_) {
    if (validator && host) break;
    if (!serves(job, *other) || other->spec.memory_bytes < task.memory_bytes) continue;
    if (!task.validation.may_ask(id, other->spec.group, other->spec.trusted)) continue;
    validator = validator || other->spec.trusted;
    host = host || takes_ordinary(job, *other);
  }
  task.validation.set_left_to_ask(validator, host);
}

void SchedulerImpl::accept(Task& task, Lease& lease) {
  Job& job = *task.job;
  task.state = TaskState::kAccepting;
  task.accepting = lease.id;
  lease.state = LeaseState::kAccepting;
  credit_voters(task, lease);
  leave_batch(task);
  if (task.audit != 0) batch_passed(job, task.audit);
  while (!task.running.empty()) {
    Lease& other = *task.running.back();
    say(CancelLease{other.host_id, other.id});
    end_running(other);
  }
  for (std::size_t i = task.committed.size(); i-- > 0;) {
    Lease& other = *task.committed[i];
    if (&other == &lease) continue;
    // Who stalls until others have done the work has not delivered either.
    if (other.fetch_late && sends_nothing(other)) not_delivered(other);
    say(ReleaseResult{other.host_id, other.id});
    end_committed(other);
  }
  std::vector<HostId> confirmed = task.validation.voters();
  std::erase(confirmed, lease.host_id);
  say(AcceptResult{lease.id, lease.host_id, job.id, task.id, lease.digest, std::move(confirmed)});
}

void SchedulerImpl::refuse(Task& task, const validation::Refusal& refusal) {
  Job& job = *task.job;
  if (refusal.reason == validation::RefusalReason::kUnsettled) return not_used(task, refusal);
  ++job.counts.refused;
  if (!job.first_refused) job.first_refused = task.id;
  Host* host = find_host(refusal.host);
  if (host != nullptr) ++host->counts.refused;
  std::string reason = reason_text(refusal.reason);
  // The lease may be over already: a lost result can still be outvoted.
  if (Lease* lease = find_lease(refusal.lease)) {
    say(ReleaseResult{lease->host_id, lease->id});
    end_committed(*lease);
  }
  // Further results of a host that was caught in the job are not further faults.
  const bool caught = job.hosts[refusal.host].quarantined;
  if (!caught && host != nullptr && count_fault(*host, refusal.reason)) {
    reason += "; forgiven, it was right for long: what it computed before is checked anew";
    say(Incident{job.id, task.id, refusal.host, std::move(reason), true});
    distrust(job, host, refusal.host, task.id);
    return;
  }
  if (host != nullptr && host->spec.trusted && !keeps_role(*host)) lose_role(*host, job, task);
  say(Incident{job.id, task.id, refusal.host, reason, true});
  quarantine(job, host, refusal.host, task.id, std::move(reason));
}

/// A validator's word against the host's, and nobody else's: that is no reason to call it wrong.
void SchedulerImpl::not_used(Task& task, const validation::Refusal& refusal) {
  Job& job = *task.job;
  if (Lease* lease = find_lease(refusal.lease)) {
    say(ReleaseResult{lease->host_id, lease->id});
    end_committed(*lease);
  }
  say(Incident{job.id, task.id, refusal.host, reason_text(refusal.reason), false, true});
  // What its batch was to vouch for is not vouched for.
  if (job.policy.policy == wire::Policy::kAdaptive)
    distrust(job, find_host(refusal.host), refusal.host, task.id);
}

void SchedulerImpl::quarantine(Job& job, Host* host, HostId host_id, TaskId task_id,
                               std::string reason) {
  JobHost& known = job.hosts[host_id];
  if (known.quarantined) return;
  known.quarantined = true;
  job.view.epoch = 0;
  unpark_ = true;
  mark(job);
  say(Quarantine{job.id, host_id, task_id, std::move(reason)});
  if (host != nullptr) end_running_of(job, *host);
  distrust(job, host, host_id, task_id);
  if (host != nullptr && host->spec.trusted) rejudge_by_digest(job);
}

/// Takes back all that rests on the host's word: results that are not decided on, votes, held
/// results; what was accepted on it alone is checked anew. Also where the host has left since.
void SchedulerImpl::distrust(Job& job, Host* host, HostId host_id, TaskId except) {
  dissolve_batches(job, host_id);
  for (auto& [id, task] : job.tasks) {
    if (task.state != TaskState::kOpen) continue;
    const std::size_t before = task.validation.results();
    if (id != except) task.validation.discard(host_id);
    for (std::size_t i = task.committed.size(); i-- > 0;) {
      Lease& lease = *task.committed[i];
      if (lease.host_id != host_id) continue;
      say(ReleaseResult{host_id, lease.id});
      end_committed(lease);
      queue_judge(task);
    }
    if (task.validation.results() != before) {
      leave_batch(task);
      queue_judge(task);
    }
  }
  if (host != nullptr) mark(*host);
  recheck_unsupported(job, host_id);
}

void SchedulerImpl::end_running_of(Job& job, Host& host) {
  for (std::size_t i = host.running.size(); i-- > 0;) {
    if (i >= host.running.size() || host.running[i]->job != &job) continue;
    Lease& lease = *host.running[i];
    Task& task = *lease.task;
    say(CancelLease{host.id, lease.id});
    end_running(lease);
    queue_judge(task);
  }
  mark(host);
}

/// Puts the task where placement finds it, if it wants a host.
void SchedulerImpl::update_lists(Task& task) {
  Job& job = *task.job;
  std::size_t ordinary = 0;
  std::size_t validators = 0;
  for (const Lease* lease : task.running) ++(lease->validator ? validators : ordinary);
  const bool open = task.state == TaskState::kOpen && !job.ended;
  const bool wants_host = open && task.want_results > ordinary;
  const bool wants_validator = open && task.want_validator && validators == 0;
  const bool partial = task.touched;
  const bool was_needing = ReadyList::linked(&task) || ValidateList::linked(&task);

  const bool listed = ReadyList::linked(&task);
  if (listed && (!wants_host || partial != task.ready_partial ||
                 task.ready_class != ReadyQueue::class_of(task.memory_bytes)))
    (task.ready_partial ? job.partial : job.fresh).remove(&task);
  if (wants_host && !ReadyList::linked(&task)) {
    task.ready_partial = partial;
    (partial ? job.partial : job.fresh).push(&task);
    unpark_ = true;
  }
  if (ValidateList::linked(&task) != wants_validator) {
    if (wants_validator) {
      job.validate.push_back(&task);
      unpark_ = true;
    } else {
      job.validate.remove(&task);
    }
  }
  if (wants_host && partial && draws_replicas(task)) {
    const std::size_t need = task.want_results - ordinary;
    if (task.drawn_until <= now_ || task.drawn.size() < need) draw(task, need);
  }
  const bool needing = wants_host || wants_validator;
  if (needing != was_needing) {
    job.needing += needing ? 1 : -1;
    update_runnable(job);
  }
  const Category category = needing ? Category::kReady
                            : task.state == TaskState::kAccepting || task.validation.results() > 0
                                ? Category::kJudging
                                : Category::kLeased;
  if (category != task.category) {
    --job.categories[static_cast<std::size_t>(task.category)];
    ++job.categories[static_cast<std::size_t>(category)];
    task.category = category;
  }
  mark(job);
}

void SchedulerImpl::checked(LeaseId id, Verdict verdict, Micros now) {
  advance(now);
  Lease* lease = find_lease(id);
  if (lease == nullptr || lease->state != LeaseState::kCommitted) return;
  lease->task->validation.checked(id, verdict);
  queue_judge(*lease->task);
  settle();
}

}  // namespace goblin::scheduler
