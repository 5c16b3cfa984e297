// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// AVX-512 F, BW, DQ and VL. This file alone is compiled with those instructions.
#include <immintrin.h>

#include "backends/cpu/micro_kernel.hpp"

namespace goblin::backends::cpu {
namespace {

struct Avx512 {
  static constexpr int kVectorBytes = 64;
  static constexpr int kRows = 12;  // 24 sums, 2 columns of B and the broadcasts: 32 registers
  static constexpr int kHeights = 3;
  template <class T>
  using Vector [[gnu::vector_size(64)]] = T;

  GOBLIN_NUMERICS_INLINE static Vector<float> broadcast(float x) { return _mm512_set1_ps(x); }
  GOBLIN_NUMERICS_INLINE static Vector<double> broadcast(double x) { return _mm512_set1_pd(x); }
  GOBLIN_NUMERICS_INLINE static Vector<std::uint32_t> broadcast(std::uint32_t x) {
    return (Vector<std::uint32_t>)_mm512_set1_epi32(static_cast<int>(x));
  }
  GOBLIN_NUMERICS_INLINE static Vector<std::uint64_t> broadcast(std::uint64_t x) {
    return (Vector<std::uint64_t>)_mm512_set1_epi64(static_cast<long long>(x));
  }
  GOBLIN_NUMERICS_INLINE static Vector<float> fused(Vector<float> x, Vector<float> y,
                                                    Vector<float> z) {
    return _mm512_fmadd_ps(x, y, z);
  }
  GOBLIN_NUMERICS_INLINE static Vector<double> fused(Vector<double> x, Vector<double> y,
                                                     Vector<double> z) {
    return _mm512_fmadd_pd(x, y, z);
  }

  // Packing of `kWidth` rows that are contiguous along k: four rows (two of 8-byte elements) go
  // into each 128-bit quarter, are transposed there, and leave as whole steps.
  template <class T>
  static constexpr bool kTransposes = true;

  template <int kWidth, class T>
  GOBLIN_NUMERICS_INLINE static void transpose(T* out, const char* source, std::int64_t row,
                                               std::int64_t steps) {
    if constexpr (sizeof(T) == 4) {
      transpose4<kWidth>(reinterpret_cast<char*>(out), source, row, steps);
    } else {
      transpose8<kWidth>(reinterpret_cast<char*>(out), source, row, steps);
    }
  }

 private:
  GOBLIN_NUMERICS_INLINE static __m128 quarter(const char* at) {
    return _mm_loadu_ps(reinterpret_cast<const float*>(at));
  }

  /// Rows r, r + apart, r + 2·apart, … (`kQuarters` of them), 16 bytes of each.
  template <int kQuarters>
  GOBLIN_NUMERICS_INLINE static __m512 gather(const char* at, std::int64_t apart) {
    __m512 v = _mm512_castps128_ps512(quarter(at));
    if constexpr (kQuarters > 1) v = _mm512_insertf32x4(v, quarter(at + apart), 1);
    if constexpr (kQuarters > 2) v = _mm512_insertf32x4(v, quarter(at + 2 * apart), 2);
    if constexpr (kQuarters > 3) v = _mm512_insertf32x4(v, quarter(at + 3 * apart), 3);
    return v;
  }

  template <int kWidth>
  GOBLIN_NUMERICS_INLINE static void transpose4(char* out, const char* source, std::int64_t row,
                                                std::int64_t steps) {
    constexpr std::int64_t kStep = 4 * kWidth;
    std::int64_t p = 0;
    for (; p + 4 <= steps; p += 4) {
#pragma GCC unroll 4
      for (int lane = 0; lane < kWidth; lane += 16) {
        constexpr int kQuarters = kWidth % 16 == 0 ? 4 : kWidth / 4;
        const char* const at = source + lane * row + p * 4;
        const __m512 r0 = gather<kQuarters>(at, 4 * row);
        const __m512 r1 = gather<kQuarters>(at + row, 4 * row);
        const __m512 r2 = gather<kQuarters>(at + 2 * row, 4 * row);
        const __m512 r3 = gather<kQuarters>(at + 3 * row, 4 * row);
        const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(r0, r1));
        const __m512d b = _mm512_castps_pd(_mm512_unpacklo_ps(r2, r3));
        const __m512d c = _mm512_castps_pd(_mm512_unpackhi_ps(r0, r1));
        const __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(r2, r3));
        char* const to = out + p * kStep + lane * 4;
        // Lanes past a narrow step are overwritten by the next step's, or fall into the slack.
        _mm512_storeu_pd(to, _mm512_unpacklo_pd(a, b));
        _mm512_storeu_pd(to + kStep, _mm512_unpackhi_pd(a, b));
        _mm512_storeu_pd(to + 2 * kStep, _mm512_unpacklo_pd(c, d));
        _mm512_storeu_pd(to + 3 * kStep, _mm512_unpackhi_pd(c, d));
      }
    }
    rest<4, kWidth>(out, source, row, p, steps);
  }

  template <int kWidth>
  GOBLIN_NUMERICS_INLINE static void transpose8(char* out, const char* source, std::int64_t row,
                                                std::int64_t steps) {
    constexpr std::int64_t kStep = 8 * kWidth;
    std::int64_t p = 0;
    for (; p + 2 <= steps; p += 2) {
      const char* const at = source + p * 8;
      char* const to = out + p * kStep;
      constexpr int kFull = kWidth / 8 * 8;
#pragma GCC unroll 4
      for (int lane = 0; lane < kFull; lane += 8) {
        const __m512d r0 = _mm512_castps_pd(gather<4>(at + lane * row, 2 * row));
        const __m512d r1 = _mm512_castps_pd(gather<4>(at + (lane + 1) * row, 2 * row));
        _mm512_storeu_pd(to + lane * 8, _mm512_unpacklo_pd(r0, r1));
        _mm512_storeu_pd(to + kStep + lane * 8, _mm512_unpackhi_pd(r0, r1));
      }
      if constexpr (kWidth % 8 == 4) {
        const __m512d r0 = _mm512_castps_pd(gather<2>(at + kFull * row, 2 * row));
        const __m512d r1 = _mm512_castps_pd(gather<2>(at + (kFull + 1) * row, 2 * row));
        _mm256_storeu_pd(reinterpret_cast<double*>(to + kFull * 8),
                         _mm512_castpd512_pd256(_mm512_unpacklo_pd(r0, r1)));
        _mm256_storeu_pd(reinterpret_cast<double*>(to + kStep + kFull * 8),
                         _mm512_castpd512_pd256(_mm512_unpackhi_pd(r0, r1)));
      }
    }
    rest<8, kWidth>(out, source, row, p, steps);
  }

  template <int kItem, int kWidth>
  GOBLIN_NUMERICS_INLINE static void rest(char* out, const char* source, std::int64_t row,
                                          std::int64_t p, std::int64_t steps) {
    for (; p < steps; ++p) {
      for (int lane = 0; lane < kWidth; ++lane) {
        __builtin_memcpy(out + (p * kWidth + lane) * kItem, source + lane * row + p * kItem, kItem);
      }
    }
  }
};

}  // namespace

constexpr Level kAvx512 = make_level<Avx512>("avx512", "x86-64 with AVX-512 (F, BW, DQ, VL)");

}  // namespace goblin::backends::cpu
