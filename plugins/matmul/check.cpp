// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "plugins/matmul/check.hpp"

#include <algorithm>

#include "plugins/matmul/recompute.hpp"

namespace goblin::matmul {
namespace {

// Up to so many terms a product is recomputed: a millisecond.
constexpr double kSmallTerms = 1 << 19;
// Freivalds passes over each operand once, at about so many terms' cost an element: a product
// whose operands are larger than this share of its terms is recomputed instead.
constexpr double kPassTerms = 32;

bool cheaper_whole(double m, double n, double k) {
  return m * n * k <= kSmallTerms || kPassTerms * (1 / m + 1 / n + 1 / k) > 1;
}

bool is_integer(goblin_dtype_v1 dtype) { return dtype >= GOBLIN_I8 && dtype <= GOBLIN_U64; }

}  // namespace

Result<Verdict> check_product(const TaskView& task, const Device& device, Seed seed) {
  const std::int64_t products = task.products();
  if (products == 0 || task.m() == 0 || task.n() == 0) return Verdict::kAccept;
  if (device.fast()) return Verdict::kAbstain;
  ChaCha random(seed);
  const std::int64_t samples = std::max<std::int64_t>(1, (kSamples + products - 1) / products);
  bool abstained = false;
  for (std::int64_t i = 0; i < products; ++i) {
    const Product product = task.product(i);
    const auto terms = product.a.dim(1);
    Verdict verdict = Verdict::kAbstain;
    if (terms == 0 || cheaper_whole(static_cast<double>(task.m()), static_cast<double>(task.n()),
                                    static_cast<double>(terms))) {
      GOBLIN_TRY(const bool right, exactly_right(product, {0, task.m()}, {0, task.n()}, device));
      verdict = right ? Verdict::kAccept : Verdict::kReject;
    } else if (is_integer(task.in())) {
      GOBLIN_TRY(verdict, check_integers(product, random, device));
    } else if (task.in() != GOBLIN_BOOL) {
      GOBLIN_TRY(verdict, check_floats(product, samples, random, device));
    }
    if (verdict == Verdict::kReject) return verdict;
    abstained = abstained || verdict == Verdict::kAbstain;
  }
  return abstained ? Verdict::kAbstain : Verdict::kAccept;
}

}  // namespace goblin::matmul
