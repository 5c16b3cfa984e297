// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/sim/histories.hpp"

#include <chrono>

#include "tests/sim/world.hpp"

namespace goblin::sim {

History run_history(std::uint64_t seed, bool print) {
  World world(seed, Options::draw(seed));
  world.time.print(print);
  world.run();
  return {world.time.violation(), world.time.hash(), world.steps(), double(world.time.now()) * 1e-6,
          world.time.tally()};
}

Summary run_histories(std::uint64_t first, std::uint64_t histories, double seconds,
                      std::uint64_t stride) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  Summary summary;
  for (std::uint64_t seed = first; summary.histories < histories; seed += stride) {
    if (seconds > 0 && std::chrono::duration<double>(Clock::now() - began).count() > seconds) break;
    const History history = run_history(seed);
    ++summary.histories;
    summary.steps += history.steps;
    summary.virtual_seconds += history.virtual_seconds;
    for (const auto& [what, count] : history.tally) summary.tally[what] += count;
    if (history.violation.empty()) continue;
    summary.failed_seed = seed;
    summary.violation = history.violation;
    break;
  }
  return summary;
}

std::string replay_line(std::uint64_t seed) {
  return "build/release/tests/goblin-sim --seed " + std::to_string(seed) + " --trace";
}

}  // namespace goblin::sim
