// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "backends/common/matmul_operands.hpp"

#include <cinttypes>
#include <initializer_list>

namespace goblin::backends {
namespace {

bool gives(goblin_dtype_v1 in, goblin_dtype_v1 out) {
  return in == out || (in == GOBLIN_I8 && out == GOBLIN_I32) ||
         ((in == GOBLIN_F16 || in == GOBLIN_BF16) && out == GOBLIN_F32);
}

bool lacks_data(const goblin_tensor_v1& matrix) {
  return matrix.data == nullptr && matrix.shape[0] != 0 && matrix.shape[1] != 0;
}

}  // namespace

goblin_status_v1 check_matmul(const goblin_operands_v1* operands, Matmul* matmul,
                              goblin_text_v1* message) {
  if (operands == nullptr || operands->struct_size < sizeof(goblin_operands_v1)) {
    return refuse(message, GOBLIN_INVALID_ARGUMENT,
                  "matmul: operands are missing or shorter than ABI 1.0 has them");
  }
  if (operands->input_count != 2 || operands->inputs == nullptr) {
    return refuse(message, GOBLIN_INVALID_ARGUMENT,
                  "matmul: got %" PRIu64 " inputs; give two, a and b", operands->input_count);
  }
  if (operands->output_count != 1 || operands->outputs == nullptr) {
    return refuse(message, GOBLIN_INVALID_ARGUMENT, "matmul: got %" PRIu64 " outputs; give one, c",
                  operands->output_count);
  }
  if (operands->attribute_count != 0) {
    return refuse(message, GOBLIN_INVALID_ARGUMENT,
                  "matmul: got %" PRIu64 " attributes; version 1 takes none",
                  operands->attribute_count);
  }
  const goblin_tensor_v1& a = operands->inputs[0];
  const goblin_tensor_v1& b = operands->inputs[1];
  const goblin_tensor_v1& c = operands->outputs[0];
  struct Argument {
    const char* name;
    const goblin_tensor_v1& tensor;
  };
  for (const Argument& argument :
       {Argument{"matmul: a", a}, Argument{"matmul: b", b}, Argument{"matmul: c", c}}) {
    const goblin_status_v1 status = check_tensor(argument.tensor, argument.name, message);
    if (status != GOBLIN_OK) return status;
    if (argument.tensor.rank != 2) {
      return refuse(message, GOBLIN_INVALID_ARGUMENT, "%s has rank %u; give a matrix (rank 2)",
                    argument.name, argument.tensor.rank);
    }
  }
  if (b.dtype != a.dtype) {
    return refuse(message, GOBLIN_INVALID_ARGUMENT,
                  "matmul: b has dtype %s but a has %s; convert one to the other",
                  dtype_name(b.dtype), dtype_name(a.dtype));
  }
  if (!gives(a.dtype, c.dtype)) {
    return refuse(message, GOBLIN_UNSUPPORTED,
                  "matmul: c has dtype %s, which a product of %s cannot give; ask for %s%s",
                  dtype_name(c.dtype), dtype_name(a.dtype), dtype_name(a.dtype),
                  a.dtype == GOBLIN_I8                              ? " or i32"
                  : a.dtype == GOBLIN_F16 || a.dtype == GOBLIN_BF16 ? " or f32"
                                                                    : "");
  }
  if (b.shape[0] != a.shape[1]) {
    return refuse(message, GOBLIN_INVALID_ARGUMENT,
                  "matmul: b has %" PRId64 " rows but a has %" PRId64
                  " columns; make b.shape[0] equal a.shape[1]",
                  b.shape[0], a.shape[1]);
  }
  if (c.shape[0] != a.shape[0] || c.shape[1] != b.shape[1]) {
    return refuse(message, GOBLIN_INVALID_ARGUMENT,
                  "matmul: c has shape (%" PRId64 ", %" PRId64 "); the product has (%" PRId64
                  ", %" PRId64 ")",
                  c.shape[0], c.shape[1], a.shape[0], b.shape[1]);
  }
  if (overlaps_itself(c)) {
    return refuse(message, GOBLIN_INVALID_ARGUMENT,
                  "matmul: c has strides (%" PRId64 ", %" PRId64
                  "), with which some of its elements share memory; give each its own",
                  c.strides[0], c.strides[1]);
  }
  *matmul = Matmul{.in = a.dtype,
                   .out = c.dtype,
                   .m = a.shape[0],
                   .n = b.shape[1],
                   .k = a.shape[1],
                   .a = static_cast<const char*>(a.data),
                   .b = static_cast<const char*>(b.data),
                   .c = static_cast<char*>(c.data),
                   .a_row = a.strides[0],
                   .a_column = a.strides[1],
                   .b_row = b.strides[0],
                   .b_column = b.strides[1],
                   .c_row = c.strides[0],
                   .c_column = c.strides[1]};
  return GOBLIN_OK;
}

goblin_status_v1 check_matmul_memory(const goblin_operands_v1* operands, goblin_text_v1* message) {
  const goblin_tensor_v1& a = operands->inputs[0];
  const goblin_tensor_v1& b = operands->inputs[1];
  const goblin_tensor_v1& c = operands->outputs[0];
  const char* missing = lacks_data(a) ? "a" : lacks_data(b) ? "b" : lacks_data(c) ? "c" : nullptr;
  if (missing != nullptr) {
    return refuse(message, GOBLIN_INVALID_ARGUMENT, "matmul: %s has elements but no data", missing);
  }
  const std::int64_t item = item_size(c.dtype);
  const std::int64_t alignment = item > 8 ? 8 : item;
  if (reinterpret_cast<std::uintptr_t>(c.data) % static_cast<std::uintptr_t>(alignment) != 0) {
    return refuse(message, GOBLIN_INVALID_ARGUMENT,
                  "matmul: c begins at an address that is no multiple of %" PRId64
                  "; align it to its elements",
                  alignment);
  }
  const char* under = ranges_meet(c, a) ? "a" : ranges_meet(c, b) ? "b" : nullptr;
  if (under != nullptr) {
    return refuse(message, GOBLIN_INVALID_ARGUMENT,
                  "matmul: c overlaps %s in memory; give the product memory of its own", under);
  }
  return GOBLIN_OK;
}

goblin_status_v1 check_exec(const goblin_exec_v1* exec, std::uint64_t devices,
                            goblin_text_v1* message) {
  if (exec == nullptr || exec->struct_size < sizeof(goblin_exec_v1)) {
    return refuse(message, GOBLIN_INVALID_ARGUMENT,
                  "matmul: exec is missing or shorter than ABI 1.0 has it");
  }
  if (exec->threads == 0) {
    return refuse(message, GOBLIN_INVALID_ARGUMENT, "matmul: exec has 0 threads; give 1 or more");
  }
  if (exec->device >= devices) {
    return refuse(message, GOBLIN_NOT_FOUND,
                  "matmul: exec names device %u; this backend has %" PRIu64 ", from 0",
                  exec->device, devices);
  }
  if (exec->numerics != GOBLIN_NUMERICS_CANONICAL && exec->numerics != GOBLIN_NUMERICS_FAST) {
    return refuse(message, GOBLIN_UNSUPPORTED,
                  "matmul: exec has numerics %u; 0 (canonical) and 1 (fast) are known",
                  exec->numerics);
  }
  return GOBLIN_OK;
}

}  // namespace goblin::backends
