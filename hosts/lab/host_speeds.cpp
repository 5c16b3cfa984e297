// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/host_speeds.hpp"

#include <algorithm>

#include "goblin/abi/plugin.h"

namespace goblin::lab {
namespace {

/// Of the peak in registers: what tiles of a product reached on the machines of docs/benchmarks.md.
constexpr double kUsual = 0.85;
/// A host that measured nothing of itself: one thread of a common processor.
constexpr double kOneThread = 20e9;
/// Tasks of less than this share of those in question say little of them: they may be overhead.
constexpr double kComparable = 0.05;

bool is_f64(wire::DType dtype) { return dtype == GOBLIN_F64 || dtype == GOBLIN_C128; }

}  // namespace

Computation Computation::of(const std::string& kind, const std::vector<wire::DType>& inputs) {
  return {kind, std::any_of(inputs.begin(), inputs.end(), is_f64)};
}

void HostSpeeds::add(scheduler::HostId host, const Computation& what, double flops,
                     double seconds) {
  if (!(flops > 0) || !(seconds > 0)) {
    return;
  }
  Seen& seen = seen_[host][what];
  seen.model.add(flops, seconds);
  seen.largest = std::max(seen.largest, flops);
}

void HostSpeeds::forget(scheduler::HostId host) { seen_.erase(host); }

HostSpeeds::Speed HostSpeeds::of(scheduler::HostId host, const wire::HostCapacity& capacity,
                                 const Computation& what, double flops) const {
  const auto known = seen_.find(host);
  if (known != seen_.end()) {
    const auto it = known->second.find(what);
    if (it != known->second.end() && it->second.largest >= kComparable * flops) {
      const double seconds = it->second.model.predict(flops).value_or(0);
      if (seconds > 0) {
        return {flops / seconds, false};
      }
    }
  }
  const double own = what.f64 ? capacity.flops_f64 : capacity.flops_f32;
  return {own > 0 ? kUsual * own : kOneThread * std::max(capacity.threads, 1u), true};
}

}  // namespace goblin::lab
