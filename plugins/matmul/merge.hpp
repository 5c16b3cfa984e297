// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Copies and sums on windows of C. Any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "goblin/tensor.hpp"

namespace goblin::matmul {

/// Copies elements; types and shapes are equal.
void copy_elements(const Tensor& to, const Tensor& from);
void zero_elements(const Tensor& to);

/// Sums of chunks [chunks, rows, columns] that stand at (row, column) of C's window.
struct PartialSums {
  Tensor sums;
  std::int64_t row = 0;
  std::int64_t column = 0;
};

/// c[rows, columns] = the chunk sums, added in the order given, which is that of ascending k for
/// each element; then rounded to c's dtype as the canonical product does.
Result<void> merge_sums(const Tensor& c, const std::vector<PartialSums>& parts);

}  // namespace goblin::matmul
