// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What the check of a product of floats tolerates, as an attacker who has read docs/matmul.md
// computes it from the inputs alone.
#pragma once

#include <cstdint>
#include <vector>

#include "plugins/matmul/task.hpp"

namespace goblin::testing {

/// Blocks of columns of C: first columns, and n at the end.
std::vector<std::int64_t> column_blocks(const matmul::Product& product);
/// Which of them holds column j.
std::size_t block_of(const std::vector<std::int64_t>& begins, std::int64_t j);

/// |D − E| of row i, and of the block of columns that holds j, may be so large: κ·u·ρ·‖A_i‖·‖B_q‖
/// and what near zeros and rounding to 16 bits add, with κ = 32. The check's own κ may be larger
/// where honest entries need it.
inline constexpr double kLeastKappa = 32;
double bound_at(const matmul::Product& product, std::int64_t i, std::int64_t j);

/// The same for all rows and blocks: bound[row][block].
std::vector<std::vector<double>> bounds(const matmul::Product& product);

/// The largest κ that the check can arrive at for a product of real numbers with the right C: 12
/// times the largest error of any entry, or 32. Takes as long as the product.
double largest_kappa(const matmul::Product& product);

}  // namespace goblin::testing
