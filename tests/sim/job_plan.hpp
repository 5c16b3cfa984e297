// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A simulated job as its researcher asked for it, and the right result of each task.
#pragma once

#include <vector>

#include "core/scheduler/scheduler.hpp"
#include "core/store/lab_journal.hpp"
#include "tests/sim/options.hpp"

namespace goblin::sim {

using scheduler::JobId;
using scheduler::TaskId;

struct JobPlan {
  std::uint64_t key = 0;  ///< its token, and what its results follow from
  validation::PolicySpec policy;
  std::uint32_t weight = 1;
  std::uint64_t tasks = 0;
  std::uint64_t round =
      0;  ///< > 0: rounds of so many tasks; each reads all results of the last one
  double flops = 1e8, spread = 0;
  std::uint64_t memory = 0;
  std::uint32_t panels = 0;  ///< > 0: task i takes panel i / panels and panel i % panels
  std::uint64_t state_bytes = 0;
  double abstain = 0, miss = 0;
  Micros submitted = 0;
  Micros cancelled = 0;  ///< 0: never

  static JobPlan draw(Random& random, const Options& options, std::uint64_t key);

  [[nodiscard]] scheduler::ReadyTask task(JobId job, TaskId task) const;
  [[nodiscard]] TaskId first_of_round(TaskId task) const {
    return round == 0 ? 0 : task / round * round;
  }
  /// As it would be journalled.
  [[nodiscard]] store::JobRecord record() const;
  [[nodiscard]] wire::Bytes state() const;
};

/// What a host computes: variant 0 is right. `before`: of the results that the task reads.
wire::Digest result_of(std::uint64_t key, TaskId task, std::uint64_t before, std::uint64_t variant);
/// Adds a result to what the next round reads; the order does not matter.
std::uint64_t add_result(std::uint64_t before, TaskId task, const wire::Digest& digest);
/// A few bytes of a digest.
std::uint64_t short_of(const wire::Digest& digest);

/// The right results of a whole job.
class RightResults {
 public:
  explicit RightResults(const JobPlan& plan);
  [[nodiscard]] wire::Digest operator[](TaskId task) const {
    return digests_.empty() ? result_of(key_, task, 0, 0) : digests_[task];
  }

 private:
  std::uint64_t key_;
  std::vector<wire::Digest> digests_;  ///< of rounds, which rest on each other
};

}  // namespace goblin::sim
