// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/scheduler/capacity.hpp"

#include <algorithm>
#include <cmath>

namespace goblin::scheduler {

std::uint64_t worthwhile_memory(std::vector<Lent> hosts) {
  std::sort(hosts.begin(), hosts.end(),
            [](const Lent& a, const Lent& b) { return a.memory_bytes > b.memory_bytes; });
  double threads = 0;
  double best = -1;
  std::uint64_t memory = 0;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    threads += std::max(hosts[i].threads, 1u);
    if (i + 1 < hosts.size() && hosts[i + 1].memory_bytes == hosts[i].memory_bytes) continue;
    const double score = threads * std::sqrt(std::sqrt(double(hosts[i].memory_bytes)));
    // Equal but for rounding: the smaller one, so that nobody is left out for nothing.
    if (score < best * (1 - 1e-9)) continue;
    best = std::max(best, score);
    memory = hosts[i].memory_bytes;
  }
  return memory;
}

}  // namespace goblin::scheduler
