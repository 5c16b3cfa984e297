// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// C = A·B, one element after the other: nothing here but goblin/numerics/dot.hpp and two loops.
#include "backends/common/float_environment.hpp"
#include "backends/common/matmul_operands.hpp"
#include "backends/reference/operators.hpp"

namespace goblin::backends::reference {
namespace {

using numerics::canonical_chunk;
using numerics::canonical_value;
using numerics::CanonicalSum;
using numerics::kChunk;

// Terms between two looks at `cancelled`: about a millisecond.
constexpr std::int64_t kPatience = 1 << 17;

class Cancel final {
 public:
  explicit Cancel(const goblin_exec_v1* exec) : exec_(exec) {}
  bool after(std::int64_t terms) {
    done_ += terms + 1;
    if (done_ < kPatience || exec_->cancelled == nullptr) return false;
    done_ = 0;
    return exec_->cancelled(exec_->context) != 0;
  }

 private:
  const goblin_exec_v1* exec_;
  std::int64_t done_ = kPatience;
};

template <class In, class Out>
goblin_status_v1 multiply(const Matmul& op, const goblin_exec_v1* exec, goblin_text_v1* message) {
  Cancel cancel(exec);
  for (std::int64_t i = 0; i < op.m; ++i) {
    for (std::int64_t j = 0; j < op.n; ++j) {
      const char* const row = op.a + i * op.a_row;
      const char* const column = op.b + j * op.b_column;
      CanonicalSum<In> total{};
      // As canonical_dot, with a look at `cancelled` between chunks.
      for (std::int64_t p = 0; p < op.k || p == 0; p += kChunk) {
        const std::int64_t terms = op.k - p < kChunk ? op.k - p : kChunk;
        if (cancel.after(terms)) {
          return refuse(message, GOBLIN_CANCELLED, "matmul: cancelled");
        }
        const auto chunk = canonical_chunk<In>(row + p * op.a_column, op.a_column,
                                               column + p * op.b_row, op.b_row, terms);
        if (p == 0) {
          total = chunk;
        } else {
          numerics::detail::add_sum(total, chunk);
        }
      }
      const Out element = canonical_value<Out>(total);
      std::memcpy(op.c + i * op.c_row + j * op.c_column, &element, sizeof element);
    }
  }
  return GOBLIN_OK;
}

goblin_status_v1 check(const goblin_operator_v1*, const goblin_operands_v1* operands,
                       goblin_text_v1* message) {
  Matmul op;
  return check_matmul(operands, &op, message);
}

goblin_status_v1 scratch_bytes(const goblin_operator_v1*, const goblin_operands_v1* operands,
                               const goblin_exec_v1* exec, std::uint64_t* bytes,
                               goblin_text_v1* message) {
  Matmul op;
  if (const auto status = check_matmul(operands, &op, message); status != GOBLIN_OK) return status;
  if (const auto status = check_exec(exec, kDeviceCount, message); status != GOBLIN_OK) {
    return status;
  }
  *bytes = 0;
  return GOBLIN_OK;
}

goblin_status_v1 run(const goblin_operator_v1*, const goblin_operands_v1* operands,
                     const goblin_exec_v1* exec, goblin_text_v1* message) {
  Matmul op;
  if (const auto status = check_matmul(operands, &op, message); status != GOBLIN_OK) return status;
  if (const auto status = check_exec(exec, kDeviceCount, message); status != GOBLIN_OK) {
    return status;
  }
  if (const auto status = check_matmul_memory(operands, message); status != GOBLIN_OK) {
    return status;
  }
  const FloatEnvironment environment;
  return with_types(op.in, op.out, [&](auto in, auto out) {
    return multiply<decltype(in), decltype(out)>(op, exec, message);
  });
}

}  // namespace

const goblin_operator_v1 kMatmul = {
    sizeof(goblin_operator_v1), "matmul", 1, 0, &check, &scratch_bytes, &run};

}  // namespace goblin::backends::reference
