// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Planned tasks on their way between a plugin's tables and the wire. What a plugin emits is
// believed only after it was checked.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/wire/runner.hpp"
#include "goblin/abi/plugin.h"
#include "goblin/error.hpp"
#include "hosts/runner/segments.hpp"

namespace goblin::runner {

/// What a planner's views may look at.
struct PlanSources {
  std::span<const goblin_tensor_v1> inputs;                ///< of the job
  const std::map<std::uint64_t, Tensors>* kept = nullptr;  ///< results that were kept, by task
};

/// Copies a task that a plugin emits. kInvalidArgument names task, input or output, and the bytes
/// by which a window leaves its source.
Result<wire::PlannedTask> copy_planned(const goblin_planned_task_v1& raw,
                                       const PlanSources& sources);

/// A planned task from the wire as the tables want it. Neither copied nor moved.
class PlannedForAbi {
 public:
  explicit PlannedForAbi(const wire::PlannedTask& task);
  PlannedForAbi(const PlannedForAbi&) = delete;
  PlannedForAbi& operator=(const PlannedForAbi&) = delete;
  /// Why the task is refused; nullptr when it is not.
  [[nodiscard]] const Error* error() const { return failed_ ? &error_ : nullptr; }
  [[nodiscard]] const goblin_planned_task_v1* get() const { return &raw_; }

 private:
  std::vector<goblin_value_v1> params_;
  std::vector<goblin_view_v1> inputs_;
  std::vector<goblin_tensor_v1> outputs_;
  goblin_planned_task_v1 raw_{};
  Error error_;
  bool failed_ = false;
};

goblin_value_v1 to_abi(const wire::Value& value);
std::vector<goblin_value_v1> to_abi(std::span<const wire::Value> values);
/// kInvalidArgument for a type that is none.
Result<wire::Value> from_abi(const goblin_value_v1& value);
goblin_capacity_v1 to_abi(const wire::Capacity& capacity);

}  // namespace goblin::runner
