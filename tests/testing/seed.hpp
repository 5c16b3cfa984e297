// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The seed of tests that try other cases each time.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace goblin::test {

/// Of this process: GOBLIN_TEST_SEED, else drawn; where CI is set always the same, so that its
/// verdict can be repeated. Print it with a failure.
inline std::uint64_t drawn_seed() {
  static const std::uint64_t value = [] {
    if (const char* given = std::getenv("GOBLIN_TEST_SEED"); given != nullptr) {
      return static_cast<std::uint64_t>(std::strtoull(given, nullptr, 0));
    }
    return std::getenv("CI") != nullptr ? std::uint64_t{1} : std::uint64_t{std::random_device{}()};
  }();
  return value;
}

}  // namespace goblin::test
