// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The most that the cores' fused multiply-adds can give: a loop that touches registers only.
#pragma once

#include "gemm_contenders.hpp"

namespace goblin::bench {

/// GFLOP/s of `threads` threads at once, with the widest vectors; the best of a few tries.
double fma_peak(Real real, int threads);

}  // namespace goblin::bench
