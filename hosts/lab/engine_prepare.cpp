// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// From a planned task to one that can be leased: its inputs are hashed, or read when small.
#include <algorithm>
#include <cstring>

#include "hosts/lab/engine.hpp"

namespace goblin::lab {
namespace {

std::string view_key(const wire::View& view) {
  std::string key;
  const auto put = [&key](const auto& value) {
    key.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  put(view.source);
  put(view.index);
  put(view.task);
  put(view.offset);
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    put(view.shape[d]);
    put(view.strides[d]);
  }
  return key;
}

/// Of how many views a job knows the digest without hashing them again.
constexpr std::size_t kViewDigests = 1 << 16;

bool is_of_result(const std::string& key) {
  std::uint32_t source = 0;
  std::memcpy(&source, key.data(), sizeof source);
  return source == GOBLIN_SOURCE_TASK_RESULT;
}

/// Windows of one task that are hashed beside each other.
struct HashJoin {
  explicit HashJoin(net::Loop& loop) : done(loop) {}
  std::vector<std::pair<std::size_t, Result<wire::Digest>>> digests;
  std::size_t waiting = 0;
  net::Event done;
};

net::Task<void> hash_one(net::Loop& loop, TensorFile window, std::size_t index,
                         std::shared_ptr<HashJoin> join) {
  auto hash = [window] { return hash_source(*make_view_source(window)); };
  auto digest = co_await loop.offload(hash);
  join->digests.emplace_back(index, std::move(digest));
  if (--join->waiting == 0) {
    join->done.set();
  }
}

}  // namespace

scheduler::ReadyTask Engine::ready_task(std::uint64_t job, const PreparedTask& task) {
  scheduler::ReadyTask ready;
  ready.job = job;
  ready.task = task.planned.id;
  ready.flops = task.planned.flops;
  ready.memory_bytes = task.planned.memory_bytes;
  for (const auto& output : task.planned.outputs) {
    ready.output_bytes += output.size_bytes().value_or(0);
  }
  for (const auto& input : task.inputs) {
    if (!input.is_inline()) {
      ready.inputs.push_back({input.digest, input.spec.size_bytes().value_or(0)});
    }
  }
  return ready;
}

net::Task<Result<std::shared_ptr<PreparedTask>>> Engine::prepare(JobPtr job,
                                                                 wire::PlannedTask planned) {
  const std::uint32_t plan = job->planner_starts;
  GOBLIN_CO_TRY(std::shared_ptr<PreparedTask> task, bind(*job, std::move(planned)));
  for (const auto& output : task->planned.outputs) {
    if (auto size = output.size_bytes(); !size) {
      co_return fail(size.error().with_context("an output of the plan of " + job->record.kind));
    }
  }
  bool small = false;
  for (const auto& part : task->windows) {
    wire::TensorRef ref;
    ref.spec = {part.dtype, part.shape};
    const std::uint64_t bytes = ref.spec.size_bytes().value_or(0);
    if (bytes <= wire::kInlineBytes) {
      ref.inline_offset = static_cast<std::uint32_t>(task->inline_bytes.size());
      task->inline_bytes.resize(task->inline_bytes.size() + (bytes + 7) / 8 * 8);
      small = small || bytes > 0;
    }
    task->inputs.push_back(std::move(ref));
  }
  if (small) {
    auto read_small = [task]() -> Result<void> {
      for (std::size_t i = 0; i < task->inputs.size(); ++i) {
        const auto& ref = task->inputs[i];
        const std::uint64_t bytes = ref.spec.size_bytes().value_or(0);
        if (ref.is_inline() && bytes > 0) {
          GOBLIN_TRY_VOID(
              make_view_source(task->windows[i])
                  ->read(0, std::span(task->inline_bytes).subspan(ref.inline_offset, bytes)));
        }
      }
      return {};
    };
    GOBLIN_CO_TRY_VOID(co_await loop_.offload(read_small));
    if (job->ended || job->planner_starts != plan) {
      co_return fail(Code::kCancelled, "the job has ended, or its plan was opened anew");
    }
  }
  GOBLIN_CO_TRY_VOID(co_await hash_windows(job, task));
  co_return task;
}

net::Task<bool> Engine::inputs_hold(JobPtr job, std::shared_ptr<const PreparedTask> task,
                                    Sound sound) {
  for (std::size_t i = 0; i < task->inputs.size(); ++i) {
    if (task->inputs[i].is_inline() || sound->contains(task->inputs[i].digest)) {
      continue;
    }
    const TensorFile window = task->windows[i];
    auto hash = [window] { return hash_source(*make_view_source(window)); };
    auto digest = co_await loop_.offload(hash);
    if (job->ended) {
      co_return false;
    }
    if (digest && *digest == task->inputs[i].digest) {
      sound->insert(*digest);
      continue;
    }
    const auto& view = task->planned.inputs[i];
    const bool of_job =
        view.source == GOBLIN_SOURCE_JOB_INPUT && view.index < job->record.inputs.size();
    const std::string what =
        of_job ? "array '" + job->record.inputs[view.index].name + "'" : "a kept result";
    Error error(digest ? Error{Code::kCorrupt, what + " was changed while the job was running; "
                                                      "submit the job again, on a copy"}
                       : digest.error().with_context(what));
    co_await end_job(job, wire::JobState::kFailed, std::move(error));
    co_return false;
  }
  co_return true;
}

void Engine::doubt(std::uint64_t lease, scheduler::HostId host,
                   std::optional<scheduler::Outcome> outcome) {
  LeaseEntry& entry = leases_.at(lease);
  if (entry.doubted || entry.job->ended) {
    return;
  }
  entry.doubted = true;
  const JobPtr job = entry.job;
  job->doubts.push_back({lease, host, outcome});
  if (!job->doubting) {
    job->doubting = true;
    loop_.spawn(settle_doubts(job));
  }
}

net::Task<void> Engine::settle_doubts(JobPtr job) {
  while (!job->ended && !job->doubts.empty()) {
    std::vector<Doubt> batch;
    batch.swap(job->doubts);
    const auto sound = std::make_shared<std::unordered_set<wire::Digest>>();
    for (const auto& doubt : batch) {
      const auto lease = leases_.find(doubt.lease);
      if (lease == leases_.end()) {
        continue;
      }
      const auto task = lease->second.task;
      const bool hold = co_await inputs_hold(job, task, sound);
      if (!hold) {
        co_return;  // the job has ended
      }
    }
    for (const auto& doubt : batch) {
      if (doubt.outcome) {
        scheduler_->outcome(doubt.host, *doubt.outcome, now());
      } else {
        scheduler_->handed_back(doubt.host, doubt.lease, Code::kCorrupt, now());
      }
      lease_failed(doubt.lease);
    }
    pump_soon();
  }
  job->doubting = false;
}

void Engine::forget_views_of(Job& job, std::uint64_t task) {
  wire::View view;
  view.source = GOBLIN_SOURCE_TASK_RESULT;
  view.task = task;
  std::erase_if(job.view_digests, [&](const auto& item) {
    std::uint32_t source = 0;
    std::uint64_t of = 0;
    std::memcpy(&source, item.first.data(), sizeof source);
    std::memcpy(&of, item.first.data() + sizeof view.source + sizeof view.index, sizeof of);
    if (source != view.source || of != task) {
      return false;
    }
    if (const auto blob = blobs_.find(item.second); blob != blobs_.end()) {
      blob->second.erase(job.record.job);
    }
    return true;
  });
}

net::Task<Result<void>> Engine::hash_windows(JobPtr job, std::shared_ptr<PreparedTask> task) {
  const std::uint32_t plan = job->planner_starts;
  auto join = std::make_shared<HashJoin>(loop_);
  for (std::size_t i = 0; i < task->inputs.size(); ++i) {
    if (task->inputs[i].is_inline()) {
      continue;
    }
    const auto known = job->view_digests.find(view_key(task->planned.inputs[i]));
    if (known != job->view_digests.end()) {
      task->inputs[i].digest = known->second;
    } else {
      ++join->waiting;
      loop_.spawn(hash_one(loop_, task->windows[i], i, join));
    }
  }
  if (join->waiting > 0) {
    co_await join->done.wait();
  }
  if (job->ended || job->planner_starts != plan) {
    co_return fail(Code::kCancelled, "the job has ended, or its plan was opened anew");
  }
  for (auto& [index, digest] : join->digests) {
    if (!digest) {
      const auto& view = task->planned.inputs[index];
      const std::string what =
          view.source == GOBLIN_SOURCE_JOB_INPUT && view.index < job->record.inputs.size()
              ? "array '" + job->record.inputs[view.index].name + "'"
              : "a kept result";
      co_return fail(digest.error().with_context(what));
    }
    task->inputs[index].digest = *digest;
    if (job->view_digests.size() >= kViewDigests) {
      // Those of results stay: forget_views_of looks for them.
      std::erase_if(job->view_digests, [](const auto& item) { return !is_of_result(item.first); });
    }
    job->view_digests.emplace(view_key(task->planned.inputs[index]), *digest);
  }
  for (std::size_t i = 0; i < task->inputs.size(); ++i) {
    if (!task->inputs[i].is_inline()) {
      ++job->blob_uses[task->inputs[i].digest];
      blobs_[task->inputs[i].digest].insert_or_assign(job->record.job, task->windows[i]);
    }
  }
  co_return Result<void>{};
}

void Engine::drop_task(Job& job, std::uint64_t id) {
  const auto it = job.tasks.find(id);
  if (it == job.tasks.end()) {
    return;
  }
  for (const auto& input : it->second->inputs) {
    const auto uses = input.is_inline() ? job.blob_uses.end() : job.blob_uses.find(input.digest);
    if (uses == job.blob_uses.end() || --uses->second > 0) {
      continue;
    }
    job.blob_uses.erase(uses);
    if (const auto blob = blobs_.find(input.digest); blob != blobs_.end()) {
      blob->second.erase(job.record.job);
      if (blob->second.empty()) {
        blobs_.erase(blob);
      }
    }
  }
  job.tasks.erase(it);
}

void Engine::forget_blobs(Job& job) {
  for (const auto& [digest, uses] : job.blob_uses) {
    const auto blob = blobs_.find(digest);
    if (blob != blobs_.end() && blob->second.erase(job.record.job) != 0 && blob->second.empty()) {
      blobs_.erase(blob);
    }
  }
  job.blob_uses.clear();
}

}  // namespace goblin::lab
