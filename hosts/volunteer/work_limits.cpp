// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Caps on processors and memory; unused runners end.
#include <algorithm>

#include "hosts/volunteer/job_runner.hpp"
#include "hosts/volunteer/lease_math.hpp"

namespace goblin::volunteer {
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
