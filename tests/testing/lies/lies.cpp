// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/testing/lies/lies.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "goblin/numerics/dot.hpp"
#include "plugins/matmul/chacha.hpp"
#include "plugins/matmul/check.hpp"
#include "tests/testing/lies/arithmetic.hpp"
#include "tests/testing/lies/elements.hpp"

namespace goblin::testing {
namespace {

using matmul::Product;

std::int64_t below(Scene& s, std::int64_t bound) {
  return std::uniform_int_distribution<std::int64_t>(0, bound - 1)(s.random);
}
double sign(Scene& s) { return (s.random() & 1) != 0 ? 1 : -1; }

struct At {
  std::int64_t i, j;
};
double tolerated(const Scene& s, std::int64_t i, std::int64_t j) {
  return bound_at(s.product, i, j) * s.kappa / kLeastKappa;
}
At anywhere(Scene& s) { return {below(s, s.product.c.dim(0)), below(s, s.product.c.dim(1))}; }
void add(const Product& p, At at, double error) {
  set_element(p.c, at.i, at.j, element(p.c, at.i, at.j) + error);
}

/// A row and two columns of one block, none where every block is a single column.
struct Pair {
  std::int64_t i, j, l;
};
Pair pair_in_block(Scene& s) {
  const std::vector<std::int64_t> begins = column_blocks(s.product);
  const At first = anywhere(s);
  const std::size_t q = block_of(begins, first.j);
  const std::int64_t width = begins[q + 1] - begins[q];
  if (width < 2) return {first.i, first.j, first.j};
  const std::int64_t step = 1 + below(s, width - 1);
  return {first.i, first.j, begins[q] + (first.j - begins[q] + step) % width};
}

template <class Change>
void every(const Product& p, Change change) {
  for (std::int64_t i = 0; i < p.c.dim(0); ++i) {
    for (std::int64_t j = 0; j < p.c.dim(1); ++j) {
      set_element(p.c, i, j, change(element(p.c, i, j), i, j));
    }
  }
}

constexpr double kWide = 64;  // times the bound: a wide lie, which still escapes when it cancels

void ulp(Scene& s) {
  const At at = anywhere(s);
  *place(s.product.c, at.i, at.j) ^= std::byte{1};  // little endian: the last place
}
void twice_bound(Scene& s) {
  const At at = anywhere(s);
  add(s.product, at, 2 * tolerated(s, at.i, at.j) * sign(s));
}
void huge(Scene& s) {
  const At at = anywhere(s);
  const double x = element(s.product.c, at.i, at.j);
  set_element(s.product.c, at.i, at.j, x < 0 ? x * 1e4 - 100 : x * 1e4 + 100);
}
void corners(Scene& s) {
  const Pair p = pair_in_block(s);
  const std::int64_t other =
      (p.i + 1 + below(s, std::max<std::int64_t>(s.product.c.dim(0) - 1, 1))) % s.product.c.dim(0);
  const double error = kWide * std::max(tolerated(s, p.i, p.j), tolerated(s, other, p.j));
  add(s.product, {p.i, p.j}, error);
  add(s.product, {p.i, p.l}, -error);
  add(s.product, {other, p.j}, -error);
  add(s.product, {other, p.l}, error);
}
void low_rank(Scene& s) {
  const auto centred = [&](std::int64_t length) {
    std::vector<double> v(static_cast<std::size_t>(length));
    std::normal_distribution<double> normal;
    for (double& x : v) x = normal(s.random);
    const double mean = std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(length);
    for (double& x : v) x -= mean;
    return v;
  };
  const std::vector<double> rows = centred(s.product.c.dim(0));
  const std::vector<double> columns = centred(s.product.c.dim(1));
  const double size = kWide * tolerated(s, 0, 0);
  every(s.product, [&](double x, std::int64_t i, std::int64_t j) {
    return x + size * rows[static_cast<std::size_t>(i)] * columns[static_cast<std::size_t>(j)];
  });
}

/// The random vector of a check whose seed is known, as plugins/matmul/float_check.cpp draws it.
std::vector<double> vector_of(const Product& p, const std::array<std::uint8_t, 32>& seed) {
  matmul::ChaCha random{std::span<const std::uint8_t, 32>(seed)};
  for (std::int64_t i = 0; i < matmul::kSamples; ++i) {
    (void)random.below(static_cast<std::uint64_t>(p.c.dim(0)));
    (void)random.below(static_cast<std::uint64_t>(p.c.dim(1)));
  }
  std::vector<double> r(static_cast<std::size_t>(p.c.dim(1)));
  for (double& x : r) x = random.signed_unit();
  return r;
}
void leaked_r(Scene& s) {
  const std::vector<double> r = vector_of(s.product, s.leaked);
  const Pair p = pair_in_block(s);
  const double error = kWide * tolerated(s, p.i, p.j);
  add(s.product, {p.i, p.j}, error / r[static_cast<std::size_t>(p.j)]);
  add(s.product, {p.i, p.l}, -error / r[static_cast<std::size_t>(p.l)]);
}

void nan(Scene& s) {
  const At at = anywhere(s);
  set_element(s.product.c, at.i, at.j, std::numeric_limits<double>::quiet_NaN());
}
void infinity(Scene& s) {
  const At at = anywhere(s);
  set_element(s.product.c, at.i, at.j, std::numeric_limits<double>::infinity());
}
void minus_zero(Scene& s) {
  every(s.product, [](double x, std::int64_t, std::int64_t) { return x == 0 ? -x : x; });
}
void flushed(Scene& s) {
  const goblin_dtype_v1 dtype = s.product.c.dtype();
  double smallest = 0x1p-126;  // normal number of f32 and bf16
  if (dtype == GOBLIN_F16) smallest = 0x1p-14;
  if (dtype == GOBLIN_F64 || dtype == GOBLIN_C128) smallest = 0x1p-1022;
  every(s.product, [&](double x, std::int64_t, std::int64_t) {
    return std::fabs(x) < smallest ? std::copysign(0.0, x) : x;
  });
}
void nan_payload(Scene& s) {
  const Product& p = s.product;
  for (std::int64_t i = 0; i < p.c.dim(0); ++i) {
    for (std::int64_t j = 0; j < p.c.dim(1); ++j) {
      if (std::isnan(element(p.c, i, j))) *place(p.c, i, j) ^= std::byte{1};
    }
  }
}

void tf32(Scene& s) { multiply(s.product, Operands::kTf32); }
void bf16(Scene& s) { multiply(s.product, Operands::kBf16); }
void fp8(Scene& s) { multiply(s.product, Operands::kFp8); }
void other_order(Scene& s) { multiply(s.product, Operands::kAsTheyAre); }
void drop_block(Scene& s) {
  const std::int64_t k = s.product.a.dim(1);
  const std::int64_t block = numerics::kBlock;
  multiply(s.product, Operands::kAsTheyAre, k > block ? (k - 1) / block * block : k / 2);
}

void bias(Scene& s) {
  every(s.product, [](double x, std::int64_t, std::int64_t) { return x * (1 + 1e-5); });
}
/// So little that the errors of a row's block stay below its bound, however r falls: |r| < 2.
void add_below_bound(Scene& s, double share) {
  const Product& p = s.product;
  const std::vector<std::int64_t> begins = column_blocks(p);
  const std::vector<std::vector<double>> bound = bounds(p);
  std::uniform_real_distribution<double> unit(0, 1);
  every(p, [&](double x, std::int64_t i, std::int64_t j) {
    if (unit(s.random) >= share) return x;
    const std::size_t q = block_of(begins, j);
    const double width = static_cast<double>(begins[q + 1] - begins[q]);
    return x + 0.3 * bound[static_cast<std::size_t>(i)][q] / std::max(1.0, width * share);
  });
}
void bias_below_bound(Scene& s) { add_below_bound(s, 1); }
void few_below_bound(Scene& s) { add_below_bound(s, 0.002); }

void zero_row(Scene& s) {
  const std::int64_t row = below(s, s.product.c.dim(0));
  for (std::int64_t j = 0; j < s.product.c.dim(1); ++j) set_element(s.product.c, row, j, 0);
}
void transposed(Scene& s) {
  // What somebody stores who takes rows for columns: the elements of Cᵀ, row after row.
  const Product& p = s.product;
  const std::vector<double> right = elements(p.c);
  const std::int64_t m = p.c.dim(0);
  const std::int64_t n = p.c.dim(1);
  std::vector<double> wrong;
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < m; ++i)
      wrong.push_back(right[static_cast<std::size_t>(i * n + j)]);
  }
  set_elements(p.c, wrong);
}
void permuted(Scene& s) {
  std::vector<double> wrong = elements(s.product.c);
  std::rotate(wrong.begin(), wrong.begin() + s.product.c.dim(1), wrong.end());
  set_elements(s.product.c, wrong);
}
void columns_swapped(Scene& s) {
  const Product& p = s.product;
  const Pair at = pair_in_block(s);
  for (std::int64_t i = 0; i < p.c.dim(0); ++i) {
    const double left = element(p.c, i, at.j);
    set_element(p.c, i, at.j, element(p.c, i, at.l));
    set_element(p.c, i, at.l, left);
  }
}
void zeros(Scene& s) {
  every(s.product, [](double, std::int64_t, std::int64_t) { return 0.0; });
}
void constant(Scene& s) {
  every(s.product, [](double, std::int64_t, std::int64_t) { return 3.0; });
}
void noise(Scene& s) {
  std::uniform_real_distribution<double> unit(-100, 100);
  every(s.product, [&](double, std::int64_t, std::int64_t) { return unit(s.random); });
}
void bit_flip(Scene& s) {
  const At at = anywhere(s);
  const auto bit =
      static_cast<std::size_t>(below(s, static_cast<std::int64_t>(8 * s.product.c.item_size())));
  place(s.product.c, at.i, at.j)[bit / 8] ^= std::byte{1} << (bit % 8);
}

constexpr Lie kLies[] = {
    {"ulp", 1, "one element is off in its last place", ulp},
    {"twice-bound", 1, "one element is off by twice what the check tolerates", twice_bound},
    {"huge", 1, "one element is off hugely", huge},
    {"low-rank", 2, "an error of rank 1 whose rows and columns sum to zero", low_rank},
    {"corners", 2, "four elements whose errors cancel in rows and columns", corners},
    {"leaked-r", 3, "an error that a leaked random vector does not see", leaked_r},
    {"nan", 6, "one element is NaN", nan},
    {"infinity", 6, "one element is infinite", infinity},
    {"minus-zero", 7, "zeros have the other sign", minus_zero},
    {"flushed", 7, "subnormal results are zero", flushed},
    {"nan-payload", 7, "NaN results have another payload", nan_payload},
    {"tf32", 8, "operands are rounded to 10 bits", tf32},
    {"bf16", 8, "operands are rounded to bf16", bf16},
    {"fp8", 8, "operands are rounded to fp8 (E4M3)", fp8},
    {"other-order", 8, "no fused operations, no blocks", other_order},
    {"drop-block", 9, "the last block of k is left out", drop_block},
    {"bias", 10, "every element is a little too large (1 + 1e-5)", bias},
    {"bias-below-bound", 10, "every element is off, the check's sums stay below their bound",
     bias_below_bound},
    {"few-below-bound", 10, "the same of one element in 500", few_below_bound},
    {"zero-row", 13, "one row is zero", zero_row},
    {"transposed", 14, "rows for columns", transposed},
    {"permuted", 14, "every row stands where the one before it belongs", permuted},
    {"columns-swapped", 14, "two columns have changed places", columns_swapped},
    {"zeros", 15, "all zeros", zeros},
    {"constant", 15, "all the same", constant},
    {"noise", 15, "random numbers", noise},
    {"bit-flip", 31, "one bit of one element has flipped", bit_flip},
};

}  // namespace

std::span<const Lie> lies() { return kLies; }

const Lie* find_lie(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kLies), std::end(kLies),
                                         [&](const Lie& lie) { return lie.name == name; });
  return found == std::end(kLies) ? nullptr : found;
}

}  // namespace goblin::testing
