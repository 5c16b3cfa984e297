// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What a job "matmul/1" means: NumPy's matmul, brought to one form.
//
// C[batch…, m, n] = A[batch…, m, k] · B[batch…, k, n]. A 1-D operand is a matrix of one row (a) or
// one column (b) whose dimension is dropped from the result; leading dimensions broadcast. Where we
// differ from NumPy: dtypes are never mixed (NumPy would promote), i8 gives i32 unless the job asks
// for i8, f16 and bf16 accumulate in f32. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "goblin/tensor.hpp"

namespace goblin::matmul {

inline constexpr std::uint64_t kInputTypes = dtypes(
    {GOBLIN_BOOL, GOBLIN_I8, GOBLIN_I16, GOBLIN_I32, GOBLIN_I64, GOBLIN_U8, GOBLIN_U16, GOBLIN_U32,
     GOBLIN_U64, GOBLIN_F16, GOBLIN_BF16, GOBLIN_F32, GOBLIN_F64, GOBLIN_C64, GOBLIN_C128});

/// Byte strides of an operand over (batch…, row, column). A stride of 0 means: the same for all.
struct Layout {
  std::vector<std::int64_t> batch;
  std::int64_t row = 0;
  std::int64_t column = 0;
};

struct Problem {
  goblin_dtype_v1 in = 0;
  goblin_dtype_v1 out = 0;
  /// Of sums that are not yet complete along k: f32 for f16 and bf16, else `out`.
  goblin_dtype_v1 sum = 0;
  /// Leading dimensions after broadcasting, those of extent 1 dropped and neighbours merged where
  /// both operands allow. Row-major order is kept.
  std::vector<std::int64_t> batch;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Layout a;
  Layout b;
  Layout c;           ///< row-major
  TensorSpec result;  ///< as the researcher sees it

  /// Products in the batch. Only where C has elements does it surely not overflow.
  [[nodiscard]] std::int64_t items() const {
    std::int64_t count = 1;
    for (const std::int64_t extent : batch) count *= extent;
    return count;
  }
  /// No element of C needs a term: C is empty, or k is 0 and C is zero.
  [[nodiscard]] bool trivial() const {
    bool any = m == 0 || n == 0 || k == 0;
    for (const std::int64_t extent : batch) any = any || extent == 0;
    return any;
  }
  [[nodiscard]] std::int64_t in_bytes() const { return static_cast<std::int64_t>(dtype_size(in)); }
  [[nodiscard]] std::int64_t out_bytes() const {
    return static_cast<std::int64_t>(dtype_size(out));
  }
  [[nodiscard]] std::int64_t sum_bytes() const {
    return static_cast<std::int64_t>(dtype_size(sum));
  }
  /// 2·m·n·k of every item; four times that for complex numbers.
  [[nodiscard]] double flops() const;
};

/// dtype of a product of `in` when the job asks for `asked` (0: the default). kInvalidArgument
/// names `out_dtype`.
Result<goblin_dtype_v1> output_type(goblin_dtype_v1 in, std::int64_t asked);

/// Types, shapes and strides only: data is not read. kInvalidArgument names the argument, the
/// shapes and the remedy.
Result<Problem> make_problem(const Tensor& a, const Tensor& b, std::int64_t out_dtype);

}  // namespace goblin::matmul
