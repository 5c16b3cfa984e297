// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Caps on processors and memory; unused runners end.
#include <algorithm>

#include "hosts/volunteer/job_runner.hpp"
#include "hosts/volunteer/lease_math.hpp"

namespace goblin::volunteer {
namespace {

/// So many times HostConfig::uncollected is how long a result may be kept beside others that wait.
constexpr int kOld = 10;

}  // namespace

std::uint64_t Work::share() const {
  const auto open = std::count_if(labs_.begin(), labs_.end(), [](const auto& known) {
    const auto lab = known.lock();
    return lab && lab->is_open();
  });
  return config_.memory_bytes / static_cast<std::uint64_t>(std::max<std::ptrdiff_t>(open, 1));
}

bool Work::starves(const Entry& entry) const {
  const std::uint64_t held = held_bytes();
  const std::uint64_t own = entry.lab->held().bytes();
  return entry.ready && !entry.running && !entry.cancelled && own < held && own <= share() &&
         add_capped(held, memory_of(entry.lease)) > config_.memory_bytes;
}

void Work::give_up_uncollected() {
  const auto starving = std::find_if(leases_.begin(), leases_.end(),
                                     [this](const auto& entry) { return starves(*entry); });
  if (starving == leases_.end()) {
    return;
  }
  const net::TimePoint now = loop_.now();
  const LabPort* for_whom = (*starving)->lab.get();
  bool room = false;
  for (const auto& known : labs_) {
    const auto lab = known.lock();
    if (!lab || lab.get() == for_whom) {
      continue;
    }
    HeldResults& held = lab->held();
    const bool collects = now - held.collected() < config_.uncollected;
    std::uint64_t results = 0;
    const std::uint64_t before = held.bytes();
    while (const auto since = held.oldest()) {
      const bool due = now - *since >= config_.uncollected * (collects ? kOld : 1);
      if (!due || !starves(**starving)) {
        break;
      }
      held.drop_oldest();
      ++results;
    }
    if (results == 0) {
      continue;
    }
    room = true;
    counters_.given_up += results;
    logger_.warn("lab node " + lab->pin().hex().substr(0, 16) + " has not collected " +
                 std::to_string(results) + " results (" + std::to_string(before - held.bytes()) +
                 " bytes): they are given up, others wait for the memory");
  }
  if (room) {
    work_.set();
  }
}

net::Task<void> Work::tidy_loop() {
  while (!stopped_) {
    co_await loop_.sleep(net::Milliseconds(2'000));
    std::erase_if(labs_, [](const auto& lab) { return lab.expired(); });
    std::erase_if(runners_, [this](const auto& item) {
      return item.second != busy_ && loop_.now() - item.second->used > config_.runner_idle;
    });
  }
}

// An idle runner costs its process and the pages of its arena; starting one costs 20 ms.
void Work::make_room_for_runner() {
  constexpr std::uint64_t kEach = 32u << 20;
  const std::size_t most = std::clamp<std::uint64_t>(config_.memory_bytes / kEach, 2, 16);
  while (runners_.size() >= most) {
    auto oldest = runners_.end();
    for (auto it = runners_.begin(); it != runners_.end(); ++it) {
      if (it->second != busy_ &&
          (oldest == runners_.end() || it->second->used < oldest->second->used)) {
        oldest = it;
      }
    }
    if (oldest == runners_.end()) {
      return;
    }
    runners_.erase(oldest);
  }
}

net::Task<void> Work::govern_loop() {
  constexpr net::Milliseconds kPeriod{100};
  auto last = loop_.now();
  double debt_us = 0;
  double smooth = 0;
  while (!stopped_) {
    co_await loop_.sleep(kPeriod);
    const auto at = loop_.now();
    const auto elapsed = static_cast<double>(micros(last, at));
    last = at;
    double used = 0;
    if (const auto watched = busy_; watched && watched->client->alive()) {
      const auto usage = watched->client->usage();
      used = static_cast<double>(usage.cpu_us - std::min(watched->counted_cpu_us, usage.cpu_us));
      watched->counted_cpu_us = usage.cpu_us;
      if (usage.resident_bytes > config_.memory_bytes + config_.memory_bytes / 10) {
        logger_.warn("a runner uses " + std::to_string(usage.resident_bytes) +
                     " bytes, more than its cap of " + std::to_string(config_.memory_bytes) +
                     ": it is ended");
        watched->client->kill();
      }
    }
    if (config_.cpu_fraction < 1) {
      // The debt outlives batches and runners, or small batches would escape the cap.
      debt_us += used - elapsed * config_.cpu_fraction * config_.threads;
      debt_us = std::max(debt_us, -elapsed);
      held_back_ = debt_us > 0;
      stop_or_go();
    }
    smooth += 0.2 * (used / std::max(elapsed, 1.0) / config_.threads - smooth);
    cpu_used_ = smooth;
  }
}

}  // namespace goblin::volunteer
