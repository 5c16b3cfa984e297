// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What operator "matmul" version 1 accepts: C[m,n] = A[m,k]·B[k,n], no attributes.
//
// A and B have one dtype. C has the same; besides, f16 and bf16 may give f32 (unrounded, so that
// parts of a product cut along k can still be added), and i8 may give i32.
#pragma once

#include <cstdint>

#include "backends/common/tensor.hpp"
#include "goblin/abi/backend.h"
#include "goblin/numerics/dot.hpp"

namespace goblin::backends {

/// Checked operands. Strides are bytes.
struct Matmul {
  goblin_dtype_v1 in;
  goblin_dtype_v1 out;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  const char* a;
  const char* b;
  char* c;
  std::int64_t a_row, a_column;
  std::int64_t b_row, b_column;
  std::int64_t c_row, c_column;
};

/// Types, shapes, strides and attributes; reads no data pointer. On GOBLIN_OK fills `matmul`.
goblin_status_v1 check_matmul(const goblin_operands_v1* operands, Matmul* matmul,
                              goblin_text_v1* message);

/// What a run needs besides: data where there are elements, C aligned to its elements and apart
/// from A and B. Inputs may lie at any address.
goblin_status_v1 check_matmul_memory(const goblin_operands_v1* operands, goblin_text_v1* message);

/// An exec of this ABI that names one of `devices` devices and a known numerics.
goblin_status_v1 check_exec(const goblin_exec_v1* exec, std::uint64_t devices,
                            goblin_text_v1* message);

/// Calls visit(In{}, Out{}) for the types of checked operands and returns what it returns.
template <class Visit>
auto with_types(goblin_dtype_v1 in, goblin_dtype_v1 out, Visit&& visit) {
  using namespace numerics;  // NOLINT: element types only
  switch (in) {
    case GOBLIN_BOOL:
      return visit(bool{}, bool{});
    case GOBLIN_I8:
      return out == GOBLIN_I32 ? visit(std::int8_t{}, std::int32_t{})
                               : visit(std::int8_t{}, std::int8_t{});
    case GOBLIN_I16:
      return visit(std::int16_t{}, std::int16_t{});
    case GOBLIN_I32:
      return visit(std::int32_t{}, std::int32_t{});
    case GOBLIN_I64:
      return visit(std::int64_t{}, std::int64_t{});
    case GOBLIN_U8:
      return visit(std::uint8_t{}, std::uint8_t{});
    case GOBLIN_U16:
      return visit(std::uint16_t{}, std::uint16_t{});
    case GOBLIN_U32:
      return visit(std::uint32_t{}, std::uint32_t{});
    case GOBLIN_U64:
      return visit(std::uint64_t{}, std::uint64_t{});
    case GOBLIN_F16:
      return out == GOBLIN_F32 ? visit(F16{}, float{}) : visit(F16{}, F16{});
    case GOBLIN_BF16:
      return out == GOBLIN_F32 ? visit(BF16{}, float{}) : visit(BF16{}, BF16{});
    case GOBLIN_F64:
      return visit(double{}, double{});
    case GOBLIN_C64:
      return visit(Complex<float>{}, Complex<float>{});
    case GOBLIN_C128:
      return visit(Complex<double>{}, Complex<double>{});
    default:
      return visit(float{}, float{});
  }
}

}  // namespace goblin::backends
