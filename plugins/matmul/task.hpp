// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A task of kind "matmul/1": how a box of the problem becomes views and numbers, and how the other
// side reads them. The numbers name layouts only.
//
//   inputs   a: batch dimensions of mask_a…, then [m, k] (or [k, m] when transposed); b likewise
//   output   c: [chunks] when partial, batch dimensions…, [m, n]
//   params   0: flags, 1: mask_a, 2: mask_b (bit i: the operand has batch dimension i of c; else it
//            is the same along it)
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "box.hpp"
#include "goblin/planner.hpp"

namespace goblin::matmul {

inline constexpr std::int64_t kATransposed = 1;
inline constexpr std::int64_t kBTransposed = 2;
inline constexpr std::int64_t kPartial = 4;

/// Everything but id and memory_bytes. An operand whose rows are strided and whose columns are
/// contiguous is viewed transposed, so that whoever gathers it copies long runs.
PlannedTask make_task(const Job& job, const Problem& problem, const Box& box);

/// One two-dimensional product of a task. Data may be strided.
struct Product {
  Tensor a;  ///< [m, k]
  Tensor b;  ///< [k, n]
  Tensor c;  ///< [m, n]
};

/// A task as its executor or checker reads it.
class TaskView {
 public:
  /// kInvalidArgument when the task's numbers, types and shapes do not fit each other.
  static Result<TaskView> read(const Task& task);

  [[nodiscard]] std::int64_t m() const { return m_; }
  [[nodiscard]] std::int64_t n() const { return n_; }
  [[nodiscard]] std::int64_t k() const { return k_; }
  [[nodiscard]] goblin_dtype_v1 in() const { return a_.dtype(); }
  [[nodiscard]] goblin_dtype_v1 out() const { return c_.dtype(); }
  /// Products in the task: items of the batch, times chunks when partial.
  [[nodiscard]] std::int64_t products() const { return items_ * chunks_; }
  [[nodiscard]] Product product(std::int64_t index) const;

 private:
  TaskView() = default;
  Tensor a_, b_, c_;
  std::int64_t m_ = 0, n_ = 0, k_ = 0;
  bool a_transposed_ = false, b_transposed_ = false, partial_ = false;
  std::int64_t chunks_ = 1;
  std::int64_t items_ = 1;
  std::vector<std::int64_t> batch_;                     ///< extents
  std::vector<std::int64_t> a_step_, b_step_, c_step_;  ///< bytes, along each batch dimension
};

}  // namespace goblin::matmul
