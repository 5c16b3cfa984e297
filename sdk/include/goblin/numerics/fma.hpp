// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The fused multiply-add in software: x·y + z with one rounding to nearest even, on every input.
//
// For machines without the instruction, and so that the definition of our results leans on no
// library. Which NaN comes back is not specified. Needs round to nearest and no flush to zero.
#pragma once

#include <cstdint>

#include "goblin/numerics/canonical.hpp"

namespace goblin::numerics {

/// The product of two floats is exact in double. Their sum with z is rounded to double *to odd*
/// (truncated, last bit set when inexact); with 53 ≥ 24 + 2 bits, rounding that to float is the
/// same as rounding the exact sum once (Boldo and Melquiond 2008).
GOBLIN_NUMERICS_INLINE float soft_fma(float x, float y, float z) {
  const double product = static_cast<double>(x) * static_cast<double>(y);
  const double addend = z;
  const double sum = product + addend;
  const double back = sum - product;
  const double error = (product - (sum - back)) + (addend - back);  // exact (Knuth's TwoSum)
  auto bits = bits_as<std::uint64_t>(sum);
  const std::uint64_t inexact =
      (error > 0 || error < 0) ? 1 : 0;  // false for NaN: sum is not finite
  const std::uint64_t even = ~bits & 1U;
  const std::uint64_t outward = (error > 0) == (sum > 0) ? 1 : ~std::uint64_t{0};
  bits += (inexact & even) * outward;
  return static_cast<float>(bits_as<double>(bits));
}

namespace detail {

__extension__ typedef unsigned __int128 Wide;

/// v / 2^shift with every bit that falls off gathered into the last one.
GOBLIN_NUMERICS_INLINE Wide shift_right_sticky(Wide v, std::int64_t shift) {
  if (shift <= 0) return v;
  if (shift > 127) return v != 0 ? 1 : 0;
  return (v >> shift) | ((v << (128 - shift)) != 0 ? 1 : 0);
}

/// A finite nonzero |x| as mantissa·2^exponent with mantissa in [2^52, 2^53).
struct Split {
  std::uint64_t mantissa;
  std::int64_t exponent;
};
GOBLIN_NUMERICS_INLINE Split split(double x) {
  const std::uint64_t magnitude = bits_as<std::uint64_t>(x) & 0x7fffffffffffffffU;
  const std::uint64_t fraction = magnitude & 0xfffffffffffffU;
  const auto biased = static_cast<std::int64_t>(magnitude >> 52);
  if (biased != 0) return {fraction | (std::uint64_t{1} << 52), biased - 1075};
  const int up = __builtin_clzll(fraction) - 11;
  return {fraction << up, -1074 - up};
}

/// (−1)^negative · magnitude · 2^exponent, rounded to nearest even. magnitude > 0.
GOBLIN_NUMERICS_INLINE double round_wide(bool negative, Wide magnitude, std::int64_t exponent) {
  const auto high = static_cast<std::uint64_t>(magnitude >> 64);
  const int leading = high != 0 ? __builtin_clzll(high)
                                : 64 + __builtin_clzll(static_cast<std::uint64_t>(magnitude));
  // Keep 53 bits, fewer below the normal range, and two more to round by.
  std::int64_t drop = 128 - leading - 53;
  if (exponent + drop < -1074) drop = -1074 - exponent;
  exponent += drop;
  drop -= 2;
  magnitude = drop > 0 ? shift_right_sticky(magnitude, drop) : magnitude << -drop;
  auto kept = static_cast<std::uint64_t>(magnitude);
  const std::uint64_t rest = kept & 3U;
  kept >>= 2;
  kept += (rest == 3 || (rest == 2 && (kept & 1U) != 0)) ? 1 : 0;
  // The implicit bit carries into the exponent field, so normal, subnormal and the carry out of
  // rounding are one formula.
  constexpr std::uint64_t kInfinity = 0x7ff0000000000000U;
  std::uint64_t bits = kInfinity;
  if (exponent < 1024) {
    bits = (static_cast<std::uint64_t>(exponent + 1074) << 52) + kept;
    if (bits > kInfinity) bits = kInfinity;
  }
  return bits_as<double>(bits | (negative ? std::uint64_t{1} << 63 : 0));
}

}  // namespace detail

/// The exact sum in 128-bit integers, rounded once.
GOBLIN_NUMERICS_INLINE double soft_fma(double x, double y, double z) {
  using detail::Wide;
  constexpr std::uint64_t kExponent = 0x7ff0000000000000U;
  const auto xb = bits_as<std::uint64_t>(x);
  const auto yb = bits_as<std::uint64_t>(y);
  const auto zb = bits_as<std::uint64_t>(z);
  // An infinite or NaN factor, or an exactly zero product: the plain operations are exact.
  if ((xb & kExponent) == kExponent || (yb & kExponent) == kExponent || x == 0 || y == 0) {
    return x * y + z;
  }
  if ((zb & kExponent) == kExponent) return z + z;  // x·y is finite, even where it would overflow
  if (z == 0) return x * y;  // not + z: a product that underflows to −0 keeps its sign

  const detail::Split a = detail::split(x);
  const detail::Split b = detail::split(y);
  const detail::Split c = detail::split(z);
  // Both to the top of 127 bits: product in [2^125, 2^127), addend in [2^125, 2^126).
  Wide product = (static_cast<Wide>(a.mantissa) * b.mantissa) << 21;
  Wide addend = static_cast<Wide>(c.mantissa) << 73;
  std::int64_t exponent = a.exponent + b.exponent - 21;
  const std::int64_t ahead = exponent - (c.exponent - 73);
  if (ahead >= 0) {
    addend = detail::shift_right_sticky(addend, ahead);
  } else {
    product = detail::shift_right_sticky(product, -ahead);
    exponent -= ahead;
  }
  // A sticky bit is set only after a shift of more than 21, when at most one leading bit cancels:
  // it stays far below the bits that rounding reads.
  const bool product_negative = ((xb ^ yb) >> 63) != 0;
  const bool addend_negative = (zb >> 63) != 0;
  Wide sum = product + addend;
  if (product_negative != addend_negative) {
    if (product == addend) return 0.0;
    sum = product > addend ? product - addend : addend - product;
  }
  return detail::round_wide(product >= addend ? product_negative : addend_negative, sum, exponent);
}

}  // namespace goblin::numerics
