// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Results on their way: fetched into the job's store, and where a runner finds them.
#include <algorithm>
#include <utility>

#include "hosts/lab/engine.hpp"

namespace goblin::lab {

void Engine::on(const scheduler::FetchResult& action) {
  const auto it = leases_.find(action.lease);
  if (it == leases_.end() || it->second.job->ended) {
    scheduler_->fetch_failed(action.lease, false, now());
    return;
  }
  const LeaseEntry& entry = it->second;
  if (entry.malformed) {
    saw_wrong(*entry.job, action.task, entry.pin,
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
  const auto first = leases_.find(lease);
  if (first == leases_.end() || first->second.job->ended) {
    co_return;
  }
  const JobPtr job = first->second.job;
  const auto task = first->second.task;
  const wire::TaskResult result = first->second.result;
  const wire::Bytes payload = first->second.payload;
  const auto host = hosts_.find(first->second.host);
  if (host == hosts_.end()) {
    scheduler_->fetch_failed(lease, false, now());
    pump_soon();
    co_return;
  }
  const auto port = host->second.port;
  const SlotLayout layout = SlotLayout::of(task->planned.outputs);
  const std::uint32_t plan = job->planner_starts;
  auto slot = co_await allocate_slot(job, layout.total);
  if (job->ended || job->planner_starts != plan) {
    co_return;
  }
  if (!slot) {
    co_await end_job(job, wire::JobState::kFailed, std::move(slot).error());
    co_return;
  }
  bool wrong = false;
  bool disk = false;  // our own disk failed: no word of the host's can say so
  Result<void> done;
  for (std::size_t i = 0; i < result.outputs.size() && done && !wrong; ++i) {
    const auto& output = result.outputs[i];
    if (output.is_inline()) {
      done = job->results.write(*slot, layout.offsets[i],
                                std::span(payload).subspan(output.inline_offset, layout.sizes[i]));
      disk = !done;
      continue;
    }
    auto sink = std::make_shared<SlotSink>(job->results.shared_fd(*slot),
                                           slot->offset + layout.offsets[i], layout.sizes[i]);
    fetches_.insert_or_assign(lease, Arriving{sink, 0});
    auto fetched = co_await port->fetch(output.digest, sink);
    sink->abandon();
    fetches_.erase(lease);
    if (job->ended || job->planner_starts != plan) {
      co_return;
    }
    if (!fetched) {
      disk = sink->disk_failed();
      wrong = !disk && (fetched.error().code == Code::kInvalidArgument ||
                        fetched.error().code == Code::kCorrupt);
      done = fail(std::move(fetched).error());
    } else if (sink->digest() != output.digest) {
      wrong = true;
      done = fail(Code::kCorrupt, "bytes that are not what the host had committed to");
    }
  }
  const auto it = leases_.find(lease);
  if (it == leases_.end()) {  // cancelled, or the plan was opened anew
    co_await release_slot(job, *slot);
    co_return;
  }
  if (done) {
    it->second.slot = *slot;
    job->counters->bytes_received += layout.total;
    job->shares[it->second.pin].bytes_received += layout.total;
    scheduler_->fetched(lease, now());
  } else {
    if (disk) {
      co_await end_job(job, wire::JobState::kFailed, std::move(done).error());
      co_return;
    }
    saw_wrong(*job, task->planned.id, it->second.pin, done.error().message);
    scheduler_->fetch_failed(lease, wrong, now());
    co_await release_slot(job, *slot);
  }
  pump_soon();
}

void Engine::report_fetches() {
  for (auto& [lease, arriving] : fetches_) {
    const std::uint64_t received = arriving.sink->received();
    scheduler_->fetch_progress(lease, received - std::exchange(arriving.reported, received), now());
  }
}

Engine::JobPtr Engine::make_job() {
  return std::make_shared<Job>(loop_, staging_, [this](std::uint64_t stage) {
    std::vector<std::uint64_t> stages(1, stage);
    loop_.spawn(remove_stages(std::move(stages)));
  });
}

net::Task<Result<Slot>> Engine::allocate_slot(JobPtr job, std::uint64_t bytes) {
  if (const auto slot = job->results.find(bytes)) {
    co_return *slot;
  }
  const std::uint32_t plan = job->planner_starts;
  constexpr const char* kTooLate = "the job has ended, or its plan was opened anew";
  const auto turn = co_await result_turns_.take(job.get());
  if (job->ended || job->planner_starts != plan) {
    co_return fail(Code::kCancelled, kTooLate);
  }
  if (const auto slot = job->results.find(bytes)) {  // made meanwhile, or released
    co_return *slot;
  }
  auto make = [this, bytes] { return ResultStore::make_file(staging_, bytes); };
  auto file = co_await loop_.offload(make);
  if (!file) {
    co_return fail(std::move(file).error());
  }
  if (job->ended || job->planner_starts != plan) {
    std::vector<std::uint64_t> stages(1, file->number);
    co_await remove_stages(std::move(stages));
    co_return fail(Code::kCancelled, kTooLate);
  }
  co_return job->results.take(std::move(*file), bytes);
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

}  // namespace goblin::lab
