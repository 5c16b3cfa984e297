// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// An open plan: the plugin's planner of one job, and what it was lent.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/wire/runner.hpp"
#include "goblin/abi/plugin.h"
#include "hosts/runner/call.hpp"
#include "hosts/runner/planned.hpp"
#include "hosts/runner/segments.hpp"

namespace goblin::runner {

/// One thread at a time. Holds its segments until it is destroyed.
class Plan {
 public:
  /// The job's tensors have been checked against their segments. On failure `opened` says why and
  /// nothing comes back.
  static std::unique_ptr<Plan> open(const goblin_kind_v1& kind, const wire::PlanOpen& request,
                                    Tensors inputs, Tensors outputs, wire::PlanOpened& opened);
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  wire::Planned next(const wire::PlanNext& request);
  /// `outputs`: of the result that came in; not looked at unless task.has_outputs.
  wire::AcceptedTask accept(const wire::AcceptTask& task, Tensors outputs);
  wire::Done recall(const wire::Recall& request, const Tensors& outputs);
  wire::Done finish();

 private:
  Plan(const goblin_kind_v1& kind, Tensors inputs, Tensors outputs);
  /// One call of the planner's `next`; adds its tasks to `planned`.
  Outcome ask(const wire::Capacity& offered, std::uint64_t room, wire::Planned& planned);
  static goblin_status_v1 read_result(void* self, std::uint64_t task, std::uint32_t output,
                                      goblin_tensor_v1* out);

  const goblin_kind_v1& kind_;
  Tensors inputs_, outputs_;
  std::vector<goblin_value_v1> params_;
  goblin_planner_services_v1 services_{};
  std::map<std::uint64_t, Tensors> kept_;
  void* planner_ = nullptr;
};

}  // namespace goblin::runner
