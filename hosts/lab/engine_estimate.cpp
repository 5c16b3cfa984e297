// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// How long a job will take: its planner's tasks, the scheduler in virtual time, links and speeds as
// they were seen.
#include <algorithm>
#include <cmath>

#include "hosts/lab/dry_plan.hpp"
#include "hosts/lab/engine.hpp"

namespace goblin::lab {
namespace {

/// What a task costs a host beside its arithmetic: start, hashing of a result, messages.
constexpr double kTaskSeconds = 0.001;

double finite(double rate) { return std::isfinite(rate) ? rate : 0; }

void put(wire::Estimated& told, const scheduler::Forecast& forecast) {
  told.forecast = true;
  told.seconds = forecast.seconds;
  told.bound = forecast.bound;
  told.hosts_speed_s = forecast.hosts_speed_s;
  told.lab_link_s = forecast.lab_link_s;
  told.host_link_s = forecast.host_link_s;
  told.bytes_to_hosts = forecast.bytes_to_hosts;
  told.bytes_from_hosts = forecast.bytes_from_hosts;
  told.flops_computed = forecast.flops;
  told.hosts = forecast.hosts;
  told.starts = forecast.starts;
  told.planned_share = forecast.planned_share;
}

void scale(wire::Estimated& told, double share) {
  for (double* const one : {&told.seconds, &told.hosts_speed_s, &told.lab_link_s, &told.host_link_s,
                            &told.bytes_to_hosts, &told.bytes_from_hosts, &told.flops_computed}) {
    *one *= share;
  }
}

}  // namespace

net::Task<Result<wire::Estimated>> Engine::forecast(std::shared_ptr<MappedRunner> runner,
                                                    DryPlanRequest request,
                                                    validation::PolicySpec policy, std::string kind,
                                                    wire::Estimated told) {
  const scheduler::Cut cut = scheduler_->cut_now(policy);
  if (cut.hosts == 0) {
    co_return fail(Code::kUnavailable,
                   "no host is connected that could take the job: how long it would take cannot be "
                   "said before one is");
  }
  request.capacity.memory_bytes = cut.memory_bytes;
  request.capacity.min_memory_bytes = cut.min_memory_bytes;
  request.capacity.hosts = cut.hosts;
  request.capacity.threads = cut.threads;
  std::vector<wire::DType> dtypes;
  for (const auto& input : request.inputs) {
    dtypes.push_back(input.dtype);
  }
  const Computation what = Computation::of(kind, dtypes);
  auto planned = co_await dry_plan(runner, std::move(request), options_.plan_deadline);
  if (!planned) {
    co_return fail(planned.error().with_context("planning " + kind));
  }
  std::map<scheduler::HostId, LinkSurvey::Measure> links_of_hosts;
  for (const auto& [id, entry] : hosts_) {
    links_of_hosts.emplace(id, [port = entry.port] { return port->measure_link(); });
  }
  const Links links = co_await survey_.survey(std::move(links_of_hosts));
  const auto job = std::make_shared<scheduler::ForecastJob>();
  job->policy = policy;
  job->tasks = std::move(planned->tasks);
  job->flops_total = std::max(told.flops, planned->flops);
  const double of_task =
      job->tasks.empty() ? 0 : planned->flops / static_cast<double>(job->tasks.size());
  const auto hosts = std::make_shared<std::vector<scheduler::ForecastHost>>();
  for (const auto& [id, entry] : hosts_) {
    const auto link = links.hosts.find(id);
    if (link == links.hosts.end()) {
      continue;  // it did not answer, or came meanwhile
    }
    scheduler::ForecastHost host;
    host.spec = host_spec(entry.capacity, entry.state, entry.trusted, entry.group);
    host.standing = scheduler_->host_counts(id).standing;
    const HostSpeeds::Speed speed = speeds_.of(id, entry.capacity, what, of_task);
    host.flops_per_s = speed.flops_per_s;
    host.link = {link->second.to_host, link->second.from_host};
    host.rtt_s = link->second.rtt_s;
    host.task_s = kTaskSeconds;
    told.speeds_assumed += speed.assumed ? 1 : 0;
    told.flops_per_s += host.spec.accepting ? speed.flops_per_s : 0;
    const auto slowest = [](double& so_far, double rate) {
      so_far = so_far == 0 ? rate : std::min(so_far, rate);
    };
    slowest(told.slowest_to_host, link->second.to_host);
    slowest(told.slowest_from_host, link->second.from_host);
    told.longest_rtt_s = std::max(told.longest_rtt_s, host.rtt_s);
    hosts->push_back(std::move(host));
  }
  if (hosts->empty()) {
    co_return fail(Code::kUnavailable, "no host answered while its link was measured; try again");
  }
  scheduler::Config config = options_.scheduler;
  config.random = nullptr;  // the same question has the same answer
  const auto play = [config, hosts, lab = links.lab, job] {
    return scheduler::forecast(config, *hosts, lab, *job);
  };
  auto forecast = co_await loop_.offload(play);
  if (!forecast) {
    co_return fail(std::move(forecast).error());
  }
  put(told, *forecast);
  if (!planned->complete && told.planned_share >= 1) {
    told.planned_share = 0;  // nobody knows how much more there will be
  }
  told.lab_to_hosts = finite(links.lab.to_hosts);
  told.lab_from_hosts = finite(links.lab.from_hosts);
  co_return told;
}

net::Task<Result<wire::Estimated>> Engine::estimate(std::uint64_t number) {
  const JobPtr job = find_job(number);
  if (!job) {
    co_return fail(Code::kNotFound, "there is no job " + std::to_string(number));
  }
  if (job->ended) {
    co_return fail(Code::kInvalidArgument, "job " + std::to_string(number) +
                                               " has ended: there is nothing left to estimate; "
                                               "explain() has what it took");
  }
  GOBLIN_CO_TRY(const PluginFile file,
                co_await plugins_.find(job->record.plugin, job->record.kind_index));
  GOBLIN_CO_TRY(std::shared_ptr<MappedRunner> runner, co_await start_runner(file.memfd));
  DryPlanRequest request;
  request.kind = job->record.kind_index;
  request.params = job->record.params;
  request.inputs = job->record.inputs;
  wire::Estimated told;
  told.outputs = job->record.outputs;
  told.flops = job->flops_total;
  told.bytes = job->bytes_least;
  told.min_task_bytes = job->min_task_bytes;
  for (const auto& output : told.outputs) {
    request.outputs.push_back(output.spec);
  }
  auto whole = co_await forecast(runner, std::move(request), policy_of(job->record),
                                 job->record.kind, std::move(told));
  if (!whole) {
    co_return fail(std::move(whole).error());
  }
  told = std::move(*whole);
  told.jobs_beside = running_beside(number);
  const double done = job->scheduled ? scheduler_->job_counts(number).flops_accepted : 0;
  told.remaining = told.flops > 0 ? std::clamp(1 - done / told.flops, 0.0, 1.0) : 1.0;
  scale(told, told.remaining);
  co_return told;
}

Computation Engine::computation_of(const store::JobRecord& record) {
  std::vector<wire::DType> dtypes;
  for (const auto& input : record.inputs) {
    dtypes.push_back(input.dtype);
  }
  return Computation::of(record.kind, dtypes);
}

std::uint32_t Engine::running_beside(std::uint64_t number) const {
  return static_cast<std::uint32_t>(std::count_if(
      jobs_.begin(), jobs_.end(),
      [number](const auto& one) { return one.first != number && !one.second->ended; }));
}

}  // namespace goblin::lab
