// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A plan in numbers and words: what it moves, and the least that any plan could.
#pragma once

#include <string>

#include "plugins/matmul/tiling.hpp"

namespace goblin::matmul {

struct PlanReport {
  Tiling tiling;
  double tasks = 0;
  double task_memory = 0;    ///< bytes, of the largest
  double input_bytes = 0;    ///< sent to hosts
  double output_bytes = 0;   ///< sent back
  double largest_bound = 0;  ///< bytes: no plan on these hosts moves less
  std::string bound;         ///< which bound that is
  std::string text;          ///< a few sentences for explain()

  [[nodiscard]] double distance() const {
    return largest_bound > 0 ? (input_bytes + output_bytes) / largest_bound : 1;
  }
};

/// Bytes that any division of one product among `hosts`, each of which computes its share of the
/// terms and keeps every byte it ever received, must move: max of
///   operands and result once, and P times the least surface of a box of m·n·k/P terms
///   (Loomis and Whitney; Irony, Toledo and Tiskin 2004), whose face on C travels back.
double share_bound(const Problem& problem, std::uint64_t hosts);

/// Bytes that hosts without a cache, of `memory` bytes each, must read: 2·m·n·k/√M elements less
/// what fits (Irony, Toledo and Tiskin 2004; constant 2 by Smith et al. 2019).
double memory_bound(const Problem& problem, double memory);

PlanReport plan_report(const Problem& problem, const Tiling& tiling, const Capacity& capacity);

}  // namespace goblin::matmul
