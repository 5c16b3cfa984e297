// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/engine.hpp"

#include <algorithm>

namespace goblin::lab {
namespace {

/// Together fewer than the loop has workers: the journal and hashing must not wait for large files.
constexpr std::size_t kDiskTurns = 2, kResultTurns = 2, kRemovalTurns = 1;
/// A kind that hangs while it looks at a submission holds up its own client.
constexpr std::size_t kRunnerTurns = 32, kRunnerTurnsEach = 4;

}  // namespace

Engine::Engine(net::Loop& loop, store::LabJournal& journal, store::Staging& staging,
               PluginSource& plugins, EngineOptions options, log::Logger logger)
    : loop_(loop),
      journal_(journal),
      staging_(staging),
      plugins_(plugins),
      options_(std::move(options)),
      logger_(std::move(logger)),
      scheduler_(scheduler::Scheduler::create(options_.scheduler)),
      survey_(loop),
      runner_turns_(loop, kRunnerTurns, kRunnerTurnsEach),
      disk_turns_(loop, kDiskTurns, 1),
      result_turns_(loop, kResultTurns, kResultTurns),
      removal_turns_(loop, kRemovalTurns, kRemovalTurns),
      hosts_changed_(loop),
      standings_due_(loop),
      clock_(loop) {}

Engine::~Engine() = default;

void Engine::start() {
  loop_.spawn(run_clock());
  loop_.spawn(keep_standings());
}

void Engine::shut_down() {
  stopped_ = true;
  clock_.set();
  standings_due_.set();
  for (auto& [number, job] : jobs_) {
    job->ended = true;
    job->planner.reset();
    job->checker.reset();
    touch(*job);
  }
}

scheduler::Micros Engine::now() const {
  return static_cast<scheduler::Micros>(
      std::chrono::duration_cast<std::chrono::microseconds>(loop_.now().time_since_epoch())
          .count());
}

Engine::JobPtr Engine::find_job(std::uint64_t job) const {
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? nullptr : it->second;
}

void Engine::touch(Job& job) {
  ++job.version;
  job.changed.set();
}

// ---- the pump ----

void Engine::pump_soon() {
  if (!pump_posted_ && !stopped_) {
    pump_posted_ = true;
    loop_.post([this] { pump(); });
  }
}

void Engine::pump() {
  pump_posted_ = false;
  if (stopped_) {
    return;
  }
  for (auto actions = scheduler_->take_actions(); !actions.empty();
       actions = scheduler_->take_actions()) {
    for (const auto& action : actions) {
      std::visit([this](const auto& a) { on(a); }, action);
    }
  }
  flush_leases();
  clock_.set();
}

net::Task<void> Engine::run_clock() {
  const auto kept = std::min(options_.stage_keep_ms, options_.result_keep_ms);
  const auto tidy_every = net::Milliseconds(std::clamp<std::uint64_t>(kept / 4, 100, 3'600'000));
  auto tidy_due = loop_.now();
  while (!stopped_) {
    if (loop_.now() >= tidy_due) {
      tidy_due = loop_.now() + tidy_every;
      loop_.spawn(forget_old());
      loop_.spawn(unstage_old());
    }
    clock_.reset();
    const auto at = now();
    const auto due = scheduler_->next_wakeup();
    // Before the clock moves: what has come by now must not count as missing.
    constexpr net::Milliseconds kReport{500};
    if (due <= at || loop_.now() - fetches_reported_ >= kReport) {
      fetches_reported_ = loop_.now();
      report_fetches();
    }
    if (due <= at) {
      scheduler_->tick(at);
      pump_soon();
      co_await loop_.sleep(net::Milliseconds(1));
      continue;
    }
    const auto wait_ms = std::min<scheduler::Micros>((due - at) / 1000 + 1, 1000);
    (void)co_await clock_.wait_for(net::Milliseconds(wait_ms));
  }
}

void Engine::on(const scheduler::PlanMore& action) {
  if (auto job = find_job(action.job); job && !job->ended) {
    loop_.spawn(plan_more(std::move(job), action));
  }
}

void Engine::on(const scheduler::SendLease& action) {
  const auto job = find_job(action.job);
  const auto host = hosts_.find(action.host);
  if (!job || job->ended || host == hosts_.end()) {
    return;
  }
  const auto task = job->tasks.find(action.task);
  if (task == job->tasks.end()) {
    logger_.error("the scheduler leases task " + std::to_string(action.task) + " of job " +
                  std::to_string(action.job) + ", which is not prepared");
    scheduler_->handed_back(action.host, action.lease, Code::kUnavailable, now());
    return;
  }
  const PreparedTask& prepared = *task->second;
  LeaseEntry entry;
  entry.host = action.host;
  entry.pin = host->second.port->pin();
  entry.job = job;
  entry.task = task->second;
  leases_.emplace(action.lease, std::move(entry));

  wire::Lease lease;
  lease.lease = action.lease;
  lease.job = action.job;
  lease.plugin = job->record.plugin;
  lease.kind = job->record.kind_index;
  lease.params = prepared.planned.params;
  lease.inputs = prepared.inputs;
  for (const auto& input : lease.inputs) {
    if (!input.is_inline()) {
      ++host->second.granted[input.digest];
    }
  }
  lease.outputs = prepared.planned.outputs;
  lease.flops = prepared.planned.flops;
  lease.memory_bytes = prepared.planned.memory_bytes;
  lease.deadline_ms =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(action.deadline / 1000, 0xffffffff));
  outgoing_[action.host].leases.add(std::move(lease), prepared.inline_bytes);
  job->counters->bytes_sent += prepared.inline_bytes.size();
  touch(*job);
}

void Engine::flush_leases() {
  for (auto& [id, out] : outgoing_) {
    const auto host = hosts_.find(id);
    if (host == hosts_.end()) {
      continue;
    }
    HostPort& port = *host->second.port;
    for (auto& frame : out.leases.take()) {
      port.send(std::move(frame));
    }
    if (!out.cancel.leases.empty()) {
      port.send(net::make_frame(wire::FrameType::kCancelLeases, out.cancel));
    }
    if (!out.release.leases.empty()) {
      port.send(net::make_frame(wire::FrameType::kReleaseResults, out.release));
    }
  }
  outgoing_.clear();
}

void Engine::on(const scheduler::CancelLease& action) {
  outgoing_[action.host].cancel.leases.push_back(action.lease);
  drop_lease(action.lease);
}

void Engine::on(const scheduler::ReleaseResult& action) {
  const auto lease = leases_.find(action.lease);
  if (lease == leases_.end() || (!lease->second.forgotten && lease->second.host_keeps_bytes())) {
    outgoing_[action.host].release.leases.push_back(action.lease);
  }
  drop_lease(action.lease);
}

void Engine::on(const scheduler::ForgetBytes& action) {
  const auto lease = leases_.find(action.lease);
  if (lease == leases_.end() || lease->second.forgotten || !lease->second.host_keeps_bytes()) {
    return;
  }
  lease->second.forgotten = true;
  outgoing_[action.host].release.leases.push_back(action.lease);
}

void Engine::on(const scheduler::Quarantine& action) {
  const auto job = find_job(action.job);
  if (!job) {
    return;
  }
  const auto pin = pin_of(action.host);
  auto& share = job->shares[pin];
  share.quarantined = true;
  share.reason = action.reason;
  logger_.warn("job " + std::to_string(action.job) + ": host " + pin.hex().substr(0, 16) +
               " is quarantined: " + action.reason);
  loop_.spawn([](Engine& self, store::QuarantineRecord record) -> net::Task<void> {
    auto write = [record](store::LabJournal& journal) { return journal.record_quarantine(record); };
    auto done = co_await self.with_journal(write);
    if (!done) {
      self.logger_.error("journal: " + done.error().message);
    }
  }(*this, {action.job, pin, action.task, action.reason}));
}

void Engine::on(const scheduler::Rerun& action) {
  const auto job = find_job(action.job);
  if (!job || job->ended) {
    return;
  }
  const auto task = job->tasks.find(action.task);
  if (task == job->tasks.end()) {
    Error error{Code::kInternal, "the scheduler runs task " + std::to_string(action.task) +
                                     " again, which is not prepared"};
    loop_.spawn(end_job(job, wire::JobState::kFailed, std::move(error)));
    return;
  }
  ++job->counters->recomputed;
  scheduler_->task_ready(ready_task(action.job, *task->second), now());
  touch(*job);
}

void Engine::on(const scheduler::Incident& action) {
  if (const auto job = find_job(action.job)) {
    const auto pin = pin_of(action.host);
    if (action.refused) {
      ++job->shares[pin].refused;
      ++past_hosts_[pin].refused;
      ++job->counters->refused;
    } else if (!action.note) {
      ++job->shares[pin].failed;
      ++past_hosts_[pin].failed;
    }
    // What was seen of the same result here belongs to it.
    auto seen = job->seen_wrong.extract({action.task, pin});
    note_incident(*job, action.task, pin, action.what,
                  seen.empty() ? std::string() : std::move(seen.mapped()));
  }
}

void Engine::saw_wrong(Job& job, std::uint64_t task, const wire::Digest& host, std::string why) {
  constexpr std::size_t kMost = 4096;  // the scheduler tells of each at once
  if (job.seen_wrong.size() < kMost) {
    job.seen_wrong.insert_or_assign({task, host}, std::move(why));
  }
}

void Engine::note_incident(Job& job, std::uint64_t task, const wire::Digest& host, std::string what,
                           std::string detail) {
  constexpr std::size_t kKept = 1000;
  constexpr std::size_t kDetail = 1000;  // a plugin's words: all incidents must fit one reply
  if (detail.size() > kDetail) {
    detail.resize(kDetail);
    detail += " …";
  }
  ++job.incident_count;
  if (job.incidents.size() < kKept) {
    job.incidents.push_back({task, host, std::move(what), std::move(detail)});
  }
  touch(job);
}

void Engine::on(const scheduler::FinishJob& action) {
  if (auto job = find_job(action.job); job && !job->ended) {
    loop_.spawn(finish_job(std::move(job)));
  }
}

void Engine::on(const scheduler::FailJob& action) {
  if (auto job = find_job(action.job); job && !job->ended) {
    loop_.spawn(end_job(std::move(job), wire::JobState::kFailed, action.error));
  }
}

}  // namespace goblin::lab
