// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Files of jobs and of clients: opened, held apart, looked after, removed. What blocks on the disk
// runs on a worker: to allocate or to remove a large file takes seconds.
#include <algorithm>

#include "hosts/lab/engine.hpp"

namespace goblin::lab {

net::Task<Result<void>> Engine::open_files(JobPtr job,
                                           std::shared_ptr<std::vector<net::UniqueFd>> fds) {
  struct Opened {
    store::JobRecord record;
    JobFiles files;
  };
  // On a copy: others look at the record of a job that goes on after a restart.
  auto open = [&staging = staging_, record = job->record, fds]() mutable -> Result<Opened> {
    GOBLIN_TRY(JobFiles files, open_job_files(staging, record, fds.get()));
    return Opened{std::move(record), std::move(files)};
  };
  Result<Opened> opened = fail(Code::kCancelled, "the job has ended");
  {
    const auto turn = co_await disk_turns_.take(job.get());
    if (job->ended) {
      co_return Result<void>{};
    }
    opened = co_await loop_.offload(open);
  }
  if (!opened) {
    co_return fail(std::move(opened).error());
  }
  if (job->ended) {
    co_return Result<void>{};
  }
  if (fds) {
    job->record = std::move(opened->record);
  }
  job->files = std::move(opened->files);
  co_return Result<void>{};
}

Result<void> Engine::files_apart(const Job& job) const {
  if (auto overlap = find_overlap(job.record, job.files)) {
    return fail(std::move(*overlap));
  }
  const auto against = [&job](const Job& other) -> Result<void> {
    // The same token: a client that lost its connection says it again, and one of the two goes.
    if (&other == &job || other.ended || other.record.token == job.record.token) {
      return {};
    }
    auto conflict =
        find_conflict(job.record, job.files, other.record, other.files, other.record.job);
    return conflict ? fail(std::move(*conflict)) : Result<void>{};
  };
  for (const auto& [number, other] : jobs_) {
    GOBLIN_TRY_VOID(against(*other));
  }
  for (const auto& other : arriving_) {
    GOBLIN_TRY_VOID(against(*other));
  }
  return {};
}

net::Task<Result<void>> Engine::out_files_hold(JobPtr job) {
  if (job->files.out_files.empty()) {
    co_return Result<void>{};
  }
  struct Looked {
    Result<void> outcome;
    std::vector<OutSeen> seen;
  };
  auto look = [files = job->files.out_files, seen = job->out_seen]() mutable {
    auto outcome = check_out_files(files, seen);
    return Looked{std::move(outcome), std::move(seen)};
  };
  auto looked = co_await loop_.offload(look);
  job->out_seen = std::move(looked.seen);
  co_return std::move(looked.outcome);
}

std::vector<std::uint64_t> Engine::stages_of(const Job& job, bool outputs_too) {
  std::vector<std::uint64_t> stages;
  for (const auto& input : job.record.inputs) {
    if (input.dtype != 0 && input.storage == wire::Storage::kStaged) {
      stages.push_back(input.stage);
    }
  }
  if (outputs_too) {
    std::copy_if(job.record.output_stages.begin(), job.record.output_stages.end(),
                 std::back_inserter(stages), [](auto stage) { return stage != 0; });
  }
  return stages;
}

net::Task<void> Engine::remove_stages(std::vector<std::uint64_t> stages) {
  if (stages.empty()) {
    co_return;
  }
  // What cannot be removed now is removed at the next start: no job names it any more.
  auto remove = [&staging = staging_, stages = std::move(stages)] {
    for (const auto stage : stages) {
      (void)staging.remove(stage);
    }
    return true;
  };
  const auto turn = co_await removal_turns_.take(this);
  (void)co_await loop_.offload(remove);
}

net::Task<Result<store::Staging::File>> Engine::stage(std::uint64_t bytes) {
  auto create = [&staging = staging_, bytes] {
    return staging.create(std::max<std::uint64_t>(bytes, 1));
  };
  auto file = co_await loop_.offload(create);
  if (file) {
    loose_stages_.emplace(file->number, loop_.now());
  }
  co_return file;
}

net::Task<void> Engine::unstage(std::vector<std::uint64_t> stages) {
  std::erase_if(stages, [this](auto stage) { return loose_stages_.erase(stage) == 0; });
  co_await remove_stages(std::move(stages));
}

net::Task<void> Engine::unstage_old() {
  std::vector<std::uint64_t> old;
  for (const auto& [stage, since] : loose_stages_) {
    if (loop_.now() - since >= net::Milliseconds(options_.stage_keep_ms)) {
      old.push_back(stage);
    }
  }
  co_await unstage(std::move(old));
}

}  // namespace goblin::lab
