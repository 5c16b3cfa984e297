// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/validation/credibility.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace goblin::validation {

double doubt(std::uint64_t passed, const Trust& trust) {
  const double f = trust.faulty;
  if (passed == 0) return f;
  return std::min(f, f / ((1 - f) * double(passed) * std::numbers::e));
}

double doubt_of_equal(std::span<const double> doubts) {
  if (doubts.empty()) return 1;
  double wrong = 1;
  double right = 1;
  for (const double d : doubts) {
    wrong *= d;
    right *= 1 - d;
  }
  return wrong / (wrong + right);
}

bool too_new(double doubt, const Trust& trust) {
  const std::array<double, 2> two{doubt, doubt};
  return !(doubt_of_equal(two) <= trust.target_error);
}

std::uint32_t batch_size(std::uint64_t passed, const Trust& trust) {
  const double most = std::max(1.0, std::floor(1 / trust.floor + 1e-9));
  return static_cast<std::uint32_t>(std::min(most, 1 + std::floor(double(passed) / 2)));
}

}  // namespace goblin::validation
