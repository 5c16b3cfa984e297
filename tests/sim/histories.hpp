// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Many histories, one after another.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace goblin::sim {

struct History {
  std::string violation;  ///< empty: nothing happened that must not
  std::uint64_t hash = 0, steps = 0;
  double virtual_seconds = 0;
  std::map<std::string, std::uint64_t> tally;
};
/// `print`: says every event on stdout.
History run_history(std::uint64_t seed, bool print = false);

struct Summary {
  std::uint64_t histories = 0, steps = 0;
  double virtual_seconds = 0;
  std::map<std::string, std::uint64_t> tally;
  std::uint64_t failed_seed = 0;
  std::string violation;  ///< of failed_seed, the first that failed
};
/// Seeds `first`, `first` + `stride`, … until one fails, `histories` have run, or `seconds` of this
/// process' time are over (0: no such end).
Summary run_histories(std::uint64_t first, std::uint64_t histories, double seconds,
                      std::uint64_t stride = 1);

/// How to run one history again.
std::string replay_line(std::uint64_t seed);

}  // namespace goblin::sim
