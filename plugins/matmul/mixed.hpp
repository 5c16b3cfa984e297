// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What to do about operands of two dtypes, which `matmul/1` never mixes. Pure functions; any
// thread.
#pragma once

#include <string>

#include "goblin/tensor.hpp"

namespace goblin::matmul {

/// The dtype that NumPy promotes two to (numpy.result_type); bf16 with f16 gives f32.
goblin_dtype_v1 common_dtype(goblin_dtype_v1 a, goblin_dtype_v1 b);

/// The end of a message: "a with a.astype(np.float64), or b with b.astype(np.float32)". The common
/// dtype comes first; the narrower one of the same kind of numbers is offered as well.
std::string conversion(goblin_dtype_v1 a, goblin_dtype_v1 b);

}  // namespace goblin::matmul
