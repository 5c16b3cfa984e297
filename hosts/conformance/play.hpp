// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Plays the lab node and its hosts for one job, step by step, and watches what must hold at each:
// windows and memory as declared, numbers of tasks that never change, honest results that are not
// rejected. A step that fails says which call it was. One thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "goblin/abi/plugin.h"
#include "hosts/conformance/arena.hpp"
#include "hosts/conformance/job.hpp"
#include "hosts/conformance/runner.hpp"

namespace goblin::conformance {

/// How the inputs of a job lie in memory. The elements are the same.
enum class Layout {
  kRowMajor,
  kReversed,     ///< negative strides
  kColumnMajor,  ///< the first axis is contiguous
  kSpread,       ///< gaps between elements
};

/// A job that its kind accepts.
struct Job {
  std::uint32_t kind = 0;
  JobSpec spec;
  std::vector<std::vector<std::byte>> elements;  ///< of each input, row-major
  wire::Validated validated;
};

/// Results by what they are computed from: honest hosts give the same each time.
using ResultCache = std::map<std::string, std::vector<std::vector<std::byte>>>;

/// A task with its inputs and outputs in the arena.
struct Computed {
  wire::PlannedTask planned;
  std::vector<wire::TensorAt> windows;  ///< inputs as `check` gets them: windows on their sources
  std::vector<wire::TensorAt> inputs;   ///< row-major, as `execute` gets them
  std::vector<wire::TensorAt> outputs;

  [[nodiscard]] wire::RunnerTask for_check(std::uint32_t kind) const;
  [[nodiscard]] wire::RunnerTask for_execute(std::uint32_t kind) const;
};

/// An ordinary offer of hosts with `memory` each.
wire::Capacity offer(std::uint64_t memory, std::uint64_t hosts = 1, std::uint32_t threads = 1);

/// "call: what became of the runner", or why the call was refused.
Error broken(const std::string& call, const Error& why);
Result<void> expect_ok(const std::string& call, std::int32_t status, const std::string& message);

class Play {
 public:
  /// `lab` plans and checks, `host` executes; both have the arena mapped.
  Play(const Job& job, Arena& arena, Runner& lab, Runner& host, Random& random);
  /// Results are taken from there when they are known already.
  void use(ResultCache* cache) { cache_ = cache; }

  /// Places inputs and outputs.
  Result<void> place(Layout layout = Layout::kRowMajor);
  Result<void> open(const wire::Capacity& capacity);
  /// As after a restart of the lab node: a new planner, in `lab`, from the state and what was
  /// accepted.
  Result<void> reopen(Runner& lab, const wire::Capacity& capacity);
  /// Asks once. Whether there may be more now. A host that offers less memory than those that the
  /// plan was opened for may get nothing (EXHAUSTED).
  Result<bool> next(const wire::Capacity& capacity, std::uint32_t max_tasks);
  Result<Computed> compute(const wire::PlannedTask& task);
  /// Fails when an honest result is rejected. True when it was accepted (not abstained from).
  Result<bool> check(const Computed& task, const std::array<std::uint8_t, 32>& seed);
  Result<void> accept(const Computed& task);
  Result<void> finish();

  /// Plans with what `capacity` gives each time, computes and accepts in random order until
  /// everything is accepted, or `until` tasks are. `visit` sees each task before it is accepted.
  using Offers = std::function<wire::Capacity()>;
  using Visit = std::function<Result<void>(const Computed&)>;
  Result<void> go_on(const Offers& offers, std::size_t until = SIZE_MAX, const Visit& visit = {});

  /// All bytes of the job's outputs but those of `ignore` (a bit each).
  [[nodiscard]] std::string outputs(std::uint64_t ignore) const;
  [[nodiscard]] const std::map<std::uint64_t, wire::PlannedTask>& pending() const {
    return pending_;
  }
  /// Has every task been planned, as far as the planner said?
  [[nodiscard]] bool all_planned() const { return progress_ == GOBLIN_PLAN_DONE; }
  struct Accepted {
    Computed task;
    std::uint32_t disposition = 0;
  };
  [[nodiscard]] const std::map<std::uint64_t, Accepted>& accepted() const { return accepted_; }
  [[nodiscard]] const wire::Bytes& state() const { return state_; }
  [[nodiscard]] const std::vector<wire::TensorAt>& job_inputs() const { return inputs_; }
  [[nodiscard]] const std::vector<wire::TensorAt>& job_outputs() const { return outputs_; }
  [[nodiscard]] wire::PlanOpen open_request(const wire::Capacity& capacity) const;
  [[nodiscard]] Arena& arena() { return arena_; }
  [[nodiscard]] Runner& lab() { return *lab_; }
  [[nodiscard]] Runner& host() { return host_; }
  [[nodiscard]] const Job& job() const { return job_; }
  [[nodiscard]] Random& random() { return random_; }
  /// Sums over all tasks that were planned.
  [[nodiscard]] double flops() const { return flops_; }
  [[nodiscard]] std::uint64_t most_memory() const { return most_memory_; }

  /// A fresh place for a tensor.
  Result<wire::TensorAt> take(const wire::TensorSpec& spec);
  [[nodiscard]] std::byte* data(const wire::TensorAt& at) { return arena_.at(at.offset); }

 private:
  Result<wire::TensorAt> place_input(std::size_t index, Layout layout);
  Result<void> take_task(const wire::PlannedTask& task, const wire::Capacity& capacity);
  Result<wire::TensorAt> window(const wire::View& view) const;
  Result<void> execute(Computed& task);

  const Job& job_;
  Arena& arena_;
  Runner* lab_;
  Runner& host_;
  Random& random_;
  ResultCache* cache_ = nullptr;
  std::vector<wire::TensorAt> inputs_, outputs_;
  wire::Bytes state_;
  std::map<std::uint64_t, wire::PlannedTask> pending_;
  std::map<std::uint64_t, Accepted> accepted_;
  std::set<std::uint64_t> restored_;  ///< accepted before a restart: may be planned once more
  std::uint32_t progress_ = GOBLIN_PLAN_MORE;
  std::uint64_t opened_for_ = 0;  ///< memory of the hosts that the plan was made for
  bool exhausted_ = false;        ///< the last to ask could hold no task
  double flops_ = 0;
  std::uint64_t most_memory_ = 0;
};

}  // namespace goblin::conformance
