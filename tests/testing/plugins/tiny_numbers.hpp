// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What a task of the kind tiny-tasks computes: a map of 64-bit numbers that can be inverted.
#pragma once

#include <cstdint>

namespace goblin::testing {

inline constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;

/// The inverse of an odd number modulo 2^64, by Newton's iteration.
constexpr std::uint64_t inverse(std::uint64_t odd) {
  std::uint64_t x = odd;  // right in 3 bits; each step doubles them
  for (int step = 0; step < 5; ++step) x *= 2 - odd * x;
  return x;
}
static_assert(kOdd * inverse(kOdd) == 1);

constexpr std::uint64_t scatter(std::uint64_t i) {
  const std::uint64_t x = i * kOdd;
  return x ^ (x >> 32);
}
constexpr std::uint64_t gather(std::uint64_t value) {
  return (value ^ (value >> 32)) * inverse(kOdd);
}

}  // namespace goblin::testing
