// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Leases and jobs end: done, failed, cancelled, forgotten.
#include <algorithm>

#include "hosts/lab/engine.hpp"
#include "hosts/lab/job_state.hpp"

namespace goblin::lab {

void Engine::drop_lease(std::uint64_t lease) {
  const auto it = leases_.find(lease);
  if (it == leases_.end()) {
    return;
  }
  if (it->second.slot && !it->second.job->ended) {
    loop_.spawn(release_slot(it->second.job, *it->second.slot));
  }
  forget_lease(it);
}

void Engine::forget_lease(LeaseMap::iterator lease) {
  const LeaseEntry& entry = lease->second;
  const auto host = hosts_.find(entry.host);
  if (entry.grants && host != hosts_.end()) {
    auto& granted = host->second.granted;
    for (const auto& input : entry.task->inputs) {
      const auto grant = input.is_inline() ? granted.end() : granted.find(input.digest);
      if (grant != granted.end() && --grant->second == 0) {
        granted.erase(grant);
      }
    }
  }
  leases_.erase(lease);
}

void Engine::lease_failed(std::uint64_t lease) {
  const auto it = leases_.find(lease);
  if (it != leases_.end() && !it->second.answered) {
    drop_lease(lease);
  }
}

void Engine::close_job(Job& job) {
  job.ended = true;
  job.ended_us = static_cast<std::int64_t>(now());
  if (job.scheduled) {
    const auto counts = scheduler_->job_counts(job.record.job);
    job.final_counts = counts;
    scheduler_->remove_job(job.record.job, now());
  }
  for (const auto& runner : {job.planner, job.checker}) {
    if (runner) {
      runner->client().kill();
    }
  }
  job.planner.reset();
  job.checker.reset();
  forget_blobs(job);
  queues_.erase(job.record.job);
  job.tasks.clear();
  job.kept.clear();
  job.seen_wrong.clear();
  job.view_digests.clear();
  job.restored.clear();
  job.doubts.clear();
  job.results.clear();
  pump_soon();
}

net::Task<void> Engine::finish_job(JobPtr job) {
  if (job->ended || !job->planner) {
    co_return;
  }
  job->record.state = wire::JobState::kFinishing;
  touch(*job);
  auto runner = job->planner;
  auto intact = co_await out_files_hold(job);
  if (job->ended) {
    co_return;
  }
  if (!intact) {
    co_await end_job(job, wire::JobState::kFailed, std::move(intact).error());
    co_return;
  }
  auto done = co_await runner->client().finish(options_.plan_deadline);
  if (job->ended) {
    co_return;
  }
  Error error;
  if (!done) {
    error = done.error().with_context("finishing " + job->record.kind);
    co_await planner_broke(job, std::move(error));
    co_return;
  }
  intact = co_await out_files_hold(job);
  if (job->ended) {
    co_return;
  }
  if (done->status == GOBLIN_OK && intact) {
    co_await end_job(job, wire::JobState::kDone, std::move(error));
    co_return;
  }
  error = intact ? Error{code_from_status(done->status), done->message} : intact.error();
  co_await end_job(job, wire::JobState::kFailed, std::move(error));
}

net::Task<void> Engine::end_job(JobPtr job, wire::JobState state, Error error) {
  if (job->ended) {
    co_return;
  }
  close_job(*job);
  job->record.status = state == wire::JobState::kDone ? GOBLIN_OK : static_cast<int>(error.code);
  job->record.message = std::move(error.message);
  job->record.ended_unix_ms = unix_ms();
  const std::uint64_t number = job->record.job;
  wire::Reply summary;
  wire::Explanation told = explain_job(*job);
  told.status.state = state;
  if (state == wire::JobState::kDone && told.status.flops_total > 0) {
    told.status.flops_accepted = told.status.flops_total;  // the sum over tasks is rounded
  }
  wire::JobStatus last = told.status;
  summary.body = std::move(told);
  auto write = [job, state, bytes = encode(summary)](store::LabJournal& journal) {
    return journal.set_job_state(job->record.job, state, job->record.status, job->record.message,
                                 job->record.ended_unix_ms, bytes);
  };
  auto written = co_await with_journal(write);
  job->files = {};
  job->memfd.reset();
  if (!written) {
    // A restart will run it again: its files stay.
    logger_.error("journal: " + written.error().message);
    job->record.status = static_cast<int>(written.error().code);
    job->record.message =
        "the end of the job cannot be journalled, so it will run again after a "
        "restart: " +
        written.error().message;
    state = wire::JobState::kFailed;
  } else {
    co_await remove_stages(stages_of(*job, state != wire::JobState::kDone));
  }
  // Only now may a client see the end: what it sees is what a restart would show.
  job->record.state = state;
  const std::string message = job->record.message;
  if (written) {
    job->told = std::move(last);
    job->shares.clear();
    job->incidents = {};
    trim(job->record);
  }
  logger_.info("job " + std::to_string(number) + " has ended" +
               (message.empty() ? "" : ": " + message));
  touch(*job);
  job->over.set();
}

Error Engine::revoked_error(const Job& job) {
  return {Code::kUnsupported,
          "the plugin of " + job.record.kind + " (" + job.record.plugin.hex().substr(0, 16) +
              ") was revoked: the signed catalogue does not name it any more, so none of its tasks "
              "may run; submit the job again once a plugin for it is published (the network's "
              "operator knows why)"};
}

void Engine::catalogue_changed() {
  std::erase_if(descriptions_, [this](const auto& item) { return plugins_.revoked(item.first); });
  for (const auto& [number, job] : jobs_) {
    if (!job->ended && plugins_.revoked(job->record.plugin)) {
      loop_.spawn(end_job(job, wire::JobState::kFailed, revoked_error(*job)));
    }
  }
}

void Engine::trim(store::JobRecord& record) {
  record.plan_state.reset();
  record.summary = {};
  record.params = {};
  record.output_files = {};
  // Staged inputs are named by number until their files are gone.
  for (auto& input : record.inputs) {
    input.name = {};
    input.path = {};
    input.shape = {};
    input.strides = {};
  }
}

net::Task<Result<void>> Engine::cancel(std::uint64_t number) {
  auto job = find_job(number);
  if (!job) {
    co_return fail(Code::kNotFound, "there is no job " + std::to_string(number));
  }
  if (!job->ended) {
    Error reason{Code::kCancelled, "the job was cancelled"};
    co_await end_job(job, wire::JobState::kCancelled, std::move(reason));
  }
  co_return Result<void>{};
}

net::Task<Result<Engine::Outputs>> Engine::result(std::uint64_t number) {
  auto job = find_job(number);
  if (!job) {
    co_return fail(Code::kNotFound, "there is no job " + std::to_string(number));
  }
  if (job->record.state == wire::JobState::kFailed ||
      job->record.state == wire::JobState::kCancelled) {
    co_return fail(code_from_status(job->record.status), job->record.message);
  }
  if (job->record.state != wire::JobState::kDone) {
    co_return fail(Code::kUnavailable,
                   "job " + std::to_string(number) + " is still running: wait for its end");
  }
  Outputs outputs;
  outputs.status = status_of(*job);
  for (std::size_t i = 0; i < job->record.outputs.size(); ++i) {
    if (job->record.outputs[i].staged) {
      GOBLIN_CO_TRY(store::Staging::File file,
                    staging_.reopen(job->record.output_stages[i], store::Staging::Access::kRead));
      outputs.fds.push_back(std::move(file.fd));
    }
  }
  co_return outputs;
}

net::Task<Result<void>> Engine::forget(std::uint64_t number) {
  auto job = find_job(number);
  if (!job) {
    co_return fail(Code::kNotFound, "there is no job " + std::to_string(number));
  }
  if (!is_ended(job->record.state)) {
    co_return fail(Code::kInvalidArgument,
                   "job " + std::to_string(number) + " is still running: cancel it first");
  }
  by_token_.erase(job->record.token);
  jobs_.erase(number);
  auto done = co_await with_journal(
      [number](store::LabJournal& journal) { return journal.forget_job(number); });
  co_await remove_stages(stages_of(*job, true));
  co_return done;
}

net::Task<void> Engine::forget_old() {
  std::vector<std::uint64_t> old;
  const auto limit = unix_ms() - static_cast<std::int64_t>(options_.result_keep_ms);
  for (const auto& [number, job] : jobs_) {
    if (is_ended(job->record.state) && job->record.ended_unix_ms < limit) {
      old.push_back(number);
    }
  }
  for (const auto number : old) {
    if (auto done = co_await forget(number); !done) {
      logger_.warn("forgetting job " + std::to_string(number) + ": " + done.error().message);
    }
  }
}

std::uint32_t Engine::running_jobs() const {
  return static_cast<std::uint32_t>(std::count_if(
      jobs_.begin(), jobs_.end(), [](const auto& item) { return !item.second->ended; }));
}

}  // namespace goblin::lab
