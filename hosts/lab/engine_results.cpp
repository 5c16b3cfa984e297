// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Results on their way: fetched, checked, accepted, checked again.
#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "hosts/lab/engine.hpp"

namespace goblin::lab {
namespace {

/// Fresh secret randomness for a check; drawn after the host has committed to its result.
std::array<std::uint8_t, 32> draw_seed() {
  std::array<std::uint8_t, 32> seed{};
  while (::getrandom(seed.data(), seed.size(), 0) != static_cast<ssize_t>(seed.size())) {
  }
  return seed;
}

/// Runner requests stay well below the cap of their frame.
constexpr std::size_t kBatch = 256;

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

// ---- fetching ----

void Engine::on(const scheduler::FetchResult& action) {
  const auto it = leases_.find(action.lease);
  if (it == leases_.end() || it->second.job->ended) {
    scheduler_->fetch_failed(action.lease, false, now());
    return;
  }
  const LeaseEntry& entry = it->second;
  if (entry.malformed) {
    note_incident(*entry.job, action.task, entry.pin, "refused",
                  "outputs of another number, type or shape than the task's");
    scheduler_->fetch_failed(action.lease, true, now());
    return;
  }
  const auto& outputs = entry.result.outputs;
  if (std::all_of(outputs.begin(), outputs.end(), [](const auto& o) { return o.is_inline(); })) {
    store_inline(action.lease);
  } else {
    loop_.spawn(fetch(action.lease));
  }
}

void Engine::store_inline(std::uint64_t lease) {
  LeaseEntry& entry = leases_.at(lease);
  const SlotLayout layout = SlotLayout::of(entry.task->planned.outputs);
  auto slot = entry.job->results.allocate(layout.total);
  Result<void> done;
  if (slot) {
    entry.slot = *slot;
    for (std::size_t i = 0; i < layout.sizes.size() && done; ++i) {
      done = entry.job->results.write(
          *slot, layout.offsets[i],
          std::span(entry.payload).subspan(entry.result.outputs[i].inline_offset, layout.sizes[i]));
    }
  } else {
    done = fail(std::move(slot).error());
  }
  if (!done) {
    loop_.spawn(end_job(entry.job, wire::JobState::kFailed, std::move(done).error()));
    return;
  }
  entry.job->counters->bytes_received += layout.total;
  scheduler_->fetched(lease, now());
}

net::Task<void> Engine::fetch(std::uint64_t lease) {
  LeaseEntry& first = leases_.at(lease);
  const JobPtr job = first.job;
  const auto task = first.task;
  const wire::TaskResult result = first.result;
  const wire::Bytes payload = first.payload;
  const auto host = hosts_.find(first.host);
  if (host == hosts_.end()) {
    scheduler_->fetch_failed(lease, false, now());
    pump_soon();
    co_return;
  }
  const auto port = host->second.port;
  const SlotLayout layout = SlotLayout::of(task->planned.outputs);
  auto slot = job->results.allocate(layout.total);
  if (!slot) {
    co_await end_job(job, wire::JobState::kFailed, std::move(slot).error());
    co_return;
  }
  bool wrong = false;
  Result<void> done;
  for (std::size_t i = 0; i < result.outputs.size() && done && !wrong; ++i) {
    const auto& output = result.outputs[i];
    if (output.is_inline()) {
      done = job->results.write(*slot, layout.offsets[i],
                                std::span(payload).subspan(output.inline_offset, layout.sizes[i]));
      continue;
    }
    auto sink = std::make_shared<SlotSink>(job->results.fd(*slot), slot->offset + layout.offsets[i],
                                           layout.sizes[i]);
    // A minute, and more for bytes at the least rate that a host may have.
    const net::Milliseconds limit(60'000 + static_cast<std::int64_t>(layout.sizes[i] / 64));
    auto fetched = co_await port->fetch(output.digest, sink, limit);
    if (job->ended) {
      co_return;
    }
    if (!fetched) {
      wrong =
          fetched.error().code == Code::kInvalidArgument || fetched.error().code == Code::kCorrupt;
      done = fail(std::move(fetched).error());
    } else if (sink->digest() != output.digest) {
      wrong = true;
      done = fail(Code::kCorrupt, "bytes that are not what the host had committed to");
    }
  }
  const auto it = leases_.find(lease);
  if (it == leases_.end()) {
    co_await release_slot(job, *slot);
    co_return;
  }
  if (done) {
    it->second.slot = *slot;
    job->counters->bytes_received += layout.total;
    job->shares[it->second.pin].bytes_received += layout.total;
    scheduler_->fetched(lease, now());
  } else {
    if (done.error().code == Code::kExhausted) {
      co_await end_job(job, wire::JobState::kFailed, std::move(done).error());
      co_return;
    }
    note_incident(*job, task->planned.id, it->second.pin, wrong ? "refused" : "not fetched",
                  done.error().message);
    scheduler_->fetch_failed(lease, wrong, now());
    co_await release_slot(job, *slot);
  }
  pump_soon();
}

net::Task<void> Engine::release_slot(JobPtr job, Slot slot) {
  if (job->ended || !job->results.release(slot)) {
    co_return;
  }
  for (const auto& runner : {job->planner, job->checker}) {
    if (runner) {
      co_await runner->forget(slot.stage);
    }
  }
}

// ---- where a runner finds things ----

net::Task<Result<std::vector<wire::TensorAt>>> Engine::outputs_at(
    JobPtr job, MappedRunner& runner, std::shared_ptr<const PreparedTask> task, Slot slot,
    bool writable) {
  const SlotLayout layout = SlotLayout::of(task->planned.outputs);
  // One map of a file serves reading and writing: runners of the lab side may write their results.
  GOBLIN_CO_TRY(const std::uint32_t segment,
                co_await runner.segment(slot.stage, job->results.fd(slot),
                                        job->results.file_bytes(slot), writable));
  std::vector<wire::TensorAt> outputs;
  for (std::size_t i = 0; i < layout.offsets.size(); ++i) {
    wire::TensorAt at;
    at.dtype = task->planned.outputs[i].dtype;
    at.shape = task->planned.outputs[i].shape;
    at.segment = segment;
    at.offset = slot.offset + layout.offsets[i];
    outputs.push_back(std::move(at));
  }
  co_return outputs;
}

net::Task<Result<std::vector<wire::TensorAt>>> Engine::inputs_at(
    JobPtr job, MappedRunner& runner, std::shared_ptr<const PreparedTask> task) {
  std::vector<wire::TensorAt> inputs;
  for (std::size_t i = 0; i < task->windows.size(); ++i) {
    const TensorFile& part = task->windows[i];
    const wire::View& view = task->planned.inputs[i];
    std::uint64_t key = MappedRunner::input_key(view.index);
    if (view.source == GOBLIN_SOURCE_TASK_RESULT) {
      const auto kept = job->kept.find(view.task);
      if (kept == job->kept.end()) {
        co_return fail(Code::kInternal, "a kept result has gone");
      }
      key = kept->second.slot.stage;
    }
    wire::TensorAt at;
    GOBLIN_CO_TRY(at.segment, co_await runner.segment(key, part.fd->get(), part.file_bytes, false));
    at.dtype = part.dtype;
    at.shape = part.shape;
    at.strides = part.strides;
    at.offset = part.offset;
    inputs.push_back(std::move(at));
  }
  co_return inputs;
}

net::Task<Result<wire::RunnerTask>> Engine::runner_task(JobPtr job, MappedRunner& runner,
                                                        std::shared_ptr<const PreparedTask> task,
                                                        Slot slot, std::uint64_t id) {
  wire::RunnerTask out;
  out.id = id;
  out.kind = job->record.kind_index;
  out.params = task->planned.params;
  GOBLIN_CO_TRY(out.inputs, co_await inputs_at(job, runner, task));
  GOBLIN_CO_TRY(out.outputs, co_await outputs_at(job, runner, task, slot, false));
  co_return out;
}

// ---- checking ----

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
  while (!job->ended && !queues_[number].check.empty()) {
    auto& waiting = queues_[number].check;
    const std::size_t n = std::min(waiting.size(), kBatch);
    std::vector<std::uint64_t> batch(waiting.begin(),
                                     waiting.begin() + static_cast<std::ptrdiff_t>(n));
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(n));
    auto answer = co_await run_checks(job, batch);
    if (job->ended) {
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
    for (const auto lease : batch) {
      const auto it = leases_.find(lease);
      const auto found = by_lease.find(lease);
      auto verdict = scheduler::Verdict::kAbstain;
      if (found != by_lease.end()) {
        verdict = verdict_of(*found->second);
        job->counters->check_us += found->second->check_us;
        if (verdict != scheduler::Verdict::kAccept && it != leases_.end()) {
          note_incident(*job, it->second.task->planned.id, it->second.pin,
                        verdict == scheduler::Verdict::kReject ? "rejected by the check"
                                                               : "not decided by the check",
                        found->second->message);
        }
      }
      ++job->counters->checked;
      scheduler_->checked(lease, verdict, now());
    }
    pump_soon();
  }
  if (const auto it = queues_.find(number); it != queues_.end()) {
    it->second.checking = false;
  }
}

net::Task<Result<wire::Checked>> Engine::run_checks(JobPtr job,
                                                    const std::vector<std::uint64_t>& leases) {
  constexpr std::uint32_t kMaxStarts = 3;
  if (!job->checker && job->checker_starts < kMaxStarts) {
    ++job->checker_starts;
    GOBLIN_CO_TRY(job->checker, co_await start_runner(job->memfd));
  }
  auto runner = job->checker;
  if (!runner) {
    co_return fail(Code::kUnavailable,
                   "the check runner has broken " + std::to_string(kMaxStarts) + " times");
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
    GOBLIN_CO_TRY(item.task, co_await runner_task(job, *runner, task, slot, lease));
    item.seed = draw_seed();
    request.tasks.push_back(std::move(item));
  }
  if (request.tasks.empty()) {
    co_return wire::Checked{};
  }
  auto answer = co_await runner->client().check(std::move(request), options_.check_deadline);
  if (!answer && job->checker == runner) {
    job->checker.reset();
  }
  co_return answer;
}

// ---- accepting ----

void Engine::on(const scheduler::AcceptResult& action) {
  const auto job = find_job(action.job);
  if (!job || job->ended) {
    return;
  }
  Queues& queues = queues_[action.job];
  queues.accept.push_back(action);
  if (!queues.accepting) {
    queues.accepting = true;
    loop_.spawn(accept_loop(job));
  }
}

net::Task<void> Engine::accept_loop(JobPtr job) {
  const std::uint64_t number = job->record.job;
  while (!job->ended && !queues_[number].accept.empty()) {
    auto& waiting = queues_[number].accept;
    const std::size_t n = std::min(waiting.size(), kBatch);
    std::vector<scheduler::AcceptResult> batch(waiting.begin(),
                                               waiting.begin() + static_cast<std::ptrdiff_t>(n));
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(n));
    auto done = co_await accept_batch(job, std::move(batch));
    if (job->ended) {
      co_return;
    }
    if (!done) {
      co_await end_job(job, wire::JobState::kFailed, std::move(done).error());
      co_return;
    }
    pump_soon();
  }
  if (const auto it = queues_.find(number); it != queues_.end()) {
    it->second.accepting = false;
  }
}

net::Task<Result<void>> Engine::accept_batch(JobPtr job,
                                             std::vector<scheduler::AcceptResult> batch) {
  auto runner = job->planner;
  wire::Accept request;
  auto kept_records = std::make_shared<std::vector<store::AcceptedRecord>>();
  auto& records = *kept_records;
  for (const auto& action : batch) {
    const auto it = leases_.find(action.lease);
    if (it == leases_.end() || !it->second.slot) {
      co_return fail(Code::kInternal, "the scheduler accepts a result whose bytes are not here");
    }
    const auto task = it->second.task;
    const Slot slot = *it->second.slot;
    wire::AcceptTask item;
    item.task = task->planned;
    item.has_outputs = true;
    GOBLIN_CO_TRY(item.outputs, co_await outputs_at(job, *runner, task, slot, false));
    request.tasks.push_back(std::move(item));
    store::AcceptedRecord record;
    record.job = job->record.job;
    record.task = action.task;
    record.host = pin_of(action.host);
    record.digest = action.digest;
    record.stage = slot.stage;
    record.stage_offset = slot.offset;
    record.planned = task->planned;
    records.push_back(std::move(record));
  }
  GOBLIN_CO_TRY(wire::Accepted answer,
                co_await runner->client().accept(std::move(request), options_.plan_deadline));
  if (answer.tasks.size() != batch.size()) {
    co_return fail(Code::kInternal, "the planner answers for another number of results");
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto& item = answer.tasks[i];
    if (item.status != GOBLIN_OK) {
      co_return fail(code_from_status(item.status),
                     "merging task " + std::to_string(item.id) + ": " + item.message);
    }
    records[i].merged = item.disposition == GOBLIN_ACCEPT_MERGED;
  }
  // The outputs hold the result before the journal says so: a crash between the two only means
  // that the task is computed again and writes the same bits.
  auto write = [kept_records](store::LabJournal& journal) {
    return journal.record_accepted(*kept_records);
  };
  GOBLIN_CO_TRY_VOID(co_await with_journal(write));
  if (job->ended) {
    co_return Result<void>{};
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto& action = batch[i];
    const auto it = leases_.find(action.lease);
    if (it != leases_.end()) {
      LeaseEntry& entry = it->second;
      auto& share = job->shares[entry.pin];
      ++share.accepted;
      share.compute_us += entry.result.compute_us;
      job->counters->compute_us += entry.result.compute_us;
      auto& past = past_hosts_[entry.pin];
      ++past.accepted;
      past.compute_us += entry.result.compute_us;
      past.peak_bytes = std::max(past.peak_bytes, entry.result.peak_bytes);
      if (const auto old = job->kept.find(action.task); old != job->kept.end()) {
        const Slot slot = old->second.slot;
        job->kept.erase(old);
        co_await release_slot(job, slot);
      }
      if (!records[i].merged && entry.slot) {
        job->kept.insert_or_assign(action.task, Kept{*entry.slot, records[i].planned.outputs});
        entry.slot.reset();  // the job has it now
      }
    }
    job->tasks.erase(action.task);
    scheduler_->accepted(action.job, action.task, now());
  }
  touch(*job);
  co_return Result<void>{};
}

// ---- checking again ----

void Engine::on(const scheduler::Recheck& action) {
  if (auto job = find_job(action.job); job && !job->ended) {
    loop_.spawn(recheck(std::move(job), action));
  }
}

net::Task<void> Engine::recheck(JobPtr job, scheduler::Recheck action) {
  auto verdict = co_await recheck_verdict(job, action.task);
  if (job->ended) {
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
    note_incident(*job, action.task, pin_of(action.host), "accepted before, refused now",
                  "found when the results of a refused host were checked again");
  }
  if (*verdict == scheduler::Verdict::kAccept) {
    job->tasks.erase(action.task);
  } else {
    const std::uint64_t number = action.job;
    const std::uint64_t task = action.task;
    auto done = co_await with_journal([number, task](store::LabJournal& journal) {
      return journal.withdraw_accepted(number, task);
    });
    if (job->ended) {
      co_return;
    }
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
  auto record = co_await with_journal(
      [number, id](store::LabJournal& journal) { return journal.accepted_task(number, id); });
  if (!record) {
    co_return fail(std::move(record).error());
  }
  if (job->ended) {
    co_return fail(Code::kCancelled, "the job has ended");
  }
  // The task is prepared again, for the check and for a second run.
  GOBLIN_CO_TRY(std::shared_ptr<PreparedTask> task, co_await prepare(job, record->planned));
  job->tasks.insert_or_assign(id, task);
  Slot slot;
  const bool merged = record->merged;
  if (merged) {
    GOBLIN_CO_TRY(slot, job->results.allocate(SlotLayout::of(task->planned.outputs).total));
    auto planner = job->planner;
    wire::Recall request;
    request.task = task->planned;
    auto outputs = co_await outputs_at(job, *planner, task, slot, true);
    Result<wire::Done> recalled = fail(Code::kUnavailable, "");
    if (outputs) {
      request.outputs = std::move(*outputs);
      recalled = co_await planner->client().recall(std::move(request), options_.plan_deadline);
    } else {
      recalled = fail(std::move(outputs).error());
    }
    if (!recalled || recalled->status != GOBLIN_OK) {
      co_await release_slot(job, slot);
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
      answer = co_await runner->client().check(std::move(request), options_.check_deadline);
    } else {
      answer = fail(std::move(at).error());
    }
  }
  if (merged && !job->ended) {
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
