// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// AVX2 and FMA. This file alone is compiled with those instructions.
#include <immintrin.h>

#include "backends/cpu/micro_kernel.hpp"

namespace goblin::backends::cpu {
namespace {

struct Avx2 {
  static constexpr int kVectorBytes = 32;
  static constexpr int kRows = 6;  // 12 sums, 2 columns of B and the broadcasts: 16 registers
  static constexpr int kHeights = 3;
  template <class T>
  using Vector [[gnu::vector_size(32)]] = T;

  GOBLIN_NUMERICS_INLINE static Vector<float> broadcast(float x) { return _mm256_set1_ps(x); }
  GOBLIN_NUMERICS_INLINE static Vector<double> broadcast(double x) { return _mm256_set1_pd(x); }
  GOBLIN_NUMERICS_INLINE static Vector<std::uint32_t> broadcast(std::uint32_t x) {
    return (Vector<std::uint32_t>)_mm256_set1_epi32(static_cast<int>(x));
  }
  GOBLIN_NUMERICS_INLINE static Vector<std::uint64_t> broadcast(std::uint64_t x) {
    return (Vector<std::uint64_t>)_mm256_set1_epi64x(static_cast<long long>(x));
  }
  GOBLIN_NUMERICS_INLINE static Vector<float> fused(Vector<float> x, Vector<float> y,
                                                    Vector<float> z) {
    return _mm256_fmadd_ps(x, y, z);
  }
  GOBLIN_NUMERICS_INLINE static Vector<double> fused(Vector<double> x, Vector<double> y,
                                                     Vector<double> z) {
    return _mm256_fmadd_pd(x, y, z);
  }
  template <class T>
  static constexpr bool kTransposes = false;
};

}  // namespace

constexpr Level kAvx2 = make_level<Avx2>("avx2", "x86-64 with AVX2 and FMA");

}  // namespace goblin::backends::cpu
