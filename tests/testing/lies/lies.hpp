// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Wrong results of a product, each what an attacker or a fault would make of the right one.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <string_view>

#include "plugins/matmul/task.hpp"
#include "tests/testing/lies/bound.hpp"

namespace goblin::testing {

/// What the liar has: the product with the right result in C, numbers to draw, and the 32 bytes
/// that it believes the check's random numbers come from (a leaked or reused seed).
struct Scene {
  const matmul::Product& product;
  std::mt19937_64& random;
  std::array<std::uint8_t, 32> leaked{};
  double kappa = kLeastKappa;  ///< what the liar takes the check's κ for
};

struct Lie {
  std::string_view name;
  int mode;  ///< its number in the project's list of attacks
  std::string_view what;
  /// Overwrites C. May leave it as it is where the data give no occasion (no zero to negate).
  void (*tell)(Scene& scene);
};

/// All of them, by number.
std::span<const Lie> lies();
/// NULL: there is none of this name.
const Lie* find_lie(std::string_view name);

}  // namespace goblin::testing
