// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "gemm_accuracy.hpp"

#include <cmath>
#include <random>

namespace goblin::bench {
namespace {

__extension__ typedef __float128 Quad;

template <class T, class Exact>
double error_of(std::int64_t n, const T* a, const T* b, const T* c, double unit) {
  constexpr int kSamples = 2000;
  std::mt19937_64 random(7);
  double squares = 0;
  for (int sample = 0; sample < kSamples; ++sample) {
    const auto i = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
    const auto j = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
    Exact exact = 0;
    double size = 0;
    for (std::int64_t p = 0; p < n; ++p) {
      const Exact term = static_cast<Exact>(a[i * n + p]) * static_cast<Exact>(b[p * n + j]);
      exact += term;
      size += std::fabs(static_cast<double>(term));
    }
    const auto off = static_cast<double>(static_cast<Exact>(c[i * n + j]) - exact);
    squares += (off / size) * (off / size);
  }
  return std::sqrt(squares / kSamples) / unit;
}

}  // namespace

double rounding_error(Real real, std::int64_t n, const void* a, const void* b, const void* c) {
  if (real == Real::kF32) {
    // Products of floats are exact in double; the sum's own error is 2^-29 of what is measured.
    return error_of<float, double>(n, static_cast<const float*>(a), static_cast<const float*>(b),
                                   static_cast<const float*>(c), 0x1p-24);
  }
  return error_of<double, Quad>(n, static_cast<const double*>(a), static_cast<const double*>(b),
                                static_cast<const double*>(c), 0x1p-53);
}

}  // namespace goblin::bench
