// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/testing/lies/bound.hpp"

#include <algorithm>
#include <cmath>

#include "tests/testing/lies/elements.hpp"

namespace goblin::testing {
namespace {

constexpr double kKappa = kLeastKappa;
constexpr double kCalibration = 12;
constexpr double kRoundingKappa = 6;
const double kRms = std::sqrt(7.0 / 3.0);

struct Units {
  double sum, tiny, out, out_tiny;
};

Units units_of(const matmul::Product& p) {
  const bool wide = p.a.dtype() == GOBLIN_F64 || p.a.dtype() == GOBLIN_C128;
  Units units{wide ? 0x1p-53 : 0x1p-24, wide ? 0x1p-1074 : 0x1p-149, 0, 0};
  if (p.c.dtype() == GOBLIN_F16) units.out = 0x1p-11, units.out_tiny = 0x1p-25;
  if (p.c.dtype() == GOBLIN_BF16) units.out = 0x1p-9, units.out_tiny = 0x1p-134;
  return units;
}

/// Of one element: complex numbers have two parts.
double square(const Tensor& t, std::int64_t i, std::int64_t j) {
  const double re = element(t, i, j);
  if (!is_complex(t.dtype())) return re * re;
  goblin_tensor_v1 imaginary = t.raw();
  imaginary.data = t.bytes() + t.item_size() / 2;
  const double im = element(Tensor(imaginary), i, j);
  return re * re + im * im;
}

/// Squares of the norms: of A's row, of B's block, of C's row in the block.
struct Squares {
  double a, b, c;
};

double formula(const matmul::Product& p, const Squares& squares, std::int64_t width) {
  const Units units = units_of(p);
  const double near_zero = static_cast<double>(p.a.dim(1)) * units.tiny + units.out_tiny;
  return kKappa * units.sum * kRms * std::sqrt(squares.a) * std::sqrt(squares.b) +
         kKappa * kRms * std::sqrt(static_cast<double>(width)) * near_zero +
         kRoundingKappa * kRms * units.out * std::sqrt(squares.c);
}

double row_squares(const Tensor& t, std::int64_t i, std::int64_t begin, std::int64_t end) {
  double sum = 0;
  for (std::int64_t j = begin; j < end; ++j) sum += square(t, i, j);
  return sum;
}

double block_squares(const Tensor& t, std::int64_t begin, std::int64_t end) {
  double sum = 0;
  for (std::int64_t i = 0; i < t.dim(0); ++i) sum += row_squares(t, i, begin, end);
  return sum;
}

}  // namespace

std::vector<std::int64_t> column_blocks(const matmul::Product& product) {
  const std::int64_t n = product.c.dim(1);
  const bool parts = is_complex(product.a.dtype());
  std::int64_t blocks = std::min<std::int64_t>(n / 512, 32);
  if (blocks < 4) blocks = parts ? 4 : 8;
  blocks = std::min(n, (blocks + 3) / 4 * 4);
  const std::int64_t step = n >= 64 * blocks ? 8 : 1;
  std::vector<std::int64_t> begins;
  for (std::int64_t q = 0; q < blocks; ++q) begins.push_back(n * q / blocks / step * step);
  begins.push_back(n);
  return begins;
}

std::size_t block_of(const std::vector<std::int64_t>& begins, std::int64_t j) {
  const auto after = std::upper_bound(begins.begin(), begins.end() - 1, j);
  return static_cast<std::size_t>(after - begins.begin()) - 1;
}

std::vector<std::vector<double>> bounds(const matmul::Product& p) {
  const std::vector<std::int64_t> begins = column_blocks(p);
  std::vector<double> b;
  for (std::size_t q = 0; q + 1 < begins.size(); ++q) {
    b.push_back(block_squares(p.b, begins[q], begins[q + 1]));
  }
  std::vector<std::vector<double>> out;
  for (std::int64_t i = 0; i < p.c.dim(0); ++i) {
    const double a = row_squares(p.a, i, 0, p.a.dim(1));
    std::vector<double> row;
    for (std::size_t q = 0; q < b.size(); ++q) {
      const double c = row_squares(p.c, i, begins[q], begins[q + 1]);
      row.push_back(formula(p, {a, b[q], c}, begins[q + 1] - begins[q]));
    }
    out.push_back(std::move(row));
  }
  return out;
}

double bound_at(const matmul::Product& p, std::int64_t i, std::int64_t j) {
  const std::vector<std::int64_t> begins = column_blocks(p);
  const std::size_t q = block_of(begins, j);
  const Squares squares{row_squares(p.a, i, 0, p.a.dim(1)),
                        block_squares(p.b, begins[q], begins[q + 1]),
                        row_squares(p.c, i, begins[q], begins[q + 1])};
  return formula(p, squares, begins[q + 1] - begins[q]);
}

double largest_kappa(const matmul::Product& p) {
  const std::vector<std::int64_t> begins = column_blocks(p);
  const std::int64_t k = p.a.dim(1);
  const std::vector<double> a = elements(p.a);
  const std::vector<double> b = elements(p.b);
  const double unit = units_of(p).sum;
  double worst = 0;
  for (std::size_t q = 0; q + 1 < begins.size(); ++q) {
    const double width = static_cast<double>(begins[q + 1] - begins[q]);
    const double right = std::sqrt(block_squares(p.b, begins[q], begins[q + 1]) / width);
    for (std::int64_t i = 0; i < p.c.dim(0); ++i) {
      const double scale = unit * std::sqrt(row_squares(p.a, i, 0, k)) * right;
      for (std::int64_t j = begins[q]; j < begins[q + 1]; ++j) {
        double sum = 0;
        for (std::int64_t t = 0; t < k; ++t) {
          sum += a[static_cast<std::size_t>(i * k + t)] *
                 b[static_cast<std::size_t>(t * p.c.dim(1) + j)];
        }
        const double ratio = std::fabs(element(p.c, i, j) - sum) / scale;
        if (std::isfinite(ratio)) worst = std::max(worst, ratio);
      }
    }
  }
  return std::max(kKappa, kCalibration * worst);
}

}  // namespace goblin::testing
