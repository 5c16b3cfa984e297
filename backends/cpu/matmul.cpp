// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Operator "matmul" version 1: checks, then the loops of gemm.cpp.
#include <cinttypes>

#include "backends/common/matmul_operands.hpp"
#include "backends/cpu/gemm.hpp"
#include "backends/cpu/operators.hpp"

namespace goblin::backends::cpu {
namespace {

goblin_status_v1 check(const goblin_operator_v1*, const goblin_operands_v1* operands,
                       goblin_text_v1* message) {
  Matmul op;
  return check_matmul(operands, &op, message);
}

goblin_status_v1 plan_for(const goblin_operands_v1* operands, const goblin_exec_v1* exec,
                          Plan* plan, goblin_text_v1* message) {
  Matmul op;
  if (const auto status = check_matmul(operands, &op, message); status != GOBLIN_OK) return status;
  if (const auto status = check_exec(exec, levels().count, message); status != GOBLIN_OK) {
    return status;
  }
  *plan = make_plan(op, *levels().list[exec->device], exec->threads);
  return GOBLIN_OK;
}

std::uint64_t scratch_of(const Plan& plan) {
  return static_cast<std::uint64_t>(plan.threads) * static_cast<std::uint64_t>(plan.thread_bytes);
}

goblin_status_v1 scratch_bytes(const goblin_operator_v1*, const goblin_operands_v1* operands,
                               const goblin_exec_v1* exec, std::uint64_t* bytes,
                               goblin_text_v1* message) {
  Plan plan;
  if (const auto status = plan_for(operands, exec, &plan, message); status != GOBLIN_OK) {
    return status;
  }
  *bytes = scratch_of(plan);
  return GOBLIN_OK;
}

goblin_status_v1 run(const goblin_operator_v1* self, const goblin_operands_v1* operands,
                     const goblin_exec_v1* exec, goblin_text_v1* message) {
  Plan plan;
  if (const auto status = plan_for(operands, exec, &plan, message); status != GOBLIN_OK) {
    return status;
  }
  if (const auto status = check_matmul_memory(operands, message); status != GOBLIN_OK) {
    return status;
  }
  const std::uint64_t needed = scratch_of(plan);
  if (exec->scratch == nullptr || exec->scratch_size < needed ||
      reinterpret_cast<std::uintptr_t>(exec->scratch) % 64 != 0) {
    return refuse(message, GOBLIN_INVALID_ARGUMENT,
                  "matmul: scratch has %" PRIu64 " bytes; give %" PRIu64 ", 64-byte aligned",
                  exec->scratch == nullptr ? 0 : exec->scratch_size, needed);
  }
  const goblin_status_v1 status = run_plan(plan, exec, workers_of(self));
  return status == GOBLIN_OK ? status : refuse(message, status, "matmul: cancelled");
}

}  // namespace

const Operator kMatmul = {
    {sizeof(goblin_operator_v1), "matmul", 1, 0, &check, &scratch_bytes, &run}, nullptr};

}  // namespace goblin::backends::cpu
