// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Packing and the register tile, once for all instruction levels.
//
// Included by the files that are compiled per level. Everything here is a template on `Isa`, a
// type of an unnamed namespace, or always inlined: so no level's code can be taken for another's
// by the linker. No standard library templates for the same reason.
#pragma once

#include <cstdint>
#include <cstring>

#include "backends/cpu/kernels.hpp"
#include "goblin/numerics/canonical.hpp"
#include "goblin/numerics/half.hpp"

namespace goblin::backends::cpu {

template <class Isa, class T>
using Vector = typename Isa::template Vector<T>;

template <class Isa, class T>
inline constexpr int kLanes = Isa::kVectorBytes / static_cast<int>(sizeof(T));

/// How elements are accumulated. `kParts` is 2 for complex.
template <class T>
struct Real {
  using Element = T;
  static constexpr int kParts = 1;
  template <class Isa, class V>
  GOBLIN_NUMERICS_INLINE static void step(V& left, V& right, const T* a, const V& b0, const V& b1) {
    const V x = Isa::broadcast(*a);
    left = Isa::fused(x, b0, left);
    right = Isa::fused(x, b1, right);
  }
  template <class V>
  GOBLIN_NUMERICS_INLINE static V sum(const V& x, const V& y) {
    return x + y;
  }
};

template <class T>
struct Parts {
  using Element = T;
  static constexpr int kParts = 2;
  template <class Isa, class V>
  GOBLIN_NUMERICS_INLINE static void step(V& re, V& im, const T* a, const V& b_re, const V& b_im) {
    const V a_re = Isa::broadcast(a[0]);
    const V a_im = Isa::broadcast(a[1]);
    re = Isa::fused(a_re, b_re, re);
    re = Isa::fused(-a_im, b_im, re);
    im = Isa::fused(a_re, b_im, im);
    im = Isa::fused(a_im, b_re, im);
  }
  template <class V>
  GOBLIN_NUMERICS_INLINE static V sum(const V& x, const V& y) {
    return x + y;
  }
};

template <class T>
struct Wrapping {
  using Element = T;
  static constexpr int kParts = 1;
  template <class Isa, class V>
  GOBLIN_NUMERICS_INLINE static void step(V& left, V& right, const T* a, const V& b0, const V& b1) {
    const V x = Isa::broadcast(*a);
    left += x * b0;
    right += x * b1;
  }
  template <class V>
  GOBLIN_NUMERICS_INLINE static V sum(const V& x, const V& y) {
    return x + y;
  }
};

struct Truth {
  using Element = std::uint32_t;
  static constexpr int kParts = 1;
  template <class Isa, class V>
  GOBLIN_NUMERICS_INLINE static void step(V& left, V& right, const Element* a, const V& b0,
                                          const V& b1) {
    const V x = Isa::broadcast(*a);
    left |= x & b0;
    right |= x & b1;
  }
  template <class V>
  GOBLIN_NUMERICS_INLINE static V sum(const V& x, const V& y) {
    return x | y;
  }
};

template <class V>
GOBLIN_NUMERICS_INLINE V load_vector(const void* at) {
  V v;
  __builtin_memcpy(&v, at, sizeof v);
  return v;
}

GOBLIN_NUMERICS_INLINE float canonical_nan(float) {
  return numerics::bits_as<float>(numerics::kNanF32);
}
GOBLIN_NUMERICS_INLINE double canonical_nan(double) {
  return numerics::bits_as<double>(numerics::kNanF64);
}

template <class Isa, class T, class V>
GOBLIN_NUMERICS_INLINE V canonical_vector(const V& v) {
  if constexpr (__is_same(T, float) || __is_same(T, double)) {
    return v == v ? v : Isa::broadcast(canonical_nan(T{}));
  } else {
    return v;
  }
}

/// The tile of C is asked for twice: into the L2 cache at once, for it may come from memory, and
/// into the L1 cache so many steps before the end, or the panels would push it out again. 16 to 40
/// measured alike, 64 and more cost up to 5 % (f64, n = 2048).
inline constexpr std::int64_t kPrefetchSums = 24;

template <class Isa, class Family, int kRows, bool kFinal, class V>
GOBLIN_NUMERICS_INLINE void store_sums(const V (&sums)[kRows][2], char* out, std::int64_t row_bytes,
                                       std::int64_t second, bool add) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    for (int half = 0; half < 2; ++half) {
      char* const at = out + r * row_bytes + (half != 0 ? second : 0);
      V v = sums[r][half];
      if (add) v = Family::sum(load_vector<V>(at), v);
      if (kFinal) v = canonical_vector<Isa, typename Family::Element>(v);
      __builtin_memcpy(at, &v, sizeof v);
    }
  }
}

/// The upper `kRows` rows of a panel of Isa::kRows.
template <class Isa, class Family, int kRows>
void tile(const void* a_panel, const void* b_panel, std::int64_t steps, void* c, std::int64_t c_row,
          std::int64_t c_plane, Store store) {
  using T = typename Family::Element;
  using V = Vector<Isa, T>;
  constexpr int kWidth = kLanes<Isa, T>;
  const T* a = static_cast<const T*>(a_panel);
  const T* b = static_cast<const T*>(b_panel);
  char* const out = static_cast<char*>(c);
  const std::int64_t row_bytes = c_row * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t second =
      Family::kParts == 2 ? c_plane * static_cast<std::int64_t>(sizeof(T)) : Isa::kVectorBytes;
  for (int r = 0; r < kRows; ++r) {
    __builtin_prefetch(out + r * row_bytes, 0, 2);
    __builtin_prefetch(out + r * row_bytes + second, 0, 2);
  }
  V sums[kRows][2] = {};
  for (std::int64_t p = 0; p < steps; ++p) {
    if (p == steps - kPrefetchSums) {
      for (int r = 0; r < kRows; ++r) {
        __builtin_prefetch(out + r * row_bytes, 1);
        __builtin_prefetch(out + r * row_bytes + second, 1);
      }
    }
    const V b0 = load_vector<V>(b);
    const V b1 = load_vector<V>(b + kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      Family::template step<Isa, V>(sums[r][0], sums[r][1], a + r * Family::kParts, b0, b1);
    }
    a += Isa::kRows * Family::kParts;
    b += 2 * kWidth;
  }
  if (!store.final) {
    store_sums<Isa, Family, kRows, false>(sums, out, row_bytes, second, store.add);
  } else {
    store_sums<Isa, Family, kRows, true>(sums, out, row_bytes, second, store.add);
  }
}

/// Rows of the source that packing asks for ahead of time: each is in a page of its own, where the
/// hardware's prefetchers do not look.
inline constexpr std::int64_t kPrefetchSteps = 6;

/// One element of the source, widened; part 1 is the imaginary part.
template <class In, class T>
GOBLIN_NUMERICS_INLINE T element(const char* at, int part) {
  if constexpr (__is_same(In, bool)) {
    return *at != 0 ? 1 : 0;
  } else if constexpr (__is_same(In, numerics::F16) || __is_same(In, numerics::BF16)) {
    In half;
    __builtin_memcpy(&half, at, sizeof half);
    return numerics::widen(half);
  } else {
    In value;
    __builtin_memcpy(&value, at + part * static_cast<int>(sizeof(In)), sizeof value);
    return static_cast<T>(value);
  }
}

/// Contiguous lanes. Several panels at once: a row of the source is then read in long pieces, which
/// matters more than writing to few places.
template <class In, class Family, int kWidth, bool interleave, int kPanels>
GOBLIN_NUMERICS_INLINE void pack_contiguous(typename Family::Element* out, const char* source,
                                            std::int64_t step_stride, std::int64_t steps) {
  using T = typename Family::Element;
  constexpr int kParts = Family::kParts;
  constexpr std::int64_t kItem = static_cast<std::int64_t>(sizeof(In)) * kParts;
  constexpr int kLaneStep = interleave ? kParts : 1;
  constexpr int kPartStep = interleave ? 1 : kWidth;
  for (std::int64_t p = 0; p < steps; ++p) {
    const char* const row = source + p * step_stride;
    if (p + kPrefetchSteps < steps) {
      for (std::int64_t ahead = 0; ahead < kPanels * kWidth * kItem; ahead += 64) {
        __builtin_prefetch(row + kPrefetchSteps * step_stride + ahead);
      }
    }
    for (int panel = 0; panel < kPanels; ++panel) {
      T* const to = out + (panel * steps + p) * (kWidth * kParts);
      const char* const at = row + panel * kWidth * kItem;
      for (int part = 0; part < kParts; ++part) {
        for (int l = 0; l < kWidth; ++l) {
          to[l * kLaneStep + part * kPartStep] = element<In, T>(at + l * kItem, part);
        }
      }
    }
  }
}

/// `In` is the type of a part in memory. `interleave`: complex parts side by side (A), else apart.
template <class Isa, class In, class Family, int kWidth, bool interleave>
void pack(void* panels, const char* source, std::int64_t lane_stride, std::int64_t step_stride,
          std::int64_t lanes, std::int64_t steps) {
  using T = typename Family::Element;
  constexpr int kParts = Family::kParts;
  constexpr int kTogether = 4;
  constexpr std::int64_t kItem = static_cast<std::int64_t>(sizeof(In)) * kParts;
  constexpr int kLaneStep = interleave ? kParts : 1;
  constexpr int kPartStep = interleave ? 1 : kWidth;
  T* out = static_cast<T*>(panels);
  const std::int64_t panel = steps * kWidth * kParts;
  std::int64_t first = 0;
  if (lane_stride == kItem) {
    for (; lanes - first >= kTogether * kWidth; first += kTogether * kWidth) {
      pack_contiguous<In, Family, kWidth, interleave, kTogether>(out, source + first * kItem,
                                                                 step_stride, steps);
      out += kTogether * panel;
    }
    for (; lanes - first >= kWidth; first += kWidth) {
      pack_contiguous<In, Family, kWidth, interleave, 1>(out, source + first * kItem, step_stride,
                                                         steps);
      out += panel;
    }
  }
  if constexpr (kParts == 1 && sizeof(In) == sizeof(T) && Isa::template kTransposes<T>) {
    if (step_stride == kItem) {
      for (; lanes - first >= kWidth; first += kWidth) {
        Isa::template transpose<kWidth>(out, source + first * lane_stride, lane_stride, steps);
        out += panel;
      }
    }
  }
  for (; first < lanes; first += kWidth) {
    const char* const from = source + first * lane_stride;
    const std::int64_t left = lanes - first;
    const int width = left < kWidth ? static_cast<int>(left) : kWidth;
    for (std::int64_t p = 0; p < steps; ++p) {
      const char* const at = from + p * step_stride;
      for (int part = 0; part < kParts; ++part) {
        for (int l = 0; l < width; ++l) {
          out[l * kLaneStep + part * kPartStep] = element<In, T>(at + l * lane_stride, part);
        }
        for (int l = width; l < kWidth; ++l) out[l * kLaneStep + part * kPartStep] = T{};
      }
      out += kWidth * kParts;
    }
  }
}

template <class Isa, class In, class Family>
constexpr Kernel make_kernel() {
  constexpr int kColumns = 2 / Family::kParts * kLanes<Isa, typename Family::Element>;
  static_assert(Isa::kRows * 2 * Isa::kVectorBytes <= kMaxTileBytes);
  static_assert(Isa::kRows % Isa::kHeights == 0 && Isa::kHeights <= kMaxHeights);
  constexpr int kHeight = Isa::kRows / Isa::kHeights;
  Kernel kernel{Isa::kRows,
                kColumns,
                &pack<Isa, In, Family, Isa::kRows, true>,
                &pack<Isa, In, Family, kColumns, false>,
                {},
                kHeight};
  kernel.tiles[0] = &tile<Isa, Family, kHeight>;
  if constexpr (Isa::kHeights > 1) kernel.tiles[1] = &tile<Isa, Family, 2 * kHeight>;
  if constexpr (Isa::kHeights > 2) kernel.tiles[2] = &tile<Isa, Family, 3 * kHeight>;
  return kernel;
}

template <class Isa>
constexpr Level make_level(const char* name, const char* description) {
  Level level{name, description, {}};
  level.kernels[GOBLIN_BOOL] = make_kernel<Isa, bool, Truth>();
  level.kernels[GOBLIN_I8] = make_kernel<Isa, std::int8_t, Wrapping<std::uint32_t>>();
  level.kernels[GOBLIN_I16] = make_kernel<Isa, std::int16_t, Wrapping<std::uint32_t>>();
  level.kernels[GOBLIN_I32] = make_kernel<Isa, std::int32_t, Wrapping<std::uint32_t>>();
  level.kernels[GOBLIN_I64] = make_kernel<Isa, std::int64_t, Wrapping<std::uint64_t>>();
  level.kernels[GOBLIN_U8] = make_kernel<Isa, std::uint8_t, Wrapping<std::uint32_t>>();
  level.kernels[GOBLIN_U16] = make_kernel<Isa, std::uint16_t, Wrapping<std::uint32_t>>();
  level.kernels[GOBLIN_U32] = make_kernel<Isa, std::uint32_t, Wrapping<std::uint32_t>>();
  level.kernels[GOBLIN_U64] = make_kernel<Isa, std::uint64_t, Wrapping<std::uint64_t>>();
  level.kernels[GOBLIN_F16] = make_kernel<Isa, numerics::F16, Real<float>>();
  level.kernels[GOBLIN_BF16] = make_kernel<Isa, numerics::BF16, Real<float>>();
  level.kernels[GOBLIN_F32] = make_kernel<Isa, float, Real<float>>();
  level.kernels[GOBLIN_F64] = make_kernel<Isa, double, Real<double>>();
  level.kernels[GOBLIN_C64] = make_kernel<Isa, float, Parts<float>>();
  level.kernels[GOBLIN_C128] = make_kernel<Isa, double, Parts<double>>();
  return level;
}

}  // namespace goblin::backends::cpu
