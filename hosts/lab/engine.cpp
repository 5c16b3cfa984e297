// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/engine.hpp"

#include <algorithm>
#include <set>

namespace goblin::lab {
namespace {

/// Counts what is sent of a job's data, then reads from the real source.
class CountingSource final : public net::BlobSource {
 public:
  CountingSource(std::shared_ptr<net::BlobSource> source, std::shared_ptr<JobCounters> counters)
      : source_(std::move(source)), counters_(std::move(counters)) {}
  [[nodiscard]] std::uint64_t size() const override { return source_->size(); }
  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override {
    counters_->bytes_sent += out.size();
    return source_->read(offset, out);
  }

 private:
  std::shared_ptr<net::BlobSource> source_;
  std::shared_ptr<JobCounters> counters_;
};

scheduler::HostSpec host_spec(const wire::HostCapacity& capacity, wire::HostState state,
                              bool trusted, std::uint64_t group) {
  scheduler::HostSpec spec;
  spec.memory_bytes = capacity.memory_bytes;
  spec.cache_bytes = capacity.cache_bytes;
  spec.slots = std::clamp<std::uint32_t>(capacity.slots, 1, 4096);
  spec.threads = std::max<std::uint32_t>(capacity.threads, 1);
  spec.trusted = trusted;
  spec.group = group;
  spec.accepting = state == wire::HostState::kReady;
  return spec;
}

/// Together fewer than the loop has workers: the journal and hashing must not wait for large files.
constexpr std::size_t kDiskTurns = 2, kResultTurns = 2, kRemovalTurns = 1;
/// A kind that hangs while it looks at a submission holds up its own client.
constexpr std::size_t kRunnerTurns = 32, kRunnerTurnsEach = 4;

/// What a host has committed to: digests for all outputs, inline bytes gathered.
struct Committed {
  wire::TaskResult result;
  wire::Bytes payload;     ///< inline bytes of the outputs, one after another
  wire::Digest digest;     ///< one output: its own; several: that of their digests
  bool malformed = false;  ///< outputs that are not what the task asks for
};

/// kCorrupt for a place outside the payload.
Result<Committed> commit(const PreparedTask& task, const wire::TaskResult& result,
                         const wire::Bytes& payload) {
  const auto& wanted = task.planned.outputs;
  Committed out;
  out.result = result;
  out.malformed = result.outputs.size() != wanted.size();
  net::Sha256 all;
  for (std::size_t i = 0; i < result.outputs.size() && !out.malformed; ++i) {
    auto& output = out.result.outputs[i];
    if (output.spec != wanted[i]) {
      out.malformed = true;
      break;
    }
    if (output.is_inline()) {
      const std::uint64_t bytes = wanted[i].size_bytes().value_or(0);
      if (output.inline_offset > payload.size() || bytes > payload.size() - output.inline_offset) {
        return fail(Code::kCorrupt, "a result's inline bytes lie outside the frame");
      }
      const auto part = std::span(payload).subspan(output.inline_offset, bytes);
      output.digest = net::sha256(part);
      output.inline_offset = static_cast<std::uint32_t>(out.payload.size());
      out.payload.insert(out.payload.end(), part.begin(), part.end());
    }
    if (wanted.size() > 1) {
      all.update(std::as_bytes(std::span(output.digest.bytes)));
    }
  }
  const bool single = !out.malformed && wanted.size() == 1;
  out.digest = single ? out.result.outputs[0].digest : all.finish();
  return out;
}

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
      runner_turns_(loop, kRunnerTurns, kRunnerTurnsEach),
      disk_turns_(loop, kDiskTurns, 1),
      result_turns_(loop, kResultTurns, kResultTurns),
      removal_turns_(loop, kRemovalTurns, kRemovalTurns),
      hosts_changed_(loop),
      clock_(loop) {}

Engine::~Engine() = default;

void Engine::start() { loop_.spawn(run_clock()); }

void Engine::shut_down() {
  stopped_ = true;
  clock_.set();
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

scheduler::HostId Engine::id_of(const wire::Digest& pin) {
  const auto [it, fresh] = host_ids_.emplace(pin, last_host_id_ + 1);
  if (fresh) {
    known_hosts_.emplace(++last_host_id_, KnownHost{pin, loop_.now()});
  }
  return it->second;
}

wire::Digest Engine::pin_of(scheduler::HostId host) const {
  const auto known = known_hosts_.find(host);
  return known == known_hosts_.end() ? wire::Digest{} : known->second.pin;
}

void Engine::forget_hosts() {
  const std::size_t most = options_.max_known_hosts;
  if (known_hosts_.size() <= std::max(most, forget_hosts_at_)) {
    return;
  }
  // What a running job holds against a key must not end with the key's connection.
  std::set<wire::Digest> needed;
  for (const auto& [number, job] : jobs_) {
    for (const auto& [pin, share] : job->shares) {
      needed.insert(pin);
    }
  }
  for (const auto& [number, lease] : leases_) {
    needed.insert(lease.pin);
  }
  std::vector<std::pair<net::TimePoint, scheduler::HostId>> gone;
  for (const auto& [id, known] : known_hosts_) {
    if (!hosts_.contains(id) && !needed.contains(known.pin)) {
      gone.emplace_back(known.left, id);
    }
  }
  std::sort(gone.begin(), gone.end());
  // An eighth at once, and not again before as many have come: it costs a look at all of them.
  const std::size_t keep = most - most / 8;
  gone.resize(std::min(gone.size(), known_hosts_.size() - keep));
  for (const auto& [left, id] : gone) {
    const wire::Digest pin = known_hosts_.at(id).pin;
    known_hosts_.erase(id);
    host_ids_.erase(pin);
    past_hosts_.erase(pin);
  }
  forget_hosts_at_ = known_hosts_.size() + most / 8;
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
  if (lease == leases_.end() || !lease->second.forgotten) {
    outgoing_[action.host].release.leases.push_back(action.lease);
  }
  drop_lease(action.lease);
}

void Engine::on(const scheduler::ForgetBytes& action) {
  const auto lease = leases_.find(action.lease);
  if (lease == leases_.end() || lease->second.forgotten) {
    return;
  }
  const auto& outputs = lease->second.result.outputs;
  if (std::any_of(outputs.begin(), outputs.end(), [](const auto& o) { return !o.is_inline(); })) {
    lease->second.forgotten = true;
    outgoing_[action.host].release.leases.push_back(action.lease);
  }
}

void Engine::on(const scheduler::Quarantine& action) {
  const auto job = find_job(action.job);
  if (!job) {
    return;
  }
  const auto pin = pin_of(action.host);
  auto& share = job->shares[pin];
  ++share.refused;
  ++job->counters->refused;
  share.quarantined = true;
  share.reason = action.reason;
  auto& past = past_hosts_[pin];
  ++past.refused;
  note_incident(*job, action.task, pin, action.reason, "");  // a reason begins with "refused"
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
    ++job->shares[pin].failed;
    ++past_hosts_[pin].failed;
    note_incident(*job, action.task, pin, action.what, "");
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

// ---- events of hosts ----

scheduler::HostId Engine::host_joined(std::shared_ptr<HostPort> port,
                                      const wire::HostCapacity& capacity, wire::HostState state,
                                      bool trusted, std::uint64_t group) {
  forget_hosts();
  const scheduler::HostId id = id_of(port->pin());
  if (const auto old = hosts_.find(id); old != hosts_.end()) {
    host_left(id, old->second.port.get());  // the same key came back before its end was noticed
  }
  auto& past = past_hosts_[port->pin()];
  past.host = port->pin();
  past.validator = trusted;
  HostEntry entry;
  entry.port = std::move(port);
  entry.capacity = capacity;
  entry.state = state;
  entry.trusted = trusted;
  entry.group = group;
  hosts_.emplace(id, std::move(entry));
  scheduler_->host_joined(id, host_spec(capacity, state, trusted, group), now());
  hosts_changed_.set();
  pump_soon();
  return id;
}

void Engine::host_changed(scheduler::HostId host, const wire::HostCapacity& capacity,
                          wire::HostState state) {
  const auto it = hosts_.find(host);
  if (it == hosts_.end()) {
    return;
  }
  it->second.capacity = capacity;
  it->second.state = state;
  scheduler_->host_changed(host, host_spec(capacity, state, it->second.trusted, it->second.group),
                           now());
  hosts_changed_.set();
  pump_soon();
}

void Engine::host_left(scheduler::HostId host, const HostPort* port) {
  const auto it = hosts_.find(host);
  if (it == hosts_.end() || it->second.port.get() != port) {
    return;
  }
  auto& past = past_hosts_[it->second.port->pin()];
  past.bytes_sent += it->second.port->bytes_sent();
  past.bytes_received += it->second.port->bytes_received();
  scheduler_->host_left(host, now());
  // Results whose bytes are here already are still judged; the rest went with the host.
  pump();
  std::erase_if(leases_,
                [host](const auto& item) { return item.second.host == host && !item.second.slot; });
  for (auto& [number, entry] : leases_) {
    entry.grants = entry.grants && entry.host != host;  // of a connection that is no more
  }
  hosts_.erase(host);
  known_hosts_.at(host).left = loop_.now();
  outgoing_.erase(host);
  pump_soon();
}

Result<void> Engine::results(scheduler::HostId host, const wire::Results& results,
                             const wire::Bytes& payload) {
  for (const auto& result : results.results) {
    const auto it = leases_.find(result.lease);
    if (it == leases_.end() || it->second.host != host) {
      continue;  // cancelled meanwhile
    }
    LeaseEntry& entry = it->second;
    scheduler::Outcome outcome{.lease = result.lease,
                               .status = result.status,
                               .digest = {},
                               .compute = result.compute_us,
                               .fetch = result.fetch_us};
    if (result.status == GOBLIN_OK) {
      GOBLIN_TRY(Committed committed, commit(*entry.task, result, payload));
      outcome.digest = committed.digest;
      if (!entry.answered) {
        entry.answered = true;
        entry.result = std::move(committed.result);
        entry.payload = std::move(committed.payload);
        entry.malformed = committed.malformed;
      }
      auto& share = entry.job->shares[entry.pin];
      share.peak_bytes = std::max(share.peak_bytes, result.peak_bytes);
    }
    if (result.status == GOBLIN_CORRUPT) {
      doubt(result.lease, host, outcome);
    } else {
      scheduler_->outcome(host, outcome, now());
      if (result.status != GOBLIN_OK) {
        lease_failed(result.lease);
      }
    }
  }
  pump_soon();
  return {};
}

void Engine::handed_back(scheduler::HostId host, const wire::HandBack& message) {
  for (const auto lease : message.leases) {
    const auto it = leases_.find(lease);
    if (it != leases_.end() && it->second.host == host) {
      if (message.reason == Code::kCorrupt) {
        doubt(lease, host, std::nullopt);
      } else {
        scheduler_->handed_back(host, lease, message.reason, now());
        lease_failed(lease);
      }
    }
  }
  pump_soon();
}

void Engine::heartbeat(scheduler::HostId host, const wire::Heartbeat& message) {
  scheduler_->heartbeat(host, message.running, now());
  pump_soon();
}

Result<std::shared_ptr<net::BlobSource>> Engine::find_blob(scheduler::HostId host,
                                                           const wire::Digest& digest) {
  const auto entry = hosts_.find(host);
  const auto blob = blobs_.find(digest);
  if (entry == hosts_.end() || blob == blobs_.end() || !entry->second.granted.contains(digest)) {
    return fail(Code::kNotFound, "no lease of this host names the blob");
  }
  for (const auto& [number, window] : blob->second) {
    if (const auto job = find_job(number); job && !job->ended) {
      return std::make_shared<CountingSource>(make_view_source(window), job->counters);
    }
  }
  return fail(Code::kNotFound, "the blob's job has ended");
}

}  // namespace goblin::lab
