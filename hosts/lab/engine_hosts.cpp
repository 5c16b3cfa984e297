// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Hosts come and go, commit to results, hand leases back and ask for blobs.
#include <algorithm>
#include <set>

#include "hosts/lab/engine.hpp"
#include "hosts/link/clock.hpp"

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
  net::BlobHash all;
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
      output.digest = net::blob_digest(part);
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

Clocks Engine::clocks() const { return {now(), link::unix_ms()}; }

void Engine::on(const scheduler::StandingChanged& action) {
  const auto pin = pin_of(action.host);
  standings_.set(pin, action.standing, clocks());
  if (!action.fault) {
    return;
  }
  standings_due_.set();
  const auto host = hosts_.find(action.host);
  if (host == hosts_.end()) {
    return;
  }
  wire::Standing told;
  told.faults = action.standing.faults;
  told.forgiven = action.standing.forgiven;
  if (action.standing.suspended_until > now()) {
    told.suspended_ms = (action.standing.suspended_until - now() + 999) / 1000;
    logger_.warn("host " + pin.hex().substr(0, 16) + ": " + std::to_string(told.faults) +
                 " results were wrong; it gets no work for " +
                 std::to_string(told.suspended_ms / 1000) + " s");
  }
  host->second.port->send(net::make_frame(wire::FrameType::kStanding, told));
}

net::Task<void> Engine::keep_standings() {
  constexpr net::Milliseconds kPause{1000};
  while (!stopped_) {
    standings_due_.reset();
    (void)co_await standings_due_.wait_for(kPause);
    auto due = standings_.take_due();
    if (due.empty()) {
      continue;
    }
    auto write = [due = std::move(due)](store::LabJournal& journal) {
      return write_standings(journal, due);
    };
    const auto done = co_await with_journal(write);
    if (!done) {
      logger_.error("journal: what hosts have earned cannot be kept: " + done.error().message);
    }
  }
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
    speeds_.forget(id);
    host_ids_.erase(pin);
    past_hosts_.erase(pin);
    standings_.forget(pin, clocks());
  }
  forget_hosts_at_ = known_hosts_.size() + most / 8;
}

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
  scheduler_->restore_standing(id, standings_.of(pin_of(id), clocks()), now());
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
  report_fetches();
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
