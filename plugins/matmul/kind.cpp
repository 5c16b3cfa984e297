// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "kind.hpp"

#include <cmath>
#include <utility>

#include "check.hpp"
#include "planner.hpp"
#include "problem.hpp"
#include "task.hpp"
#include "tiling.hpp"

namespace goblin::matmul {

Description MatmulKind::describe() const {
  return Description("matrix product C = A·B with NumPy's matmul semantics, canonical bits")
      .input("a", "left operand: (…, m, k), or (k,)", kInputTypes, 1, GOBLIN_MAX_RANK)
      .input("b", "right operand: (…, k, n), or (k,); same dtype as a", kInputTypes, 1,
             GOBLIN_MAX_RANK)
      .param("out_dtype",
             "dtype number of c; 0: that of a and b, and i32 for i8. i8 may ask for i8, f16 and "
             "bf16 for f32",
             Value(0), Value(0), Value(15))
      .output("c", "the product: (…, m, n)")
      .policy(GOBLIN_POLICY_ALGEBRAIC);
}

Result<Validated> MatmulKind::validate(const Job& job) {
  GOBLIN_TRY(const Problem problem, make_problem(job.input(0), job.input(1), job.i64(0)));
  Validated out;
  out.outputs.push_back(problem.result);
  if (problem.trivial()) return out;
  out.flops = problem.flops();
  Box whole;
  for (std::size_t i = 0; i < problem.batch.size(); ++i) whole.batch[i] = {0, problem.batch[i]};
  whole.rows = {0, problem.m};
  whole.columns = {0, problem.n};
  whole.terms = {0, problem.k};
  out.bytes = a_bytes(problem, whole) + b_bytes(problem, whole) + c_bytes(problem, whole);
  out.min_task_bytes = static_cast<std::uint64_t>(std::ceil(least_memory(problem)));
  return out;
}

Result<std::unique_ptr<Planner>> MatmulKind::make_planner(
    const Job& job, const Capacity& capacity, const Services& services,
    std::optional<std::span<const std::byte>> state) {
  return MatmulPlanner::create(job, capacity, services, state);
}

Result<void> MatmulKind::execute(const Task& task, const Device& device) {
  GOBLIN_TRY(const TaskView view, TaskView::read(task));
  for (std::int64_t i = 0; i < view.products(); ++i) {
    if (device.cancelled()) return fail(Code::kCancelled, "matmul: cancelled");
    const Product product = view.product(i);
    const Tensor inputs[2] = {product.a, product.b};
    const Tensor outputs[1] = {product.c};
    GOBLIN_TRY_VOID(device.run("matmul", 1, inputs, outputs));
  }
  return {};
}

Result<Verdict> MatmulKind::check(const Task& task, const Device& device, Seed seed) {
  GOBLIN_TRY(const TaskView view, TaskView::read(task));
  return check_product(view, device, seed);
}

}  // namespace goblin::matmul
