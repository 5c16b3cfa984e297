// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Messages between a daemon and its runner, over a Unix socket pair of one machine. A request and
// its answer follow each other; kSegmentMap, kSegmentUnmap and kCancelWork have no answer.
// Both sides decode with bounds: a plugin may have taken over its runner.
#pragma once

#include <optional>

#include "core/wire/peer.hpp"

namespace goblin::wire {

/// Runner → daemon, first.
struct RunnerHello {
  std::uint32_t abi_major = 0;
  std::uint32_t abi_minor = 0;
  std::uint32_t pid = 0;  ///< of the runner, as its daemon sees it: the daemon's child is a spawner
};

/// Loads the plugin whose sealed memfd comes with the frame. Once per runner.
struct RunnerLoad {
  std::string backend;  ///< path of the backend's library, of this installation
  std::string device;   ///< name of its device; empty: the best
  std::uint32_t threads = 1;
  std::uint64_t memory_bytes = 0;  ///< cap the runner sets on itself; 0: none
};

struct InputDescription {
  std::string name, doc;
  std::uint64_t dtypes = 0;
  std::uint32_t min_rank = 0, max_rank = 0;
  bool optional = false;
};
struct ParamDescription {
  std::string name, doc;
  Value default_value, min_value, max_value;
  bool required = false;
};
struct OutputDescription {
  std::string name, doc;
};
struct KindDescription {
  std::string name, doc;
  std::uint32_t version = 0;
  std::vector<InputDescription> inputs;
  std::vector<ParamDescription> params;
  std::vector<OutputDescription> outputs;
  std::uint32_t default_policy = 0;
  std::uint32_t default_replicas = 0;
};
struct RunnerLoaded {
  std::int32_t status = 0;
  std::string message;
  std::vector<KindDescription> kinds;
  std::string device;  ///< the one chosen
};

/// Names shared memory; the descriptor comes with the frame.
struct SegmentMap {
  std::uint32_t segment = 0;
  std::uint64_t size = 0;
  bool writable = false;
};
struct SegmentUnmap {
  std::vector<std::uint32_t> segments;
};

/// A strided tensor in a segment. The runner refuses one that leaves it.
struct TensorAt {
  DType dtype = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< bytes; empty: row-major
  std::uint32_t segment = 0;
  std::uint64_t offset = 0;  ///< bytes, of element (0, …, 0)
};

struct RunnerTask {
  std::uint64_t id = 0;
  std::uint32_t kind = 0;
  std::vector<Value> params;
  std::vector<TensorAt> inputs;
  std::vector<TensorAt> outputs;
};
struct Execute {
  std::vector<RunnerTask> tasks;
};
struct ExecutedTask {
  std::uint64_t id = 0;
  std::int32_t status = 0;
  std::string message;  ///< stays on this machine
  std::uint64_t compute_us = 0;
};
struct Executed {
  std::vector<ExecutedTask> tasks;
  std::uint64_t peak_bytes = 0;  ///< high-water mark of the runner's resident memory
  std::uint64_t cpu_us = 0;      ///< processor time of the runner so far
};

struct Capacity {
  std::uint64_t memory_bytes = 0, min_memory_bytes = 0, hosts = 0;
  std::uint32_t threads = 1;
};

struct Validate {
  std::uint32_t kind = 0;
  std::vector<TensorAt> inputs;  ///< types only; dtype 0: left out
  std::vector<Value> params;
};
struct Validated {
  std::int32_t status = 0;
  std::string message;
  std::vector<TensorSpec> outputs;
  double flops = 0, bytes = 0;
  std::uint64_t min_task_bytes = 0;
};

struct PlanOpen {
  std::uint32_t kind = 0;
  std::vector<TensorAt> inputs;  ///< dtype 0: left out
  std::vector<Value> params;
  std::vector<TensorAt> outputs;  ///< writable
  Capacity capacity;
  std::optional<Bytes> state;  ///< after a restart
};
struct PlanOpened {
  std::int32_t status = 0;
  std::string message;
  Bytes state;
};

/// As goblin_view_v1.
struct View {
  std::uint32_t source = 0;
  std::uint32_t index = 0;
  std::uint64_t task = 0;
  std::int64_t offset = 0;
  DType dtype = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;

  bool operator==(const View&) const = default;
};
struct PlannedTask {
  std::uint64_t id = 0;
  std::vector<Value> params;
  std::vector<View> inputs;
  std::vector<TensorSpec> outputs;
  double flops = 0;
  std::uint64_t memory_bytes = 0;

  bool operator==(const PlannedTask&) const = default;
};
struct PlanNext {
  Capacity capacity;
  std::uint32_t max_tasks = 0;
};
struct Planned {
  std::int32_t status = 0;
  std::string message;
  std::uint32_t progress = 0;  ///< GOBLIN_PLAN_*
  std::vector<PlannedTask> tasks;
};

struct AcceptTask {
  PlannedTask task;
  bool has_outputs = false;       ///< false: was MERGED before a restart
  std::vector<TensorAt> outputs;  ///< of a kept result: their segments stay mapped till the end
};
struct Accept {
  std::vector<AcceptTask> tasks;
};
struct AcceptedTask {
  std::uint64_t id = 0;
  std::int32_t status = 0;
  std::uint32_t disposition = 0;  ///< GOBLIN_ACCEPT_*
  std::string message;
};
struct Accepted {
  std::vector<AcceptedTask> tasks;
};

struct Recall {
  PlannedTask task;
  std::vector<TensorAt> outputs;
};
struct Finish {};
/// Answers kRecall and kFinish.
struct Done {
  std::int32_t status = 0;
  std::string message;
};

struct CheckTask {
  RunnerTask task;
  std::array<std::uint8_t, 32> seed{};
};
struct Check {
  std::vector<CheckTask> tasks;
};
struct CheckedTask {
  std::uint64_t id = 0;
  std::int32_t status = 0;
  std::uint32_t verdict = 0;  ///< GOBLIN_VERDICT_*
  std::string message;
  std::uint64_t check_us = 0;  ///< processor time
};
/// Answers kCheck and kCompare.
struct Checked {
  std::vector<CheckedTask> tasks;
};
struct Compare {
  RunnerTask canonical;
  std::vector<TensorAt> other;
};
struct CancelWork {};

// clang-format off
#define GOBLIN_WIRE_RUNNER_MESSAGES(X) \
  X(RunnerHello, runner_hello) X(RunnerLoad, runner_load) X(RunnerLoaded, runner_loaded) \
  X(SegmentMap, segment_map) X(SegmentUnmap, segment_unmap) X(Execute, execute) \
  X(Executed, executed) X(Validate, validate) X(Validated, validated) \
  X(PlanOpen, plan_open) X(PlanOpened, plan_opened) X(PlanNext, plan_next) \
  X(Planned, planned) X(Accept, accept) X(Accepted, accepted) X(Recall, recall) \
  X(Finish, finish) X(Done, done) X(Check, check) X(Checked, checked) \
  X(Compare, compare) X(CancelWork, cancel_work)
// clang-format on

GOBLIN_WIRE_RUNNER_MESSAGES(GOBLIN_WIRE_DECLARE)

}  // namespace goblin::wire
