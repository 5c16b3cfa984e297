// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Results accepted: merged by the planner, journalled, then told to the scheduler.
#include <algorithm>

#include "hosts/lab/engine.hpp"

namespace goblin::lab {
namespace {

constexpr std::size_t kBatch = 256;
/// A batch ends when it has this much to copy: its deadline must hold.
constexpr std::uint64_t kBatchBytes = 512u << 20;

}  // namespace

void Engine::on(const scheduler::AcceptResult& action) {
  const auto job = find_job(action.job);
  if (!job || job->ended) {
    return;
  }
  if (job->record.policy != wire::Policy::kAlgebraic) {
    ++job->counters->checked;  // by who else computed it: no check of the kind has seen it
  }
  job->counters->checked += action.confirmed.size();
  Queues& queues = queues_[action.job];
  queues.accept.push_back(action);
  if (!queues.accepting) {
    queues.accepting = true;
    loop_.spawn(accept_loop(job));
  }
}

net::Task<void> Engine::accept_loop(JobPtr job) {
  const std::uint64_t number = job->record.job;
  const std::uint32_t plan = job->planner_starts;
  while (!job->ended && job->planner_starts == plan && !queues_[number].accept.empty()) {
    auto& waiting = queues_[number].accept;
    std::size_t n = 0;
    std::uint64_t bytes = 0;
    std::size_t message = 0;
    for (; n < std::min(waiting.size(), kBatch) && bytes < kBatchBytes; ++n) {
      const auto lease = leases_.find(waiting[n].lease);
      if (lease == leases_.end() || !lease->second.slot) {
        continue;
      }
      bytes += lease->second.slot->bytes;
      message += most_bytes(lease->second.task->planned);
      if (n > 0 && message > kRequestBytes) {
        break;
      }
    }
    std::vector<scheduler::AcceptResult> batch(waiting.begin(),
                                               waiting.begin() + static_cast<std::ptrdiff_t>(n));
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(n));
    auto done = co_await accept_batch(job, std::move(batch));
    if (job->ended || job->planner_starts != plan) {
      co_return;
    }
    if (!done) {
      Error error = std::move(done).error();
      if (job->planner && !job->planner->client().alive()) {
        co_await planner_broke(job, std::move(error));
      } else {
        co_await end_job(job, wire::JobState::kFailed, std::move(error));
      }
      co_return;
    }
    pump_soon();
  }
  if (const auto it = queues_.find(number); it != queues_.end() && job->planner_starts == plan) {
    it->second.accepting = false;
  }
}

net::Task<Result<void>> Engine::accept_batch(JobPtr job,
                                             std::vector<scheduler::AcceptResult> batch) {
  auto runner = job->planner;
  const std::uint32_t plan = job->planner_starts;
  if (!runner) {
    co_return fail(Code::kUnavailable, "the planner is gone");
  }
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
  GOBLIN_CO_TRY_VOID(co_await out_files_hold(job));
  GOBLIN_CO_TRY(wire::Accepted answer,
                co_await runner->client().accept(request, options_.plan_deadline));
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
  // What was written to a file that has been cut meanwhile is gone: it must not count.
  GOBLIN_CO_TRY_VOID(co_await out_files_hold(job));
  // The outputs hold the result before the journal says so: a crash between the two only means
  // that the task is computed again and writes the same bits.
  auto write = [kept_records](store::LabJournal& journal) {
    return journal.record_accepted(*kept_records);
  };
  GOBLIN_CO_TRY_VOID(co_await with_journal(write));
  if (job->ended || job->planner_starts != plan) {
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
      speeds_.add(entry.host, computation_of(job->record), records[i].planned.flops,
                  static_cast<double>(entry.result.compute_us) * 1e-6);
      for (const auto host : action.confirmed) {
        const auto known = known_hosts_.find(host);
        if (known != known_hosts_.end()) {
          ++job->shares[known->second.pin].confirmed;
          ++past_hosts_[known->second.pin].confirmed;
        }
      }
      auto& past = past_hosts_[entry.pin];
      ++past.accepted;
      past.compute_us += entry.result.compute_us;
      past.peak_bytes = std::max(past.peak_bytes, entry.result.peak_bytes);
      if (const auto old = job->kept.find(action.task); old != job->kept.end()) {
        const Slot slot = old->second.slot;
        job->kept.erase(old);
        loop_.spawn(release_slot(job, slot));
      }
      if (!records[i].merged && entry.slot) {
        job->kept.insert_or_assign(action.task, Kept{*entry.slot, records[i].planned.outputs});
        entry.slot.reset();  // the job has it now
      }
    }
    drop_task(*job, action.task);
    scheduler_->accepted(action.job, action.task, now());
  }
  touch(*job);
  co_return Result<void>{};
}

}  // namespace goblin::lab
