// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/testing/lies/arithmetic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "goblin/numerics/half.hpp"
#include "tests/testing/lies/elements.hpp"

namespace goblin::testing {
namespace {

double rounded(double x, Operands operands) {
  const auto single = static_cast<float>(x);
  switch (operands) {
    case Operands::kTf32:
      return static_cast<double>(to_tf32(single));
    case Operands::kBf16:
      return static_cast<double>(numerics::widen(numerics::round_to_bf16(single)));
    case Operands::kFp8:
      return static_cast<double>(to_fp8(single));
    default:
      return x;
  }
}

template <class T>
std::vector<T> operand(const Tensor& t, Operands operands) {
  std::vector<T> out;
  for (const double x : elements(t)) out.push_back(static_cast<T>(rounded(x, operands)));
  return out;
}

template <class T>
void multiply_as(const matmul::Product& p, Operands operands, std::int64_t terms) {
  const auto m = static_cast<std::size_t>(p.c.dim(0));
  const auto n = static_cast<std::size_t>(p.c.dim(1));
  const auto k = static_cast<std::size_t>(p.a.dim(1));
  const auto used = terms < 0 ? k : static_cast<std::size_t>(terms);
  const std::vector<T> a = operand<T>(p.a, operands);
  const std::vector<T> b = operand<T>(p.b, operands);
  std::vector<T> row(n);
  for (std::size_t i = 0; i < m; ++i) {
    std::fill(row.begin(), row.end(), T{0});
    for (std::size_t t = 0; t < used; ++t) {
      const T factor = a[i * k + t];
      for (std::size_t j = 0; j < n; ++j) row[j] += factor * b[t * n + j];
    }
    for (std::size_t j = 0; j < n; ++j) {
      set_element(p.c, static_cast<std::int64_t>(i), static_cast<std::int64_t>(j),
                  static_cast<double>(row[j]));
    }
  }
}

}  // namespace

float to_tf32(float x) {
  if (!std::isfinite(x)) return x;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0xfffU + ((bits >> 13) & 1U)) & 0xffffe000U);
}

float to_fp8(float x) {
  if (std::isnan(x) || x == 0) return x;
  constexpr float kLargest = 448;
  constexpr int kSmallestExponent = -6;
  constexpr int kMantissaBits = 3;
  int exponent = 0;
  (void)std::frexp(x, &exponent);
  const int unit = std::max(exponent - 1, kSmallestExponent) - kMantissaBits;
  const float near = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
  return std::clamp(near, -kLargest, kLargest);
}

void multiply(const matmul::Product& product, Operands operands, std::int64_t terms) {
  const goblin_dtype_v1 in = product.a.dtype();
  const bool wide = in == GOBLIN_F64 || in == GOBLIN_C128 || in < GOBLIN_F16;
  if (wide) {
    multiply_as<double>(product, operands, terms);
  } else {
    multiply_as<float>(product, operands, terms);
  }
}

}  // namespace goblin::testing
