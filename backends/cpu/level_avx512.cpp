// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// AVX-512 F, BW, DQ and VL. This file alone is compiled with those instructions.
#include <immintrin.h>

#include "backends/cpu/micro_kernel.hpp"

namespace goblin::backends::cpu {
namespace {

struct Avx512 {
  static constexpr int kVectorBytes = 64;
  static constexpr int kRows = 12;  // 24 sums, 2 columns of B and the broadcasts: 32 registers
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
  template <class In, class T, int kWidth>
  GOBLIN_NUMERICS_INLINE static bool transpose(T*, const char*, std::int64_t, std::int64_t) {
    return false;
  }
};

}  // namespace

constexpr Level kAvx512 = make_level<Avx512>("avx512", "x86-64 with AVX-512 (F, BW, DQ, VL)");

}  // namespace goblin::backends::cpu
