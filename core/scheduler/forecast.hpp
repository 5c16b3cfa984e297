// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// How long a job will take, before it runs: the scheduler itself hands out the job's tasks, in
// virtual time, to hosts whose speeds and links are given. Pure; any thread.
//
// Inputs flow from the lab node to each host one after another and results back, each direction at
// the host's own rate and its share of the lab node's; a host computes one task at a time, while
// further inputs come. Nobody fails, everything passes its check.
#pragma once

#include "core/scheduler/scheduler.hpp"

namespace goblin::scheduler {

/// Bytes per second, each direction on its own. Infinite: no limit.
struct LinkRate {
  double to_hosts = 0;
  double from_hosts = 0;
};

struct ForecastHost {
  HostSpec spec;
  Standing standing;
  double flops_per_s = 0;
  LinkRate link;
  double rtt_s = 0;
  double task_s = 0;  ///< what a task costs beside its arithmetic
};

struct ForecastJob {
  validation::PolicySpec policy;
  /// In the planner's order, numbered as it likes; `job` is not looked at.
  std::vector<ReadyTask> tasks;
  double flops_total = 0;  ///< of the whole job; what is more than that of `tasks` takes as long
};

struct Forecast {
  double seconds = 0;
  /// What of T = max(flops / ΣR, Q·s / B_lab, max_i Q_i·s / B_i) bounds the job, and these three in
  /// seconds: flops with those of replicas, Q·s the bytes of the busier direction.
  wire::Bound bound = wire::Bound::kHostsSpeed;
  double hosts_speed_s = 0, lab_link_s = 0, host_link_s = 0;
  double bytes_to_hosts = 0, bytes_from_hosts = 0;
  double flops = 0;          ///< computed, replicas included
  std::uint64_t starts = 0;  ///< of tasks
  std::uint32_t hosts = 0;   ///< that would compute
  double planned_share = 1;  ///< of the job's flops that `tasks` have
};

/// kInvalidArgument: no host, no task, or a rate that is no positive number. kUnavailable: these
/// hosts cannot end the job; the message says why ("each task needs …").
Result<Forecast> forecast(const Config& config, const std::vector<ForecastHost>& hosts,
                          LinkRate lab, const ForecastJob& job);

}  // namespace goblin::scheduler
