// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What people see of jobs and hosts.
#include <algorithm>

#include "core/wire/bounds.hpp"
#include "hosts/lab/engine.hpp"

namespace goblin::lab {
namespace {

/// Lists end before this: a reply may have 4 MiB.
constexpr std::size_t kListBytes = 3u << 20;

std::size_t most_bytes(const wire::JobStatus& status) {
  std::size_t bytes = 320 + status.kind.size() + status.message.size();
  for (const auto& output : status.outputs) {
    bytes += 128 + output.name.size() + 8 * output.spec.shape.size();
  }
  return bytes;
}

std::size_t most_bytes(const wire::HostReport& report) { return 320 + report.reason.size(); }

}  // namespace

std::string Engine::why_unplanned(const Job& job) const {
  if (hosts_.empty()) {
    return "no host is connected";
  }
  if (capacity_now(job).hosts > 0) {
    return "the plan is being made";
  }
  // As the scheduler puts it, once it knows the job.
  const std::size_t count = hosts_.size();
  return std::to_string(count) + " of " + std::to_string(count) +
         (count == 1 ? " host" : " hosts") + " paused or stopping; none takes work";
}

wire::JobStatus Engine::status_of(const Job& job) const {
  if (job.told) {
    return *job.told;
  }
  wire::JobStatus status;
  status.job = job.record.job;
  status.kind = job.record.kind;
  status.state = job.record.state;
  status.status = job.record.status;
  status.message = job.record.message;
  status.outputs = job.record.outputs;
  for (auto& output : status.outputs) {
    output.digest = {};  // in the record it names a file, not bytes
  }
  status.flops_total = job.flops_total;
  if (job.ended) {
    status.tasks_planned = job.final_counts.planned;
    status.tasks_accepted = job.final_counts.accepted;
    status.plan_done = job.final_counts.plan_done;
    status.flops_accepted = job.final_counts.flops_accepted;
  } else if (job.scheduled) {
    const auto counts = scheduler_->job_counts(job.record.job);
    status.tasks_planned = counts.planned;
    status.tasks_running = counts.leased + counts.judging;
    status.tasks_accepted = counts.accepted;
    status.plan_done = counts.plan_done;
    status.flops_accepted = counts.flops_accepted;
    const auto name = [this](scheduler::HostId host) { return pin_of(host).hex().substr(0, 16); };
    status.message = scheduler_->waiting_reason(job.record.job, name);
  } else if (status.message.empty()) {
    status.message = why_unplanned(job);
  }
  status.results_checked = job.counters->checked;
  status.results_refused = job.counters->refused;
  status.recomputed = job.counters->recomputed;
  status.bytes_sent = job.counters->bytes_sent;
  status.bytes_received = job.counters->bytes_received;
  status.compute_us = job.counters->compute_us;
  status.check_us = job.counters->check_us;
  const auto end = job.ended ? job.ended_us : static_cast<std::int64_t>(now());
  status.wall_us = static_cast<std::uint64_t>(std::max<std::int64_t>(end - job.started_us, 0));
  status.hosts = static_cast<std::uint32_t>(std::count_if(
      job.shares.begin(), job.shares.end(),
      [](const auto& share) { return share.second.accepted + share.second.confirmed > 0; }));
  return status;
}

Result<wire::JobStatus> Engine::status(std::uint64_t number) const {
  const auto job = find_job(number);
  if (!job) {
    return fail(Code::kNotFound, "there is no job " + std::to_string(number));
  }
  return status_of(*job);
}

wire::JobList Engine::jobs() const {
  wire::JobList list;
  std::size_t bytes = 0;
  for (auto it = jobs_.rbegin(); it != jobs_.rend(); ++it) {  // the newest, if not all fit a reply
    wire::JobStatus status = status_of(*it->second);
    bytes += most_bytes(status);
    if (bytes > kListBytes || list.jobs.size() == wire::kMaxJobs) {
      break;
    }
    list.jobs.push_back(std::move(status));
  }
  std::reverse(list.jobs.begin(), list.jobs.end());
  return list;
}

wire::Explanation Engine::explain_job(const Job& job) const {
  wire::Explanation out;
  out.status = status_of(job);
  out.policy = job.record.policy;
  out.replicas = job.record.replicas;
  std::size_t bytes = 0;
  // Who was refused first: not all may fit a reply.
  for (const bool refused : {true, false}) {
    for (const auto& [pin, share] : job.shares) {
      if ((share.refused > 0 || share.quarantined) != refused) {
        continue;
      }
      wire::HostReport report;
      report.host = pin;
      report.connected = find_connected(pin) != nullptr;
      report.accepted = share.accepted;
      report.confirmed = share.confirmed;
      report.refused = share.refused;
      report.failed = share.failed;
      report.compute_us = share.compute_us;
      report.bytes_received = share.bytes_received;
      report.peak_bytes = share.peak_bytes;
      report.quarantined = share.quarantined;
      report.reason = share.reason;
      bytes += most_bytes(report);
      if (bytes <= kListBytes / 2 && out.hosts.size() < wire::kMaxHosts) {
        out.hosts.push_back(std::move(report));
      }
    }
  }
  out.incidents = job.incidents;
  out.incident_count = job.incident_count;
  const auto put = [&out](std::string name, std::string value) {
    out.plan.emplace_back(std::move(name), std::move(value));
  };
  put("plugin", job.record.plugin.hex());
  if (job.bytes_least > 0) {  // not known after a restart
    // Hosts that kept inputs of earlier jobs are sent less.
    put("least bytes to move if hosts held no inputs",
        std::to_string(static_cast<std::uint64_t>(job.bytes_least)));
  }
  put("bytes moved", std::to_string(out.status.bytes_sent + out.status.bytes_received));
  put("least memory of a host", std::to_string(job.min_task_bytes));
  for (const auto& file : job.record.output_files) {
    put("output '" + file.name + "' is in", file.path);  // the Python package looks for these words
  }
  return out;
}

Engine::Footprint Engine::footprint() const {
  Footprint out;
  out.hosts = hosts_.size();
  out.leases = leases_.size();
  out.blobs = blobs_.size();
  for (const auto& [id, host] : hosts_) {
    out.grants += host.granted.size();
  }
  for (const auto& [number, job] : jobs_) {
    out.tasks += job->tasks.size();
    out.views += job->view_digests.size();
  }
  return out;
}

net::Task<Result<wire::Explanation>> Engine::explain(std::uint64_t number) {
  const auto job = find_job(number);
  if (!job) {
    co_return fail(Code::kNotFound, "there is no job " + std::to_string(number));
  }
  if (!job->told) {
    co_return explain_job(*job);
  }
  auto record =
      co_await with_journal([number](store::LabJournal& journal) { return journal.job(number); });
  if (!record) {
    co_return fail(std::move(record).error());
  }
  auto summary = wire::decode_reply(record->summary);
  auto* told = summary ? std::get_if<wire::Explanation>(&summary->body) : nullptr;
  if (told == nullptr) {
    co_return fail(Code::kCorrupt, "the journal's explanation of job " + std::to_string(number) +
                                       " cannot be read");
  }
  co_return std::move(*told);
}

wire::HostList Engine::hosts() const {
  wire::HostList list;
  std::size_t bytes = 0;
  const auto add = [&](wire::HostReport report) {
    bytes += most_bytes(report);
    if (bytes <= kListBytes && list.hosts.size() < wire::kMaxHosts) {
      list.hosts.push_back(std::move(report));
    }
  };
  // Those that are here first: not all that ever were may fit a reply.
  for (const bool here : {true, false}) {
    for (const auto& [pin, past] : past_hosts_) {
      const HostEntry* const live = find_connected(pin);
      if ((live != nullptr) != here) {
        continue;
      }
      wire::HostReport report = past;
      report.host = pin;
      report.connected = here;
      report.reason = "not connected";
      if (live != nullptr) {
        const auto counts = scheduler_->host_counts(host_ids_.at(pin));
        report.validator = counts.trusted;
        report.capacity = live->capacity;
        report.state = live->state;
        report.leases = counts.leases;
        report.bytes_sent += live->port->bytes_sent();
        report.bytes_received += live->port->bytes_received();
        report.reason = counts.idle_reason;
      }
      const auto standing = standings_.of(pin, clocks());
      report.passed = standing.passed;
      report.faults = standing.faults;
      report.forgiven = standing.forgiven;
      add(std::move(report));
    }
  }
  return list;
}

const Engine::HostEntry* Engine::find_connected(const wire::Digest& pin) const {
  const auto id = host_ids_.find(pin);
  const auto host = id == host_ids_.end() ? hosts_.end() : hosts_.find(id->second);
  return host == hosts_.end() ? nullptr : &host->second;
}

net::Task<Result<wire::KindList>> Engine::kinds() {
  GOBLIN_CO_TRY(const std::vector<PluginFile> files, co_await plugins_.all());
  wire::KindList list;
  for (const auto& file : files) {
    auto known = descriptions_.find(file.digest);
    if (known == descriptions_.end()) {
      auto runner = co_await start_runner(file.memfd);
      if (!runner) {
        logger_.warn("plugin " + file.digest.hex().substr(0, 16) + ": " + runner.error().message);
        continue;
      }
      known = descriptions_.emplace(file.digest, (*runner)->client().kinds()).first;
    }
    for (const auto& kind : known->second) {
      list.kinds.push_back({kind, file.digest});
    }
  }
  co_return list;
}

net::Task<std::uint64_t> Engine::wait_change(std::shared_ptr<Job> job, std::uint64_t seen) {
  while (job->version == seen && !stopped_) {
    job->changed.reset();
    co_await job->changed.wait();
  }
  co_return job->version;
}

}  // namespace goblin::lab
