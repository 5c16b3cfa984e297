// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A kind of computation. An author derives goblin::Kind (and goblin::Planner), gives it
//   static constexpr const char* kName = "matmul";   // lower case, digits, '-', at most 63 bytes
//   static constexpr std::uint32_t kVersion = 1;
// and writes GOBLIN_PLUGIN(MyKind) in one source file. Independent chunks? See map_kind.hpp.
//
// Calls come from one thread at a time. Any of them may return an Error or throw; neither leaves
// the plugin as an exception.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "goblin/description.hpp"
#include "goblin/device.hpp"
#include "goblin/planner.hpp"

namespace goblin {

/// What `validate` says of a job.
struct Validated {
  std::vector<TensorSpec> outputs;   ///< as many as described, in that order
  double flops = 0;                  ///< of the whole job
  double bytes = 0;                  ///< least that must reach hosts and come back
  std::uint64_t min_task_bytes = 0;  ///< least memory that a host must offer
};

enum class Verdict : std::uint32_t {
  kAccept = GOBLIN_VERDICT_ACCEPT,
  kReject = GOBLIN_VERDICT_REJECT,
  kAbstain = GOBLIN_VERDICT_ABSTAIN,  ///< hands the decision to a recomputation
};

/// 32 fresh secret random bytes.
using Seed = std::span<const std::uint8_t, 32>;

class Kind {
 public:
  virtual ~Kind() = default;

  /// Asked once.
  [[nodiscard]] virtual Description describe() const = 0;
  /// Lab side. The job's inputs and parameters have the described types, ranks and ranges, but no
  /// data. A refusal names the argument, its value and the remedy.
  virtual Result<Validated> validate(const Job& job) = 0;
  /// Lab side. `state`: none for a new job; after a restart, what the planner's state() gave.
  virtual Result<std::unique_ptr<Planner>> make_planner(
      const Job& job, const Capacity& capacity, const Services& services,
      std::optional<std::span<const std::byte>> state) = 0;
  /// Host side. Computes the task's outputs, the same bits on every host unless device.fast().
  /// Parameters, types and shapes come from a peer: check them. Inputs are row-major.
  virtual Result<void> execute(const Task& task, const Device& device) = 0;
  /// Lab side. A cheap test of a result; inputs may be strided windows on the job's inputs.
  virtual Result<Verdict> check(const Task& /*task*/, const Device& /*device*/, Seed /*seed*/) {
    return Verdict::kAbstain;
  }
  /// Lab side. Do two results of one task agree? kAccept or kReject.
  virtual Result<Verdict> compare(const Task& canonical, std::span<const Tensor> other) {
    if (canonical.outputs.size() != other.size()) return Verdict::kReject;
    for (std::size_t i = 0; i < other.size(); ++i) {
      if (!bits_equal(canonical.outputs[i], other[i])) return Verdict::kReject;
    }
    return Verdict::kAccept;
  }
};

}  // namespace goblin

#include "goblin/plugin.hpp"  // GOBLIN_PLUGIN
