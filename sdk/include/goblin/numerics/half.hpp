// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// binary16 and bfloat16: exact widening to binary32, one rounding to nearest even back.
//
// Plain integer arithmetic (one exact float addition apart), so every compiler and device gives
// the same bits. Round to nearest even must be the current rounding mode.
#pragma once

#include <cstdint>

#include "goblin/numerics/canonical.hpp"

namespace goblin::numerics {

struct F16 {
  std::uint16_t bits;
};
struct BF16 {
  std::uint16_t bits;
};

/// Exact; a NaN keeps its sign and payload.
GOBLIN_NUMERICS_INLINE float widen(F16 h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h.bits & 0x8000U) << 16;
  const std::uint32_t magnitude = h.bits & 0x7fffU;
  // A subnormal half is its integer times 2^-24: exact, and no subnormal float is touched.
  const float tiny = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F;
  const std::uint32_t rebias = magnitude >= 0x7c00U ? (255U - 31U) << 23 : (127U - 15U) << 23;
  const std::uint32_t normal = (magnitude << 13) + rebias;
  return bits_as<float>(sign | (magnitude < 0x400U ? bits_as<std::uint32_t>(tiny) : normal));
}

/// Exact; a NaN keeps its sign and payload.
GOBLIN_NUMERICS_INLINE float widen(BF16 h) {
  return bits_as<float>(static_cast<std::uint32_t>(h.bits) << 16);
}

/// Nearest even; beyond the largest half by half a unit: infinity; NaN: the canonical one.
GOBLIN_NUMERICS_INLINE F16 round_to_f16(float x) {
  const auto all = bits_as<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>((all >> 16) & 0x8000U);
  std::uint32_t magnitude = all & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return {kNanF16};
  if (magnitude >= 0x477ff000U) return {static_cast<std::uint16_t>(sign | 0x7c00U)};
  if (magnitude < 0x38800000U) {
    // Floats in [0.5, 1) are 2^-24 apart, as subnormal halves are: the addition rounds for us.
    const float shifted = bits_as<float>(magnitude) + 0.5F;
    return {static_cast<std::uint16_t>(sign | (bits_as<std::uint32_t>(shifted) - 0x3f000000U))};
  }
  magnitude += 0xfffU + ((magnitude >> 13) & 1U);
  return {static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U) >> 13))};
}

/// Nearest even; NaN: the canonical one.
GOBLIN_NUMERICS_INLINE BF16 round_to_bf16(float x) {
  const auto all = bits_as<std::uint32_t>(x);
  if ((all & 0x7fffffffU) > 0x7f800000U) return {kNanBF16};
  return {static_cast<std::uint16_t>((all + 0x7fffU + ((all >> 16) & 1U)) >> 16)};
}

}  // namespace goblin::numerics
