// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What tasks a job would have: its planner is asked, over inputs and outputs that have their shapes
// and take no room, and nothing is computed.
#pragma once

#include "hosts/lab/job.hpp"

namespace goblin::lab {

struct DryPlan {
  std::vector<scheduler::ReadyTask> tasks;
  double flops = 0;       ///< of them
  bool complete = false;  ///< the job has no others
};

struct DryPlanRequest {
  std::uint32_t kind = 0;
  std::vector<wire::Value> params;
  std::vector<wire::JobInput> inputs;  ///< types; where they lie does not matter
  std::vector<wire::TensorSpec> outputs;
  wire::Capacity capacity;
  std::size_t max_tasks = 4096;
};

/// `runner`: has the plugin loaded and no plan open; is of no further use. A planner that waits for
/// results, or has more than `max_tasks` tasks, gives those that it has until then. Errors of the
/// planner, and kExhausted when no task fits the capacity's memory.
net::Task<Result<DryPlan>> dry_plan(std::shared_ptr<MappedRunner> runner, DryPlanRequest request,
                                    net::Milliseconds deadline);

}  // namespace goblin::lab
