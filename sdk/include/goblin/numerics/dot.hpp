// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The canonical dot product: the definition of every element of operator "matmul" version 1.
//
// With k ascending: a block sum starts at +0 and takes one fused multiply-add per term, over
// kBlock terms; a chunk sum starts as its first block's sum and adds the others in order, over
// kChunk terms; the dot product starts as the first chunk's sum and adds the others in order. No
// terms give +0. By type of the elements:
//   float, double         as it stands, in that type
//   F16, BF16             widened exactly, then as float; rounded once at the end, if at all
//   Complex<T>            on parts, per term and in this order:
//                         re = fma(a.re, b.re, re), re = fma(-a.im, b.im, re),
//                         im = fma(a.re, b.im, im), im = fma(a.im, b.re, im)
//   integers              modulo 2^n;  bool: OR of ANDs (a byte other than 0 counts as 1)
// A NaN result (of a complex number: each part by itself) is the canonical NaN.
//
// Include this only where code is built for the oldest CPU: it picks the hardware's instruction at
// run time by itself. Any thread; round to nearest, no flush to zero.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "goblin/numerics/canonical.hpp"
#include "goblin/numerics/fma.hpp"
#include "goblin/numerics/half.hpp"

#if defined(__x86_64__) || defined(__i386__)
#define GOBLIN_NUMERICS_CHOOSES_FMA 1
#else
#define GOBLIN_NUMERICS_CHOOSES_FMA 0
#endif

namespace goblin::numerics {

/// Laid out as NumPy's complex64 and complex128, and as GOBLIN_C64 and GOBLIN_C128.
template <class T>
struct Complex {
  T re;
  T im;
};

namespace detail {

template <class T>
struct IsComplex : std::false_type {};
template <class T>
struct IsComplex<Complex<T>> : std::true_type {};
template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, F16> || std::is_same_v<T, BF16>;

template <class T>
struct SumOf {
  using type = std::conditional_t<std::is_same_v<T, bool>, bool,
                                  std::conditional_t<std::is_integral_v<T>, std::uint64_t,
                                                     std::conditional_t<kIsHalf<T>, float, T>>>;
};

template <class T>
GOBLIN_NUMERICS_INLINE T load(const char* at) {
  if constexpr (std::is_same_v<T, bool>) {
    return *at != 0;
  } else {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
}

template <bool hardware, class T>
GOBLIN_NUMERICS_INLINE T fused(T x, T y, T z) {
  if constexpr (!hardware) {
    return soft_fma(x, y, z);
  } else if constexpr (std::is_same_v<T, float>) {
    return __builtin_fmaf(x, y, z);
  } else {
    return __builtin_fma(x, y, z);
  }
}

template <bool hardware, class In, class Sum>
GOBLIN_NUMERICS_INLINE void add_term(Sum& sum, In a, In b) {
  if constexpr (std::is_same_v<In, bool>) {
    sum = sum || (a && b);
  } else if constexpr (std::is_integral_v<In>) {
    sum += static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b);
  } else if constexpr (kIsHalf<In>) {
    sum = fused<hardware>(widen(a), widen(b), sum);
  } else if constexpr (IsComplex<In>::value) {
    sum.re = fused<hardware>(a.re, b.re, sum.re);
    sum.re = fused<hardware>(-a.im, b.im, sum.re);
    sum.im = fused<hardware>(a.re, b.im, sum.im);
    sum.im = fused<hardware>(a.im, b.re, sum.im);
  } else {
    sum = fused<hardware>(a, b, sum);
  }
}

template <class Sum>
GOBLIN_NUMERICS_INLINE void add_sum(Sum& total, Sum next) {
  if constexpr (std::is_same_v<Sum, bool>) {
    total = total || next;
  } else if constexpr (IsComplex<Sum>::value) {
    total.re += next.re;
    total.im += next.im;
  } else {
    total += next;
  }
}

template <bool hardware, class In, class Sum = typename SumOf<In>::type>
GOBLIN_NUMERICS_INLINE Sum chunk_sum(const char* a, std::int64_t a_stride, const char* b,
                                     std::int64_t b_stride, std::int64_t terms) {
  Sum chunk{};
  for (std::int64_t start = 0; start < terms; start += kBlock) {
    const std::int64_t end = start + kBlock < terms ? start + kBlock : terms;
    Sum block{};
    for (std::int64_t p = start; p < end; ++p) {
      add_term<hardware>(block, load<In>(a + p * a_stride), load<In>(b + p * b_stride));
    }
    if (start == 0) {
      chunk = block;
    } else {
      add_sum(chunk, block);
    }
  }
  return chunk;
}

#if GOBLIN_NUMERICS_CHOOSES_FMA
template <class In>
[[gnu::target("fma")]] inline typename SumOf<In>::type chunk_sum_fma(const char* a,
                                                                     std::int64_t a_stride,
                                                                     const char* b,
                                                                     std::int64_t b_stride,
                                                                     std::int64_t terms) {
  return chunk_sum<true, In>(a, a_stride, b, b_stride, terms);
}
#endif

}  // namespace detail

/// float for float and the halves, uint64_t (wrapped) for integers, else the type itself.
template <class In>
using CanonicalSum = typename detail::SumOf<In>::type;

/// Sum of one chunk: `terms` ≤ kChunk. Strides are in bytes, of any sign; no alignment is needed.
template <class In>
inline CanonicalSum<In> canonical_chunk(const void* a, std::int64_t a_stride, const void* b,
                                        std::int64_t b_stride, std::int64_t terms) {
  const char* const x = static_cast<const char*>(a);
  const char* const y = static_cast<const char*>(b);
#if GOBLIN_NUMERICS_CHOOSES_FMA
  if (__builtin_cpu_supports("fma")) {
    return detail::chunk_sum_fma<In>(x, a_stride, y, b_stride, terms);
  }
  return detail::chunk_sum<false, In>(x, a_stride, y, b_stride, terms);
#else
  return detail::chunk_sum<true, In>(x, a_stride, y, b_stride, terms);
#endif
}

/// The whole sum, before `canonical_value` turns it into an element.
template <class In>
inline CanonicalSum<In> canonical_sum(const void* a, std::int64_t a_stride, const void* b,
                                      std::int64_t b_stride, std::int64_t terms) {
  CanonicalSum<In> total{};
  for (std::int64_t start = 0; start < terms; start += kChunk) {
    const std::int64_t count = terms - start < kChunk ? terms - start : kChunk;
    const auto chunk =
        canonical_chunk<In>(static_cast<const char*>(a) + start * a_stride, a_stride,
                            static_cast<const char*>(b) + start * b_stride, b_stride, count);
    if (start == 0) {
      total = chunk;
    } else {
      detail::add_sum(total, chunk);
    }
  }
  return total;
}

/// A sum as an element of the output: rounded to nearest even, wrapped, NaN made canonical.
template <class Out, class Sum>
GOBLIN_NUMERICS_INLINE Out canonical_value(Sum sum) {
  if constexpr (std::is_same_v<Out, F16>) {
    return round_to_f16(sum);
  } else if constexpr (std::is_same_v<Out, BF16>) {
    return round_to_bf16(sum);
  } else if constexpr (std::is_floating_point_v<Out>) {
    return canonical(sum);
  } else if constexpr (detail::IsComplex<Out>::value) {
    return {canonical(sum.re), canonical(sum.im)};
  } else {
    return static_cast<Out>(sum);
  }
}

/// Element of C = A·B from a row of A and a column of B of `terms` elements each. Out is In, or
/// float for F16 and BF16, or int32_t for int8_t. Strides as for `canonical_chunk`.
template <class In, class Out = In>
inline Out canonical_dot(const void* a, std::int64_t a_stride, const void* b, std::int64_t b_stride,
                         std::int64_t terms) {
  return canonical_value<Out>(canonical_sum<In>(a, a_stride, b, b_stride, terms));
}

}  // namespace goblin::numerics
