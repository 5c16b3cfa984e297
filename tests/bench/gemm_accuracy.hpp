// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Rounding error of a product against the same entries in twice the precision.
#pragma once

#include <cstdint>

#include "gemm_contenders.hpp"

namespace goblin::bench {

/// Root mean square over sampled entries of |c − exact| / Σ|a||b|, in units of the type's rounding
/// (2^-24 or 2^-53).
double rounding_error(Real real, std::int64_t n, const void* a, const void* b, const void* c);

}  // namespace goblin::bench
