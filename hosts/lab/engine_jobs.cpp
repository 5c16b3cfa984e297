// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Jobs run: their plan is opened, tasks are planned.
#include <algorithm>
#include <set>

#include "hosts/lab/engine.hpp"

namespace goblin::lab {

validation::PolicySpec Engine::policy_of(const store::JobRecord& record) const {
  return {record.policy, record.replicas, options_.trust};
}

wire::Capacity Engine::capacity_now(const Job& job) const {
  const scheduler::Cut cut = scheduler_->cut_now(policy_of(job.record));
  wire::Capacity capacity;
  capacity.memory_bytes = cut.memory_bytes;
  capacity.min_memory_bytes = cut.min_memory_bytes;
  capacity.hosts = cut.hosts;
  capacity.threads = cut.threads;
  return capacity;
}

net::Task<Result<void>> Engine::start_runners(JobPtr job) {
  if (!job->planner) {                 // after a restart of this daemon or of the planner
    if (job->files.outputs.empty()) {  // a planner that broke left them open
      GOBLIN_CO_TRY_VOID(co_await open_files(job, nullptr));
      if (job->ended) {
        co_return Result<void>{};
      }
    }
    GOBLIN_CO_TRY(const PluginFile file,
                  co_await plugins_.find(job->record.plugin, job->record.kind_index));
    job->memfd = file.memfd;
    auto planner = co_await start_runner(file.memfd);
    if (!planner || job->ended) {
      co_return planner ? Result<void>{} : fail(std::move(planner).error());
    }
    job->planner = std::move(*planner);
  }
  const auto memfd = job->memfd;
  auto checker = co_await start_runner(memfd);
  if (!checker || job->ended) {
    co_return checker ? Result<void>{} : fail(std::move(checker).error());
  }
  job->checker = std::move(*checker);
  co_return Result<void>{};
}

net::Task<void> Engine::run_job(JobPtr job) {
  const bool resumed = !job->planner;
  Result<void> outcome;
  if (!job->ended && plugins_.revoked(job->record.plugin)) {  // while it was submitted, or away
    Error error = revoked_error(*job);
    co_await end_job(job, wire::JobState::kFailed, std::move(error));
    co_return;
  }
  while (!job->ended && !stopped_) {
    std::optional<Turns::Turn> turn;
    if (resumed) {  // all at once after a restart: they start in turns
      auto taken = co_await runner_turns_.take(this);
      turn.emplace(std::move(taken));
      if (job->ended) {
        break;
      }
    }
    outcome = co_await start_runners(job);
    if (outcome && resumed && !job->ended && job->record.plan_state) {
      outcome = co_await adopt_kept(job);
    }
    turn.reset();
    const bool later =
        !outcome && resumed &&
        (outcome.error().code == Code::kUnavailable || outcome.error().code == Code::kExhausted);
    if (!later) {
      break;
    }
    // What was accepted is not thrown away because a plugin or a disk cannot be reached just now.
    logger_.warn("job " + std::to_string(job->record.job) + " waits: " + outcome.error().message);
    job->record.message = outcome.error().message;
    touch(*job);
    co_await loop_.sleep(net::Milliseconds(options_.retry_ms));
  }
  if (job->ended) {  // its message says why
    co_return;
  }
  job->record.message.clear();
  // Tiles are cut for the hosts at hand: wait for the first one.
  while (outcome && !job->ended && capacity_now(*job).hosts == 0) {
    hosts_changed_.reset();
    co_await hosts_changed_.wait();
  }
  bool opened = false;
  if (outcome && !job->ended) {
    outcome = co_await open_plan(job);
    opened = true;
  }
  if (job->ended) {
    co_return;
  }
  if (!outcome) {
    Error error = std::move(outcome).error();
    const bool broke = opened && job->planner && !job->planner->client().alive();
    if (broke) {
      co_await planner_broke(job, std::move(error));
    } else {
      co_await end_job(job, wire::JobState::kFailed, std::move(error));
    }
    co_return;
  }
  job->record.state = wire::JobState::kRunning;
  touch(*job);
  pump_soon();
}

net::Task<Result<void>> Engine::open_plan(JobPtr job) {
  auto runner = job->planner;
  wire::PlanOpen request;
  request.kind = job->record.kind_index;
  request.params = job->record.params;
  request.capacity = capacity_now(*job);
  request.state = job->record.plan_state;
  for (std::size_t i = 0; i < job->files.inputs.size(); ++i) {
    const TensorFile& tensor = job->files.inputs[i];
    wire::TensorAt at;
    if (tensor.dtype != 0) {
      GOBLIN_CO_TRY(at.segment,
                    co_await runner->segment(MappedRunner::input_key(i), tensor.fd->get(),
                                             tensor.file_bytes, false));
      at.dtype = tensor.dtype;
      at.shape = tensor.shape;
      at.strides = tensor.strides;
      at.offset = tensor.offset;
    }
    request.inputs.push_back(std::move(at));
  }
  for (std::size_t i = 0; i < job->files.outputs.size(); ++i) {
    const TensorFile& tensor = job->files.outputs[i];
    wire::TensorAt at;
    GOBLIN_CO_TRY(at.segment, co_await runner->segment(MappedRunner::output_key(i),
                                                       tensor.fd->get(), tensor.file_bytes, true));
    at.dtype = tensor.dtype;
    at.shape = tensor.shape;
    at.offset = tensor.offset;
    request.outputs.push_back(std::move(at));
  }
  GOBLIN_CO_TRY(wire::PlanOpened opened,
                co_await runner->client().plan_open(request, options_.plan_deadline));
  if (opened.status != GOBLIN_OK) {
    co_return fail(code_from_status(opened.status), std::move(opened.message));
  }
  if (job->ended) {
    co_return fail(Code::kCancelled, "the job has ended");
  }
  const std::uint64_t number = job->record.job;
  if (!job->record.plan_state) {
    job->record.plan_state = std::move(opened.state);
    auto write = [job](store::LabJournal& journal) {
      return journal.set_plan_state(job->record.job, *job->record.plan_state);
    };
    GOBLIN_CO_TRY_VOID(co_await with_journal(write));
  } else {
    GOBLIN_CO_TRY_VOID(co_await replay_accepted(job));
  }
  if (job->ended) {
    co_return fail(Code::kCancelled, "the job has ended");
  }
  if (!job->scheduled) {
    scheduler_->add_job(number, policy_of(job->record), job->record.weight, now());
    job->scheduled = true;
  }
  co_return Result<void>{};
}

/// Opens what was accepted and is kept, before the planner hears of any: a disk that fails now is
/// asked again later. Done again from the start each time.
net::Task<Result<void>> Engine::adopt_kept(JobPtr job) {
  const std::uint64_t number = job->record.job;
  auto records = co_await with_journal(
      [number](store::LabJournal& journal) { return journal.accepted(number); });
  if (!records || job->ended) {
    co_return records ? Result<void>{} : fail(std::move(records).error());
  }
  std::set<std::uint64_t> stages;
  for (const auto& record : *records) {
    if (!record.merged) {
      stages.insert(record.stage);
    }
  }
  job->kept.clear();
  job->results.reset(stages);
  for (const auto& record : *records) {
    if (record.merged) {
      continue;
    }
    const SlotLayout layout = SlotLayout::of(record.planned.outputs);
    const Slot slot{record.stage, record.stage_offset, layout.total};
    GOBLIN_CO_TRY_VOID(job->results.adopt(slot));
    job->kept.emplace(record.task, Kept{slot, record.planned.outputs});
  }
  co_return Result<void>{};
}

net::Task<Result<void>> Engine::replay_accepted(JobPtr job) {
  const std::uint64_t number = job->record.job;
  auto records = co_await with_journal(
      [number](store::LabJournal& journal) { return journal.accepted(number); });
  if (!records) {
    co_return fail(std::move(records).error());
  }
  if (job->ended) {
    co_return fail(Code::kCancelled, "the job has ended");
  }
  auto runner = job->planner;
  job->restored.clear();
  constexpr std::size_t kBatch = 256;
  std::size_t last = 0;
  for (std::size_t first = 0; first < records->size(); first = last) {
    wire::Accept request;
    std::size_t message = most_bytes((*records)[first].planned);
    for (last = first + 1; last < std::min(records->size(), first + kBatch); ++last) {
      message += most_bytes((*records)[last].planned);
      if (message > kRequestBytes) {
        break;
      }
    }
    for (std::size_t i = first; i < last; ++i) {
      const auto& record = (*records)[i];
      wire::AcceptTask item;
      item.task = record.planned;
      if (!record.merged) {
        const Slot slot = job->kept.at(record.task).slot;
        auto task = std::make_shared<PreparedTask>();
        task->planned = record.planned;
        item.has_outputs = true;
        GOBLIN_CO_TRY(item.outputs, co_await outputs_at(job, *runner, task, slot, false));
      }
      request.tasks.push_back(std::move(item));
    }
    GOBLIN_CO_TRY(wire::Accepted answer,
                  co_await runner->client().accept(request, options_.plan_deadline));
    if (job->ended) {
      co_return fail(Code::kCancelled, "the job has ended");
    }
    for (const auto& item : answer.tasks) {
      if (item.status != GOBLIN_OK) {
        co_return fail(code_from_status(item.status), "taking up accepted task " +
                                                          std::to_string(item.id) +
                                                          " after a restart: " + item.message);
      }
    }
  }
  auto quarantined = co_await with_journal(
      [number](store::LabJournal& journal) { return journal.quarantines(number); });
  if (!quarantined) {
    co_return fail(std::move(quarantined).error());
  }
  if (job->ended) {
    co_return fail(Code::kCancelled, "the job has ended");
  }
  // From here on nothing waits: the scheduler learns all of it before it acts.
  scheduler_->add_job(number, policy_of(job->record), job->record.weight, now());
  job->scheduled = true;
  for (const auto& record : *records) {
    scheduler_->restore_accepted(number, record.task, record.planned.flops, id_of(record.host));
    job->restored.insert(record.task);
    if (job->planner_starts == 0) {
      ++job->shares[record.host].accepted;
    }
  }
  for (const auto& record : *quarantined) {
    auto& share = job->shares[record.host];
    share.quarantined = true;
    share.reason = record.reason;
    scheduler_->restore_quarantine(number, id_of(record.host));
  }
  co_return Result<void>{};
}

Result<std::shared_ptr<PreparedTask>> Engine::bind(Job& job, wire::PlannedTask planned) const {
  auto task = std::make_shared<PreparedTask>();
  for (const auto& view : planned.inputs) {
    TensorFile source;
    if (view.source == GOBLIN_SOURCE_JOB_INPUT && view.index < job.files.inputs.size() &&
        job.files.inputs[view.index].dtype != 0) {
      source = job.files.inputs[view.index];
    } else if (view.source == GOBLIN_SOURCE_TASK_RESULT) {
      const auto kept = job.kept.find(view.task);
      if (kept == job.kept.end() || view.index >= kept->second.outputs.size()) {
        return fail(Code::kInternal, "the plan of " + job.record.kind + " names output " +
                                         std::to_string(view.index) + " of task " +
                                         std::to_string(view.task) + ", which is not kept");
      }
      const auto& spec = kept->second.outputs[view.index];
      const Slot& slot = kept->second.slot;
      source.fd = job.results.shared_fd(slot);
      source.file_bytes = job.results.file_bytes(slot);
      source.offset = slot.offset + SlotLayout::of(kept->second.outputs).offsets[view.index];
      source.dtype = spec.dtype;
      source.shape = spec.shape;
      source.strides = TensorFile::row_major(spec.dtype, spec.shape);
    } else {
      return fail(Code::kInternal,
                  "the plan of " + job.record.kind + " names a source that the job does not have");
    }
    auto part = window(source, view);
    if (!part) {
      return fail(part.error().with_context("task " + std::to_string(planned.id) + " of " +
                                            job.record.kind));
    }
    task->windows.push_back(std::move(*part));
  }
  task->planned = std::move(planned);
  return task;
}

net::Task<void> Engine::planner_broke(JobPtr job, Error error) {
  constexpr std::uint32_t kMaxStarts = 3;
  if (job->ended) {
    co_return;
  }
  // A file that was cut under its feet kills a planner that writes to it: that is no fault of its.
  const std::uint32_t plan = job->planner_starts;
  auto intact = co_await out_files_hold(job);
  if (job->ended || job->planner_starts != plan) {
    co_return;
  }
  if (!intact) {
    co_await end_job(job, wire::JobState::kFailed, std::move(intact).error());
    co_return;
  }
  if (job->planner_starts >= kMaxStarts) {
    co_await end_job(job, wire::JobState::kFailed, std::move(error));
    co_return;
  }
  // As after a restart of the daemon: the plan's state and the journal have all that counts.
  ++job->planner_starts;
  logger_.warn("job " + std::to_string(job->record.job) +
               ": its plan is opened anew: " + error.message);
  note_incident(*job, 0, {}, "the planner broke", error.message);
  const std::uint64_t number = job->record.job;
  if (job->scheduled) {
    scheduler_->remove_job(number, now());
    job->scheduled = false;
  }
  for (const auto& runner : {job->planner, job->checker}) {
    if (runner) {
      runner->client().kill();
    }
  }
  job->planner.reset();
  job->checker.reset();
  for (auto it = leases_.begin(); it != leases_.end();) {
    const auto lease = it++;
    if (lease->second.job == job) {
      forget_lease(lease);
    }
  }
  queues_.erase(number);
  forget_blobs(*job);
  job->tasks.clear();
  std::set<std::uint64_t> stages;
  for (const auto& [task, kept] : job->kept) {
    stages.insert(kept.slot.stage);
  }
  job->kept.clear();
  job->results.reset(stages);
  loop_.spawn(run_job(job));
}

net::Task<void> Engine::plan_more(JobPtr job, scheduler::PlanMore action) {
  if (job->ended || !job->planner) {
    co_return;
  }
  const std::uint32_t plan = job->planner_starts;
  auto runner = job->planner;
  const std::uint64_t number = job->record.job;
  wire::PlanNext request;
  request.capacity.memory_bytes = action.memory_bytes;
  request.capacity.min_memory_bytes = action.min_memory_bytes;
  request.capacity.hosts = action.hosts;
  request.capacity.threads = action.threads;
  request.max_tasks = action.max_tasks;
  auto planned = co_await runner->client().plan_next(std::move(request), options_.plan_deadline);
  if (job->ended || job->planner_starts != plan) {
    co_return;
  }
  if (!planned) {
    Error error = planned.error().with_context("planning " + job->record.kind);
    co_await planner_broke(job, std::move(error));
    co_return;
  }
  const bool exhausted = planned->status == GOBLIN_EXHAUSTED;
  if (planned->status != GOBLIN_OK && !exhausted) {
    Error error{code_from_status(planned->status), planned->message};
    co_await end_job(job, wire::JobState::kFailed, std::move(error));
    co_return;
  }
  for (auto& item : planned->tasks) {
    const std::uint64_t id = item.id;
    if (job->restored.erase(id) != 0) {
      continue;  // accepted, or being checked again
    }
    auto task = co_await prepare(job, std::move(item));
    if (job->ended || job->planner_starts != plan) {
      co_return;
    }
    if (!task) {
      co_await end_job(job, wire::JobState::kFailed, std::move(task).error());
      co_return;
    }
    if (job->tasks.contains(id)) {
      Error error{Code::kInternal, "the plan of " + job->record.kind +
                                       " has two tasks with the number " + std::to_string(id)};
      co_await end_job(job, wire::JobState::kFailed, std::move(error));
      co_return;
    }
    scheduler_->task_ready(ready_task(number, **task), now());
    job->tasks.emplace(id, std::move(*task));
    pump_soon();
  }
  scheduler_->planned(number, exhausted ? std::uint32_t{GOBLIN_PLAN_MORE} : planned->progress,
                      exhausted, job->min_task_bytes, now());
  touch(*job);
  pump_soon();
}

}  // namespace goblin::lab
