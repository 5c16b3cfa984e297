// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Does a count fit a stated probability?
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace goblin::test {

/// P(X ≥ count) of a binomial X; exact but for rounding.
inline double at_least(std::int64_t count, std::int64_t trials, double p) {
  if (count <= 0 || p >= 1) return 1;
  if (p <= 0) return 0;
  const auto n = static_cast<double>(trials);
  double sum = 0;
  for (std::int64_t i = count; i <= trials; ++i) {
    const auto x = static_cast<double>(i);
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(x + 1) - std::lgamma(n - x + 1) +
                    x * std::log(p) + (n - x) * std::log1p(-p));
  }
  return std::min(sum, 1.0);
}

/// P(X ≤ count).
inline double at_most(std::int64_t count, std::int64_t trials, double p) {
  return at_least(trials - count, trials, 1 - p);
}

}  // namespace goblin::test
