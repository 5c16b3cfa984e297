// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Elements of a matrix of any dtype as doubles. Of complex numbers the real part.
#pragma once

#include <cstdint>
#include <vector>

#include "goblin/tensor.hpp"

namespace goblin::testing {

double element(const Tensor& t, std::int64_t i, std::int64_t j);
/// Rounded to the dtype, nearest even; integers wrap.
void set_element(const Tensor& t, std::int64_t i, std::int64_t j, double value);
/// Its bytes.
std::byte* place(const Tensor& t, std::int64_t i, std::int64_t j);

/// Row-major, all of it.
std::vector<double> elements(const Tensor& t);
void set_elements(const Tensor& t, const std::vector<double>& values);

[[nodiscard]] bool is_float(goblin_dtype_v1 dtype);    ///< f16, bf16, f32, f64
[[nodiscard]] bool is_complex(goblin_dtype_v1 dtype);  ///< c64, c128

}  // namespace goblin::testing
