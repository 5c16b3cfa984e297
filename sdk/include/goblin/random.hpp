// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Philox4x32-10: random numbers as a pure function of key and counter, so that any of them can be
// computed again alone, on any machine, in any order. Salmon et al., "Parallel Random Numbers: As
// Easy as 1, 2, 3", SC'11. Integers only: the same bits everywhere.
#pragma once

#include <array>
#include <cstdint>

namespace goblin {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// Ten rounds: 128 random bits for each (key, counter).
constexpr PhiloxCounter philox(PhiloxCounter c, PhiloxKey k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(a)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

/// 128 bits for number `index` of stream `stream` under a 64-bit seed.
constexpr PhiloxCounter philox(std::uint64_t seed, std::uint64_t index, std::uint64_t stream = 0) {
  return philox(
      {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
       static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
      PhiloxKey{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

/// Uniform in [0, 1): multiples of 2^-24 and 2^-53, exact in every rounding mode.
constexpr float uniform_f32(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }
constexpr double uniform_f64(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = (std::uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace goblin
