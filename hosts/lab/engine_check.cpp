// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Results checked when they come in, and again when their host was refused later.
#include <algorithm>

#include "hosts/lab/engine.hpp"
#include "hosts/lab/secret.hpp"

namespace goblin::lab {
namespace {

constexpr std::size_t kBatch = 256;
/// A batch ends when it judges this much work: its deadline must hold.
constexpr double kBatchFlops = 4e13;
constexpr const char* kOfAnotherPlan = "the job has ended, or its plan was opened anew";
/// Runners that a job may start for its checks, beside the first.
constexpr std::uint32_t kMaxCheckers = 3;
/// Accepted results of a refused host that are checked again at once, a job's.
constexpr std::size_t kRechecks = 4;
/// One that finds no room for the result waits so long, so many times, before it abstains.
constexpr net::Milliseconds kRoomPause{1'000};
constexpr int kRoomTries = 60;

scheduler::Verdict verdict_of(const wire::CheckedTask& checked) {
  if (checked.status != GOBLIN_OK) {
    return scheduler::Verdict::kAbstain;
  }
  switch (checked.verdict) {
    case GOBLIN_VERDICT_ACCEPT:
      return scheduler::Verdict::kAccept;
    case GOBLIN_VERDICT_REJECT:
      return scheduler::Verdict::kReject;
    default:
      return scheduler::Verdict::kAbstain;
  }
}

}  // namespace

void Engine::on(const scheduler::CheckResult& action) {
  const auto job = find_job(action.job);
  if (!job || job->ended) {
    return;
  }
  Queues& queues = queues_[action.job];
  queues.check.push_back(action.lease);
  if (!queues.checking) {
    queues.checking = true;
    loop_.spawn(check_loop(job));
  }
}

net::Task<void> Engine::check_loop(JobPtr job) {
  const std::uint64_t number = job->record.job;
  const std::uint32_t plan = job->planner_starts;
  while (!job->ended && job->planner_starts == plan && !queues_[number].check.empty()) {
    auto& waiting = queues_[number].check;
    std::size_t n = 0;
    double flops = 0;
    std::size_t message = 0;
    for (; n < std::min(waiting.size(), kBatch) && flops < kBatchFlops; ++n) {
      const auto lease = leases_.find(waiting[n]);
      if (lease == leases_.end()) {
        continue;
      }
      flops += lease->second.task->planned.flops;
      message += most_bytes(lease->second.task->planned);
      if (n > 0 && message > kRequestBytes) {
        break;
      }
    }
    std::vector<std::uint64_t> batch(waiting.begin(),
                                     waiting.begin() + static_cast<std::ptrdiff_t>(n));
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(n));
    auto answer = co_await run_checks(job, batch);
    if (!answer) {
      // An array that was cut under the runner's feet kills it: that is no fault of the check.
      const bool hold = co_await inputs_of_leases_hold(job, batch);
      if (!hold || job->planner_starts != plan) {
        co_return;
      }
    }
    while (!answer && !job->ended && !job->checker && job->checker_starts < kMaxCheckers) {
      logger_.warn("job " + std::to_string(number) +
                   ": its check is started anew: " + answer.error().message);
      answer = co_await run_checks(job, batch);
    }
    if (job->ended || job->planner_starts != plan) {
      co_return;
    }
    std::unordered_map<std::uint64_t, const wire::CheckedTask*> by_lease;
    if (answer) {
      for (const auto& checked : answer->tasks) {
        by_lease.emplace(checked.id, &checked);
      }
    } else {
      // The kind's check broke: recomputation decides instead.
      logger_.warn("job " + std::to_string(number) + ": " + answer.error().message);
    }
    const auto sound = std::make_shared<std::unordered_set<wire::Digest>>();
    for (const auto& [lease, checked] : by_lease) {
      const auto it = leases_.find(lease);
      const bool fine =
          checked->status == GOBLIN_OK && verdict_of(*checked) != scheduler::Verdict::kReject;
      if (fine || it == leases_.end()) {
        continue;
      }
      const auto task = it->second.task;
      const bool hold = co_await inputs_hold(job, task, sound);
      if (!hold || job->planner_starts != plan) {
        co_return;
      }
    }
    for (const auto lease : batch) {
      const auto it = leases_.find(lease);
      const auto found = by_lease.find(lease);
      auto verdict = scheduler::Verdict::kAbstain;
      if (found != by_lease.end()) {
        verdict = verdict_of(*found->second);
        job->counters->check_us += found->second->check_us;
        if (verdict == scheduler::Verdict::kReject && it != leases_.end()) {
          saw_wrong(*job, it->second.task->planned.id, it->second.pin, found->second->message);
        } else if (verdict == scheduler::Verdict::kAbstain && it != leases_.end()) {
          note_incident(*job, it->second.task->planned.id, it->second.pin,
                        "not decided by the check", found->second->message);
        }
      }
      ++job->counters->checked;
      scheduler_->checked(lease, verdict, now());
    }
    pump_soon();
  }
  if (const auto it = queues_.find(number); it != queues_.end() && job->planner_starts == plan) {
    it->second.checking = false;
  }
}

net::Task<bool> Engine::inputs_of_leases_hold(JobPtr job, std::vector<std::uint64_t> leases) {
  const auto sound = std::make_shared<std::unordered_set<wire::Digest>>();
  for (const auto lease : leases) {
    const auto it = leases_.find(lease);
    if (it == leases_.end()) {
      continue;
    }
    const auto task = it->second.task;
    const bool hold = co_await inputs_hold(job, task, sound);
    if (!hold) {
      co_return false;
    }
  }
  co_return !job->ended;
}

net::Task<Result<wire::Checked>> Engine::run_checks(JobPtr job,
                                                    const std::vector<std::uint64_t>& leases) {
  if (job->checker && !job->checker->client().alive()) {
    job->checker.reset();
  }
  if (!job->checker && job->checker_starts < kMaxCheckers) {
    ++job->checker_starts;
    const auto memfd = job->memfd;
    GOBLIN_CO_TRY(std::shared_ptr<MappedRunner> fresh, co_await start_runner(memfd));
    if (job->ended) {
      co_return fail(Code::kCancelled, "the job has ended");
    }
    job->checker = std::move(fresh);
  }
  auto runner = job->checker;
  if (!runner) {
    co_return fail(Code::kUnavailable,
                   "the check runner has broken " + std::to_string(kMaxCheckers + 1) + " times");
  }
  wire::Check request;
  for (const auto lease : leases) {
    const auto it = leases_.find(lease);
    if (it == leases_.end() || !it->second.slot) {
      continue;
    }
    const auto task = it->second.task;
    const Slot slot = *it->second.slot;
    wire::CheckTask item;
    auto placed = co_await runner_task(job, *runner, task, slot, lease);
    if (!placed) {
      if (job->checker == runner && !runner->client().alive()) {
        job->checker.reset();
      }
      co_return fail(std::move(placed).error());
    }
    item.task = std::move(*placed);
    item.seed = draw_seed();
    request.tasks.push_back(std::move(item));
  }
  if (request.tasks.empty()) {
    co_return wire::Checked{};
  }
  auto answer = co_await runner->client().check(request, options_.check_deadline);
  if (!answer && job->checker == runner) {
    job->checker.reset();
  }
  co_return answer;
}

// ---- checking again ----

void Engine::on(const scheduler::Recheck& action) {
  auto job = find_job(action.job);
  if (!job || job->ended) {
    return;
  }
  job->rechecks.push_back({action, job->planner_starts});
  if (job->rechecking < kRechecks) {
    ++job->rechecking;
    loop_.spawn(recheck_loop(std::move(job)));
  }
}

/// Few at a time: each takes the room of a result, and the runner checks one after another.
net::Task<void> Engine::recheck_loop(JobPtr job) {
  while (!job->ended && !job->rechecks.empty()) {
    const Job::Queued next = job->rechecks.front();
    job->rechecks.pop_front();
    if (next.plan == job->planner_starts) {  // else the scheduler has asked anew
      co_await recheck(job, next.recheck);
    }
  }
  --job->rechecking;
}

net::Task<void> Engine::recheck(JobPtr job, scheduler::Recheck action) {
  if (job->ended || !job->planner) {
    co_return;
  }
  const std::uint32_t plan = job->planner_starts;
  auto verdict = co_await recheck_verdict(job, action.task);
  for (int tries = 1; tries < kRoomTries && !verdict && !job->ended &&
                      job->planner_starts == plan && verdict.error().code == Code::kExhausted;
       ++tries) {
    co_await loop_.sleep(kRoomPause);  // there will be room when others are done
    if (!job->ended && job->planner_starts == plan) {
      verdict = co_await recheck_verdict(job, action.task);
    }
  }
  if (job->ended || job->planner_starts != plan) {
    co_return;
  }
  if (!verdict && !job->tasks.contains(action.task)) {
    // Not even prepared: it cannot be computed again either.
    Error error = verdict.error().with_context("checking task " + std::to_string(action.task) +
                                               " of a refused host again");
    co_await end_job(job, wire::JobState::kFailed, std::move(error));
    co_return;
  }
  if (!verdict) {
    // It cannot be checked again: computed again, its digest decides.
    logger_.warn("job " + std::to_string(action.job) + ", task " + std::to_string(action.task) +
                 ": " + verdict.error().message);
    verdict = scheduler::Verdict::kAbstain;
  }
  ++job->counters->checked;
  if (*verdict == scheduler::Verdict::kReject) {
    if (const auto task = job->tasks.find(action.task); task != job->tasks.end()) {
      const auto prepared = task->second;
      const auto sound = std::make_shared<std::unordered_set<wire::Digest>>();
      const bool hold = co_await inputs_hold(job, prepared, sound);
      if (!hold || job->planner_starts != plan) {
        co_return;
      }
    }
    note_incident(*job, action.task, pin_of(action.host), "accepted before, refused now",
                  "found when the results of a refused host were checked again");
  }
  if (*verdict == scheduler::Verdict::kAccept) {
    drop_task(*job, action.task);
  } else {
    const std::uint64_t number = action.job;
    const std::uint64_t task = action.task;
    auto done = co_await with_journal([number, task](store::LabJournal& journal) {
      return journal.withdraw_accepted(number, task);
    });
    if (job->ended || job->planner_starts != plan) {
      co_return;
    }
    forget_views_of(*job, task);
    if (!done) {
      co_await end_job(job, wire::JobState::kFailed, std::move(done).error());
      co_return;
    }
    auto& share = job->shares[pin_of(action.host)];
    share.accepted -= std::min<std::uint64_t>(share.accepted, 1);
  }
  scheduler_->rechecked(action.job, action.task, *verdict, now());
  touch(*job);
  pump_soon();
}

net::Task<Result<scheduler::Verdict>> Engine::recheck_verdict(JobPtr job, std::uint64_t id) {
  const std::uint64_t number = job->record.job;
  const std::uint32_t plan = job->planner_starts;
  auto record = co_await with_journal(
      [number, id](store::LabJournal& journal) { return journal.accepted_task(number, id); });
  if (!record) {
    co_return fail(std::move(record).error());
  }
  if (job->ended || job->planner_starts != plan) {
    co_return fail(Code::kCancelled, kOfAnotherPlan);
  }
  // The task is prepared again, for the check and for a second run.
  GOBLIN_CO_TRY(std::shared_ptr<PreparedTask> task, co_await prepare(job, record->planned));
  if (job->ended || job->planner_starts != plan) {
    co_return fail(Code::kCancelled, kOfAnotherPlan);
  }
  drop_task(*job, id);
  job->tasks.emplace(id, task);
  Slot slot;
  const bool merged = record->merged;
  if (merged) {
    GOBLIN_CO_TRY(slot, co_await allocate_slot(job, SlotLayout::of(task->planned.outputs).total));
    auto planner = job->planner;
    if (!planner) {
      co_return fail(Code::kUnavailable, "the planner is gone");
    }
    wire::Recall request;
    request.task = task->planned;
    auto outputs = co_await outputs_at(job, *planner, task, slot, true);
    Result<wire::Done> recalled = fail(Code::kUnavailable, "");
    if (outputs) {
      request.outputs = std::move(*outputs);
      recalled = co_await planner->client().recall(request, options_.plan_deadline);
    } else {
      recalled = fail(std::move(outputs).error());
    }
    if (!recalled || recalled->status != GOBLIN_OK) {
      if (job->planner_starts == plan) {
        co_await release_slot(job, slot);
      }
      co_return fail(Code::kUnsupported, "the result cannot be recalled");
    }
  } else {
    const auto kept = job->kept.find(id);
    if (kept == job->kept.end()) {
      co_return fail(Code::kInternal, "a kept result has gone");
    }
    slot = kept->second.slot;
  }
  auto runner = job->checker;
  Result<wire::Checked> answer = fail(Code::kUnavailable, "the check runner is gone");
  if (runner) {
    wire::Check request;
    wire::CheckTask item;
    auto at = co_await runner_task(job, *runner, task, slot, id);
    if (at) {
      item.task = std::move(*at);
      item.seed = draw_seed();
      request.tasks.push_back(std::move(item));
      answer = co_await runner->client().check(request, options_.check_deadline);
    } else {
      answer = fail(std::move(at).error());
    }
  }
  if (merged && !job->ended && job->planner_starts == plan) {
    co_await release_slot(job, slot);
  }
  if (!answer) {
    co_return fail(std::move(answer).error());
  }
  if (answer->tasks.size() != 1) {
    co_return fail(Code::kInternal, "the check runner answers for another number of tasks");
  }
  job->counters->check_us += answer->tasks[0].check_us;
  co_return verdict_of(answer->tasks[0]);
}

}  // namespace goblin::lab
