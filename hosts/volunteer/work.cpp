// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/volunteer/work.hpp"

#include <algorithm>

#include "hosts/volunteer/job_runner.hpp"
#include "hosts/volunteer/lease_math.hpp"
#include "hosts/volunteer/result_frames.hpp"

namespace goblin::volunteer {
namespace {

constexpr int kFetchers = 2 * kFetchersPerLab;

}  // namespace

Work::Work(net::Loop& loop, const HostConfig& config, store::BlobCache& cache, CacheWatch& watch,
           FindPlugin find_plugin, log::Logger logger)
    : loop_(loop),
      config_(config),
      cache_(cache),
      watch_(watch),
      find_plugin_(std::move(find_plugin)),
      logger_(std::move(logger)),
      fetch_(loop),
      work_(loop),
      empty_(loop),
      wake_(loop) {}

Work::~Work() = default;

void Work::start() {
  for (int i = 0; i < kFetchers; ++i) {
    loop_.spawn(fetch_loop());
  }
  loop_.spawn(compute_loop());
  loop_.spawn(tidy_loop());
  loop_.spawn(govern_loop());
}

void Work::stop() {
  stopped_ = true;
  fetch_.set();
  work_.set();
  wake_.set();
  empty_.set();
  for (const auto& [key, runner] : runners_) {
    runner->client->kill();
  }
}

void Work::add(const std::shared_ptr<LabPort>& lab, wire::Leases leases,
               const wire::Bytes& payload) {
  labs_.insert(lab);
  auto own = static_cast<std::size_t>(std::count_if(
      leases_.begin(), leases_.end(), [&lab](const auto& entry) { return entry->lab == lab; }));
  const std::size_t most =
      shared_with_others(*lab) ? std::max<std::size_t>(config_.slots / 2, 1) : config_.slots;
  std::uint64_t inlined = 0;  // the daemon's own memory
  for (const auto& entry : leases_) {
    inlined += entry->inline_bytes.size();
  }
  std::vector<std::uint64_t> back;
  for (auto& lease : leases.leases) {
    auto entry = std::make_shared<Entry>();
    entry->lab = lab;
    entry->since = loop_.now();
    bool sane = true;
    bool inputs_here = true;
    for (auto& input : lease.inputs) {
      const auto bytes = input.spec.size_bytes();
      if (!bytes) {
        sane = false;
        break;
      }
      if (input.is_inline()) {
        if (input.inline_offset > payload.size() || *bytes > payload.size() - input.inline_offset) {
          sane = false;
          break;
        }
        const auto part = std::span(payload).subspan(input.inline_offset, *bytes);
        input.inline_offset = static_cast<std::uint32_t>(entry->inline_bytes.size());
        entry->inline_bytes.insert(entry->inline_bytes.end(), part.begin(), part.end());
        entry->inline_bytes.resize(round_up(entry->inline_bytes.size()));
        if (entry->inline_bytes.size() > kArenaBytes / 4) {
          break;  // refused below
        }
      } else {
        inputs_here = false;
      }
    }
    for (const auto& output : lease.outputs) {
      sane = sane && output.size_bytes().has_value();
    }
    entry->lease = std::move(lease);
    const bool no_cache = !inputs_here && !watch_.trouble().empty();
    const bool full = inlined + entry->inline_bytes.size() > config_.memory_bytes / 4;
    if (own >= most || leases_.size() >= config_.slots || stopped_ || no_cache || full) {
      back.push_back(entry->lease.lease);
      continue;
    }
    Code refusal{};
    if (!sane || entry->inline_bytes.size() > kArenaBytes / 4) {
      refusal = Code::kInvalidArgument;
    } else if (memory_of(entry->lease) > config_.memory_bytes) {
      refusal = Code::kExhausted;
    }
    if (refusal != Code{}) {
      wire::Results results;
      wire::TaskResult result;
      result.lease = entry->lease.lease;
      result.status = static_cast<std::int32_t>(refusal);
      results.results.push_back(result);
      lab->send(net::make_frame(wire::FrameType::kResults, results));
      ++counters_.failed;
      continue;
    }
    entry->inputs_here = inputs_here;
    entry->ready = inputs_here && plugins_here_.contains(entry->lease.plugin);
    inlined += entry->inline_bytes.size();
    leases_.push_back(entry);
    ++own;
    if (!entry->ready) {
      to_fetch_.push_back(entry);
    }
  }
  counters_.handed_back += back.size();
  for (auto& frame : hand_back_frames(back, Code::kUnavailable)) {
    lab->send(std::move(frame));
  }
  if (!leases_.empty()) {
    empty_.reset();
  }
  fetch_.set();
  work_.set();
}

std::uint64_t Work::held_bytes() const {
  std::uint64_t bytes = delivering_bytes_;
  for (const auto& known : labs_) {
    if (const auto lab = known.lock()) {
      bytes = add_capped(bytes, lab->held().bytes());
    }
  }
  return bytes;
}

bool Work::shared_with_others(const LabPort& lab) const {
  return std::any_of(labs_.begin(), labs_.end(), [&lab](const auto& known) {
    const auto other = known.lock();
    return other && other.get() != &lab && other->is_open();
  });
}

void Work::finish(const EntryPtr& entry) {
  entry->cancelled = true;
  entry->pins.clear();
  const auto it = std::find(leases_.begin(), leases_.end(), entry);
  if (it != leases_.end()) {
    leases_.erase(it);
  }
  if (leases_.empty()) {
    empty_.set();
  }
  wake_.set();
}

void Work::give_back(const EntryPtr& entry, Code reason) {
  wire::HandBack message;
  message.leases.push_back(entry->lease.lease);
  message.reason = reason;
  entry->lab->send(net::make_frame(wire::FrameType::kHandBack, message));
  ++counters_.handed_back;
  finish(entry);
}

void Work::cancel(const LabPort& lab, const std::vector<std::uint64_t>& leases) {
  const std::set<std::uint64_t> wanted(leases.begin(), leases.end());
  std::vector<EntryPtr> gone;
  std::size_t running_left = 0;
  for (const auto& entry : leases_) {
    if (entry->lab.get() == &lab && wanted.contains(entry->lease.lease)) {
      gone.push_back(entry);
    } else if (entry->running) {
      ++running_left;
    }
  }
  bool was_running = false;
  for (const auto& entry : gone) {
    was_running = was_running || entry->running;
    finish(entry);
  }
  if (was_running && running_left == 0 && busy_) {
    busy_->client->cancel_work(config_.cancel_grace);
  }
}

void Work::drop(const LabPort& lab) {
  std::vector<std::uint64_t> all;
  for (const auto& entry : leases_) {
    if (entry->lab.get() == &lab) {
      all.push_back(entry->lease.lease);
    }
  }
  cancel(lab, all);
}

void Work::hand_back_all() {
  hand_back_those([](const Entry&) { return true; });
}

void Work::hand_back_waiting() {
  plugins_here_.clear();
  hand_back_those([](const Entry& entry) { return !entry.running; });
}

void Work::drop_plugins(const std::function<bool(const wire::Digest&)>& may_run) {
  std::erase_if(plugins_here_, [&](const wire::Digest& plugin) { return !may_run(plugin); });
  std::map<std::shared_ptr<LabPort>, std::vector<std::uint64_t>> back;
  for (const auto& entry : leases_) {
    if (!may_run(entry->lease.plugin)) {
      back[entry->lab].push_back(entry->lease.lease);
      ++counters_.handed_back;
    }
  }
  for (const auto& [lab, leases] : back) {
    for (auto& frame : hand_back_frames(leases, Code::kUnavailable)) {
      lab->send(std::move(frame));
    }
    cancel(*lab, leases);
  }
  // At once: what was revoked is not asked to end.
  for (const auto& [key, runner] : runners_) {
    if (!may_run(runner->plugin)) {
      logger_.warn("plugin " + runner->plugin.hex().substr(0, 16) +
                   " was revoked: its runner is ended");
      runner->client->kill();
    }
  }
  std::erase_if(runners_, [&](const auto& item) {
    return item.second != busy_ && !may_run(item.second->plugin);
  });
}

void Work::hand_back_unfetched() {
  hand_back_those([](const Entry& entry) { return !entry.ready; });
}

void Work::hand_back_those(bool (*wanted)(const Entry& entry)) {
  std::map<std::shared_ptr<LabPort>, wire::HandBack> messages;
  for (const auto& entry : leases_) {
    if (wanted(*entry)) {
      messages[entry->lab].leases.push_back(entry->lease.lease);
      ++counters_.handed_back;
    }
  }
  for (auto& [lab, message] : messages) {
    for (auto& frame : hand_back_frames(message.leases, Code::kUnavailable)) {
      lab->send(std::move(frame));
    }
    cancel(*lab, message.leases);
  }
}

void Work::pause(bool paused) {
  paused_ = paused;
  stop_or_go();
  work_.set();
}

void Work::stop_or_go() {
  if (!executing_) {
    return;
  }
  if (paused_ || held_back_) {
    executing_->client->pause();
  } else {
    executing_->client->resume();
  }
}

std::vector<std::uint64_t> Work::running(const LabPort& lab) const {
  std::vector<std::uint64_t> leases;
  for (const auto& entry : leases_) {
    if (entry->running && entry->lab.get() == &lab) {
      leases.push_back(entry->lease.lease);
    }
  }
  return leases;
}

plugin::RunnerUsage Work::usage() const {
  plugin::RunnerUsage total;
  for (const auto& [key, runner] : runners_) {
    const auto usage = runner->client->usage();
    total.resident_bytes += usage.resident_bytes;
    total.cpu_us += usage.cpu_us;
  }
  return total;
}

std::string Work::idle_reason() const {
  if (paused_) {
    return "paused";
  }
  if (busy_) {
    return "";
  }
  if (!watch_.trouble().empty()) {
    return watch_.trouble();
  }
  if (leases_.empty()) {
    return last_trouble_.empty() ? "no lab node has work for this host now" : last_trouble_;
  }
  return "inputs are being fetched, or results wait to be collected";
}

net::Task<void> Work::drained() {
  while (!leases_.empty() && !stopped_) {
    empty_.reset();
    co_await empty_.wait();
  }
}

}  // namespace goblin::volunteer
