// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// How fast each host computes each kind: learnt from results, or taken from what the host measured
// of itself. Loop's thread only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/scheduler/scheduler.hpp"
#include "core/scheduler/speed.hpp"
#include "core/wire/peer.hpp"

namespace goblin::lab {

/// A kind, with the width of what it computes with: "matmul/1" in f64 is another.
struct Computation {
  std::string kind;
  bool f64 = false;
  auto operator<=>(const Computation&) const = default;

  /// By the widest of the job's inputs.
  static Computation of(const std::string& kind, const std::vector<wire::DType>& inputs);
};

class HostSpeeds {
 public:
  void add(scheduler::HostId host, const Computation& what, double flops, double seconds);
  void forget(scheduler::HostId host);

  struct Speed {
    double flops_per_s = 0;
    bool assumed = false;  ///< nobody has seen it compute this
  };
  /// For tasks of so many flops. Without results of the host on comparable ones: what it measured
  /// of itself, times the share of that which tiles of a product reach.
  [[nodiscard]] Speed of(scheduler::HostId host, const wire::HostCapacity& capacity,
                         const Computation& what, double flops) const;

 private:
  struct Seen {
    scheduler::SpeedModel model;
    double largest = 0;  ///< flops of a task
  };
  std::map<scheduler::HostId, std::map<Computation, Seen>> seen_;
};

}  // namespace goblin::lab
