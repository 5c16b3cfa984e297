// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The oldest CPU that is served: x86-64-v2 without a fused multiply-add, which is then computed
// exactly in software, or another architecture, by whose own instruction.
#include "backends/cpu/micro_kernel.hpp"
#include "goblin/numerics/fma.hpp"

namespace goblin::backends::cpu {
namespace {

#if defined(__x86_64__)
// Out of line: eight copies in the register tile would not fit the instruction cache.
[[gnu::noinline]] double one_fused(double x, double y, double z) {
  return numerics::soft_fma(x, y, z);
}
GOBLIN_NUMERICS_INLINE float one_fused(float x, float y, float z) {
  return numerics::soft_fma(x, y, z);
}
#else
GOBLIN_NUMERICS_INLINE double one_fused(double x, double y, double z) {
  return __builtin_fma(x, y, z);
}
GOBLIN_NUMERICS_INLINE float one_fused(float x, float y, float z) {
  return __builtin_fmaf(x, y, z);
}
#endif

struct Baseline {
  static constexpr int kVectorBytes = 16;
  static constexpr int kRows = 4;
  static constexpr int kHeights = 2;
  template <class T>
  using Vector [[gnu::vector_size(16)]] = T;

  template <class T>
  GOBLIN_NUMERICS_INLINE static Vector<T> broadcast(T x) {
    Vector<T> v{};
    for (int l = 0; l < kLanes<Baseline, T>; ++l) v[l] = x;
    return v;
  }
  template <class V>
  GOBLIN_NUMERICS_INLINE static V fused(const V& x, const V& y, const V& z) {
    V v{};
    for (unsigned l = 0; l < sizeof(V) / sizeof(v[0]); ++l) v[l] = one_fused(x[l], y[l], z[l]);
    return v;
  }
  template <class T>
  static constexpr bool kTransposes = false;
};

}  // namespace

constexpr Level kBaseline =
#if defined(__x86_64__)
    make_level<Baseline>("baseline", "x86-64-v2, fused multiply-add in software");
#else
    make_level<Baseline>("baseline", "Portable C++");
#endif

}  // namespace goblin::backends::cpu
