// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Constants of the canonical product, and the one canonical NaN of each type.
#pragma once

#include <cstdint>
#include <cstring>

// Arithmetic that code built for several instruction levels shares is always inlined: an
// out-of-line copy would be merged by the linker across levels, and one built with AVX-512 could
// then run on a machine without it.
#define GOBLIN_NUMERICS_INLINE [[gnu::always_inline]] inline

namespace goblin::numerics {

/// Terms that are accumulated from +0, one fused multiply-add each, into one block sum.
inline constexpr std::int64_t kBlock = 256;
/// Terms whose block sums make one chunk sum; K may be cut between tasks at its multiples only.
inline constexpr std::int64_t kChunk = 4096;
static_assert(kChunk % kBlock == 0);

inline constexpr std::uint32_t kNanF32 = 0x7fc00000U;
inline constexpr std::uint64_t kNanF64 = 0x7ff8000000000000U;
inline constexpr std::uint16_t kNanF16 = 0x7e00U;
inline constexpr std::uint16_t kNanBF16 = 0x7fc0U;

/// Bits of a value as another type of the same size.
template <class To, class From>
GOBLIN_NUMERICS_INLINE To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

/// x, or the canonical NaN when x is any NaN.
GOBLIN_NUMERICS_INLINE float canonical(float x) { return x == x ? x : bits_as<float>(kNanF32); }
GOBLIN_NUMERICS_INLINE double canonical(double x) { return x == x ? x : bits_as<double>(kNanF64); }

}  // namespace goblin::numerics
