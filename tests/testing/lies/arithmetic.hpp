// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The product in other arithmetic than the canonical one, as a host computes it that saves work.
#pragma once

#include <cstdint>

#include "plugins/matmul/task.hpp"

namespace goblin::testing {

enum class Operands : std::uint8_t {
  kAsTheyAre,  ///< f32 (f64 for wide types)
  kTf32,       ///< 10 bits of mantissa
  kBf16,       ///< 7
  kFp8,        ///< E4M3: 3; beyond 448: 448
};

/// Overwrites C: operands rounded, then one multiplication and one addition a term, k ascending,
/// without blocks; only the first `terms` of k (all when negative). Of complex numbers the real
/// part.
void multiply(const matmul::Product& product, Operands operands, std::int64_t terms = -1);

float to_tf32(float x);
float to_fp8(float x);

}  // namespace goblin::testing
