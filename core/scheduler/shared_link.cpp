// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/scheduler/shared_link.hpp"

#include <algorithm>

namespace goblin::scheduler {

std::vector<double> fair_rates(const std::vector<double>& caps, double shared) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < caps.size(); ++i) {
    if (caps[i] > 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t left, std::size_t right) { return caps[left] < caps[right]; });
  std::vector<double> rates(caps.size(), 0);
  auto left = static_cast<double>(order.size());
  for (const std::size_t peer : order) {
    rates[peer] = std::min(caps[peer], shared / left);
    shared -= rates[peer];
    --left;
  }
  return rates;
}

}  // namespace goblin::scheduler
