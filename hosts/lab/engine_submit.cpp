// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Jobs come in: from a client, or from the journal after a restart.
#include <algorithm>
#include <set>

#include "hosts/lab/engine.hpp"
#include "hosts/lab/job_state.hpp"

namespace goblin::lab {
namespace {

wire::TensorAt type_only(const wire::JobInput& input) {
  wire::TensorAt at;
  at.dtype = input.dtype;
  at.shape = input.shape;
  at.strides = input.strides;
  return at;
}

wire::JobStatus ended_status(const store::JobRecord& record) {
  if (auto summary = wire::decode_reply(record.summary)) {
    if (auto* told = std::get_if<wire::Explanation>(&summary->body)) {
      return std::move(told->status);
    }
  }
  wire::JobStatus status;  // what is left without a summary
  status.job = record.job;
  status.kind = record.kind;
  status.state = record.state;
  status.status = record.status;
  status.message = record.message;
  return status;
}

/// Staged outputs of a job that does not come to be.
std::vector<std::uint64_t> outputs_of(const Job& job) {
  std::vector<std::uint64_t> stages = job.record.output_stages;
  std::erase(stages, 0);
  return stages;
}

}  // namespace

net::Task<Result<std::shared_ptr<MappedRunner>>> Engine::start_runner(
    std::shared_ptr<const net::UniqueFd> memfd) {
  plugin::RunnerOptions options = options_.runner;
  options.plugin_fd = memfd->get();
  options.output = [logger = logger_](std::string_view line) {
    logger.warn("a plugin says: " + std::string(line));
  };
  auto client = co_await plugin::RunnerClient::start(loop_, options);
  if (!client) {
    co_return fail(client.error().with_context("starting the lab node's runner"));
  }
  co_return std::make_shared<MappedRunner>(std::move(*client));
}

net::Task<Result<wire::ReplyBody>> Engine::submit(wire::Submit submit,
                                                  std::vector<net::UniqueFd> fds) {
  const auto known_job = by_token_.find(submit.token);
  if (!submit.dry_run && known_job != by_token_.end()) {
    const JobPtr same = jobs_.at(known_job->second);
    // Copied once more for a job that has its own.
    std::vector<std::uint64_t> copies;
    for (const auto& input : submit.inputs) {
      if (input.storage == wire::Storage::kStaged) {  // else the number is nobody's, or another's
        copies.push_back(input.stage);
      }
    }
    co_await unstage(std::move(copies));
    co_return wire::ReplyBody(status_of(*same));
  }
  // Counts among the jobs from here on: many that come at once are not too many.
  struct Arrival {
    explicit Arrival(std::uint32_t& n) : count(n) { ++count; }
    ~Arrival() { --count; }
    Arrival(const Arrival&) = delete;
    Arrival& operator=(const Arrival&) = delete;
    std::uint32_t& count;
  };
  std::optional<Arrival> arrival;
  if (!submit.dry_run) {
    if (running_jobs() + submissions_ >= options_.max_jobs) {
      co_return fail(Code::kExhausted,
                     "the lab node has " + std::to_string(options_.max_jobs) +
                         " jobs that have not ended, as many as its setting 'jobs.most' allows: "
                         "wait for one to end, cancel one, or raise it");
    }
    arrival.emplace(submissions_);
  }
  if (submit.weight < 1 || submit.weight > 1000) {
    co_return fail(Code::kInvalidArgument, "argument 'weight' is " + std::to_string(submit.weight) +
                                               ", but must lie between 1 and 1000");
  }
  GOBLIN_CO_TRY(KindName kind_name, parse_kind_name(submit.kind));
  GOBLIN_CO_TRY(PluginFile file, co_await plugins_.find(std::move(kind_name)));
  GOBLIN_CO_TRY(std::shared_ptr<MappedRunner> runner, co_await start_runner(file.memfd));
  if (file.kind_index >= runner->client().kinds().size()) {
    co_return fail(Code::kCorrupt,
                   "the plugin of " + file.kind + " has fewer kinds than the catalogue says");
  }
  const wire::KindDescription kind = runner->client().kinds()[file.kind_index];
  GOBLIN_CO_TRY(ResolvedSpec spec, resolve_spec(kind, submit));
  GOBLIN_CO_TRY(const validation::PolicySpec policy,
                validation::make_policy(submit.policy, submit.replicas, kind.default_policy,
                                        kind.default_replicas));

  wire::Validate request;
  request.kind = file.kind_index;
  request.params = spec.params;
  for (const auto& input : spec.inputs) {
    request.inputs.push_back(type_only(input));
  }
  GOBLIN_CO_TRY(wire::Validated validated,
                co_await runner->client().validate(request, options_.plan_deadline));
  if (validated.status != GOBLIN_OK) {
    co_return fail(code_from_status(validated.status), std::move(validated.message));
  }
  if (validated.outputs.size() != kind.outputs.size()) {
    co_return fail(Code::kInternal, "the plugin of " + file.kind + " answers " +
                                        std::to_string(validated.outputs.size()) +
                                        " outputs where it describes " +
                                        std::to_string(kind.outputs.size()));
  }

  auto job = make_job();
  job->record.token = submit.token;
  job->record.kind = file.kind;
  job->record.plugin = file.digest;
  job->record.kind_index = file.kind_index;
  job->record.inputs = std::move(spec.inputs);
  job->record.params = std::move(spec.params);
  for (std::size_t i = 0; i < kind.outputs.size(); ++i) {
    wire::OutputInfo info;
    info.name = kind.outputs[i].name;
    info.spec = std::move(validated.outputs[i]);
    job->record.outputs.push_back(std::move(info));
  }
  for (const auto& output : submit.outputs) {
    const bool known = std::any_of(kind.outputs.begin(), kind.outputs.end(),
                                   [&](const auto& o) { return o.name == output.name; });
    if (!known) {
      co_return fail(Code::kInvalidArgument, file.kind + " has no output '" + output.name + "'");
    }
  }
  job->record.output_files = std::move(submit.outputs);
  job->record.policy = policy.policy;
  job->record.replicas = policy.replicas;
  job->record.weight = submit.weight;
  job->record.created_unix_ms = unix_ms();
  job->flops_total = validated.flops;
  job->bytes_least = validated.bytes;
  job->min_task_bytes = validated.min_task_bytes;
  if (submit.dry_run) {
    wire::Estimated estimated;
    estimated.outputs = job->record.outputs;
    estimated.flops = validated.flops;
    estimated.bytes = validated.bytes;
    estimated.min_task_bytes = validated.min_task_bytes;
    if (submit.forecast) {
      DryPlanRequest dry;
      dry.kind = file.kind_index;
      dry.params = job->record.params;
      dry.inputs = job->record.inputs;
      for (const auto& output : estimated.outputs) {
        dry.outputs.push_back(output.spec);
      }
      estimated.jobs_beside = running_beside(0);
      GOBLIN_CO_TRY(estimated, co_await forecast(runner, std::move(dry), policy, file.kind,
                                                 std::move(estimated)));
    }
    co_return wire::ReplyBody(std::move(estimated));
  }
  GOBLIN_CO_TRY_VOID(
      co_await open_files(job, std::make_shared<std::vector<net::UniqueFd>>(std::move(fds))));
  auto apart = files_apart(*job);
  if (!apart) {
    co_await remove_stages(outputs_of(*job));
    co_return fail(std::move(apart).error());
  }
  arriving_.insert(job);
  auto write = [job](store::LabJournal& journal) { return journal.add_job(job->record); };
  auto number = co_await with_journal(write);
  arriving_.erase(job);
  if (!number) {
    co_await remove_stages(outputs_of(*job));
    co_return fail(std::move(number).error());
  }
  if (auto known = find_job(*number)) {  // a repeated submission overtook this one
    co_await unstage(stages_of(*job, false));
    co_await remove_stages(outputs_of(*job));
    co_return wire::ReplyBody(status_of(*known));
  }
  for (const auto stage : stages_of(*job, false)) {
    loose_stages_.erase(stage);  // it is the job's
  }
  job->record.job = *number;
  job->memfd = file.memfd;
  job->planner = std::move(runner);
  job->started_us = static_cast<std::int64_t>(now());
  jobs_.emplace(*number, job);
  arrival.reset();
  by_token_.emplace(job->record.token, *number);
  logger_.info("job " + std::to_string(*number) + " (" + file.kind + ") is submitted");
  loop_.spawn(run_job(job));
  co_return wire::ReplyBody(status_of(*job));
}

net::Task<Result<void>> Engine::restore() {
  struct Loaded {
    store::JobRecord record;
    std::optional<wire::JobStatus> told;
  };
  // One record at a time: of a job that has ended its status is kept, nothing else.
  auto load = [](store::LabJournal& journal) -> Result<std::vector<Loaded>> {
    std::vector<Loaded> jobs;
    GOBLIN_TRY_VOID(journal.visit_jobs([&jobs](store::JobRecord record) {
      Loaded job;
      if (is_ended(record.state)) {
        job.told = ended_status(record);
        trim(record);
      }
      job.record = std::move(record);
      jobs.push_back(std::move(job));
    }));
    return jobs;
  };
  auto loaded = co_await with_journal(load);
  if (!loaded) {
    co_return fail(std::move(loaded).error());
  }
  auto standings = [](store::LabJournal& journal) { return journal.standings(); };
  GOBLIN_CO_TRY(const std::vector<store::StandingRecord> known, co_await with_journal(standings));
  standings_.restore(known);
  std::set<std::uint64_t> named;
  for (auto& one : *loaded) {
    const auto job = make_job();
    job->record = std::move(one.record);
    job->told = std::move(one.told);
    job->ended = is_ended(job->record.state);
    const std::uint64_t number = job->record.job;
    for (const auto& input : job->record.inputs) {
      if (input.storage == wire::Storage::kStaged) {
        named.insert(input.stage);
      }
    }
    named.insert(job->record.output_stages.begin(), job->record.output_stages.end());
    jobs_.emplace(number, job);
    by_token_.emplace(job->record.token, number);
    if (job->ended) {
      continue;
    }
    auto accepted = co_await with_journal(
        [number](store::LabJournal& journal) { return journal.accepted(number); });
    if (!accepted) {
      co_return fail(std::move(accepted).error());
    }
    for (const auto& done : *accepted) {
      if (!done.merged) {
        named.insert(done.stage);
      }
    }
  }
  GOBLIN_CO_TRY(const std::vector<std::uint64_t> present, staging_.list());
  for (const auto stage : present) {
    if (!named.contains(stage)) {
      (void)staging_.remove(stage);
    }
  }
  for (const auto& [number, job] : jobs_) {
    if (!job->ended) {
      logger_.info("job " + std::to_string(number) + " (" + job->record.kind + ") goes on");
      job->started_us = static_cast<std::int64_t>(now());
      loop_.spawn(run_job(job));
    }
  }
  co_return Result<void>{};
}

}  // namespace goblin::lab
