// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Jobs, tasks and the planner that turns one into the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "goblin/abi/plugin.h"
#include "goblin/tensor.hpp"

namespace goblin {

/// What Job and Task share: numbers and tensors by index. An index that does not exist throws
/// Failure(kInvalidArgument), because a hostile peer chooses how many there are.
class Operands {
 public:
  std::vector<Value> params;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;

  [[nodiscard]] const Value& param(std::size_t i) const { return pick(params, i, "parameter"); }
  [[nodiscard]] std::int64_t i64(std::size_t i) const { return param(i).i64(); }
  [[nodiscard]] double f64(std::size_t i) const { return param(i).f64(); }
  [[nodiscard]] const Tensor& input(std::size_t i) const { return pick(inputs, i, "input"); }
  [[nodiscard]] const Tensor& output(std::size_t i) const { return pick(outputs, i, "output"); }

 private:
  template <typename T>
  static const T& pick(const std::vector<T>& from, std::size_t i, const char* what) {
    if (i >= from.size()) {
      throw Failure({Code::kInvalidArgument, std::string(what) + " " + std::to_string(i) +
                                                 " is missing: there are " +
                                                 std::to_string(from.size())});
    }
    return from[i];
  }
};

/// A job as the lab side sees it, in the description's order. A planner may keep a copy: the
/// memory behind its tensors stays until the planner is destroyed. In `validate` there are no
/// outputs and no data. Inputs may be strided, and larger than memory: touch only what is needed.
struct Job : Operands {
  Job() = default;
  explicit Job(const goblin_job_v1& raw) {
    params.assign(raw.params, raw.params + raw.param_count);
    for (std::uint64_t i = 0; i < raw.input_count; ++i) inputs.emplace_back(raw.inputs[i]);
    for (std::uint64_t i = 0; i < raw.output_count; ++i) outputs.emplace_back(raw.outputs[i]);
  }
};

/// A task as execute, check and compare see it.
struct Task : Operands {
  std::uint64_t id = 0;  ///< 0 in execute

  Task() = default;
  explicit Task(const goblin_task_v1& raw) : id(raw.id) {
    params.assign(raw.params, raw.params + raw.param_count);
    for (std::uint64_t i = 0; i < raw.input_count; ++i) inputs.emplace_back(raw.inputs[i]);
    for (std::uint64_t i = 0; i < raw.output_count; ++i) outputs.emplace_back(raw.outputs[i]);
  }
};

/// What hosts can take now.
struct Capacity {
  std::uint64_t memory_bytes = 0;      ///< of the host that asks, or of who decides if that is less
  std::uint64_t min_memory_bytes = 0;  ///< of the smallest host worth cutting tasks for
  std::uint64_t hosts = 0;
  std::uint32_t threads = 1;  ///< of the host that asks

  Capacity() = default;
  explicit Capacity(const goblin_capacity_v1& raw)
      : memory_bytes(raw.memory_bytes),
        min_memory_bytes(raw.min_memory_bytes),
        hosts(raw.hosts),
        threads(raw.threads) {}
};

/// An input of a planned task: a window on a job's input or on a kept result of another task.
struct View {
  goblin_view_v1 raw{};

  /// All of input `index` of the job.
  static View whole(const Job& job, std::uint32_t index) {
    View view;
    view.raw.source = GOBLIN_SOURCE_JOB_INPUT;
    view.raw.index = index;
    view.raw.spec = job.input(index).raw();
    view.raw.spec.data = nullptr;
    return view;
  }
  /// All of output `index` of an accepted task whose result was kept; `spec` as it was planned.
  static View result(std::uint64_t task, std::uint32_t index, const TensorSpec& spec) {
    View view;
    view.raw.source = GOBLIN_SOURCE_TASK_RESULT;
    view.raw.index = index;
    view.raw.task = task;
    view.raw.spec = Tensor(spec).raw();
    return view;
  }
  /// Elements [start, start + length) along `axis`.
  [[nodiscard]] View slice(std::uint32_t axis, std::int64_t start, std::int64_t length) const {
    if (axis >= raw.spec.rank) throw Failure({Code::kInternal, "View::slice: no such axis"});
    View view = *this;
    // An empty window has no first element: its offset stays inside the source.
    if (length > 0) view.raw.offset += start * raw.spec.strides[axis];
    view.raw.spec.shape[axis] = length;
    return view;
  }
};

/// A task as a planner makes it.
struct PlannedTask {
  std::uint64_t id = 0;  ///< unique in the job; the same when the job is planned again
  std::vector<Value> params;
  std::vector<View> inputs;
  std::vector<TensorSpec> outputs;
  double flops = 0;                ///< work, to predict time
  std::uint64_t memory_bytes = 0;  ///< peak in the host's runner: inputs, outputs, scratch

  PlannedTask() = default;
  explicit PlannedTask(const goblin_planned_task_v1& raw)
      : id(raw.id), flops(raw.flops), memory_bytes(raw.memory_bytes) {
    params.assign(raw.params, raw.params + raw.param_count);
    for (std::uint64_t i = 0; i < raw.input_count; ++i) inputs.push_back({raw.inputs[i]});
    for (std::uint64_t i = 0; i < raw.output_count; ++i) {
      outputs.push_back(Tensor(raw.outputs[i]).spec());
    }
  }
};

/// Takes tasks from a planner.
class TaskSink {
 public:
  explicit TaskSink(const goblin_task_sink_v1& raw) : raw_(raw), room_(raw.max_tasks) {}

  /// How many more tasks it takes. A planner stops at 0 and goes on at the next call.
  [[nodiscard]] std::uint64_t room() const { return room_; }
  /// Copies the task. An error says why it was refused (a view that leaves its source, …).
  Result<void> emit(const PlannedTask& task) {
    if (room_ == 0)
      return fail(Code::kInternal, "the planner emits more tasks than were asked for");
    std::vector<goblin_value_v1> params;
    params.reserve(task.params.size());
    for (const Value& value : task.params) params.push_back(value.raw());
    std::vector<goblin_view_v1> inputs;
    inputs.reserve(task.inputs.size());
    for (const View& view : task.inputs) inputs.push_back(view.raw);
    std::vector<goblin_tensor_v1> outputs;
    outputs.reserve(task.outputs.size());
    for (const TensorSpec& spec : task.outputs) outputs.push_back(Tensor(spec).raw());
    goblin_planned_task_v1 raw{};
    raw.struct_size = sizeof raw;
    raw.id = task.id;
    raw.params = params.data();
    raw.param_count = params.size();
    raw.inputs = inputs.data();
    raw.input_count = inputs.size();
    raw.outputs = outputs.data();
    raw.output_count = outputs.size();
    raw.flops = task.flops;
    raw.memory_bytes = task.memory_bytes;
    char text[512] = "";
    goblin_text_v1 message{text, sizeof text};
    if (goblin_status_v1 status = raw_.emit(raw_.context, &raw, &message); status != GOBLIN_OK) {
      return fail(code_from_status(status), text);
    }
    --room_;
    return {};
  }

 private:
  goblin_task_sink_v1 raw_;
  std::uint64_t room_;
};

/// What the lab side lends to a planner, for the planner's life.
class Services {
 public:
  explicit Services(const goblin_planner_services_v1& raw) : raw_(raw) {}
  /// An accepted result that was kept; read only, valid until the calling planner call returns.
  [[nodiscard]] Result<Tensor> read_result(std::uint64_t task, std::uint32_t output) const {
    goblin_tensor_v1 tensor{};
    if (goblin_status_v1 status = raw_.read_result(raw_.context, task, output, &tensor);
        status != GOBLIN_OK) {
      return fail(code_from_status(status), "output " + std::to_string(output) + " of task " +
                                                std::to_string(task) + " cannot be read");
    }
    return Tensor(tensor);
  }

 private:
  goblin_planner_services_v1 raw_;
};

enum class Progress : std::uint32_t {
  kMore = GOBLIN_PLAN_MORE,  ///< ask again when there is room
  kWait = GOBLIN_PLAN_WAIT,  ///< nothing until another result is accepted
  kDone = GOBLIN_PLAN_DONE,  ///< every task has been emitted
};
enum class Disposition : std::uint32_t {
  kMerged = GOBLIN_ACCEPT_MERGED,  ///< stands in the job's outputs; recall() finds it there
  kKeep = GOBLIN_ACCEPT_KEEP,      ///< the lab node keeps it until the job ends
};

/// Plans one job. Called from one thread at a time; may throw, which fails the job.
class Planner {
 public:
  virtual ~Planner() = default;

  /// At most 64 KiB that, with the accepted tasks, restores the plan after a restart. Asked once,
  /// right after the planner was made.
  [[nodiscard]] virtual std::vector<std::byte> state() const { return {}; }
  /// Emits tasks that the asking host can hold, while the sink has room. kExhausted, with the bytes
  /// in its message, when the smallest task needs more than `capacity.memory_bytes`.
  virtual Result<Progress> next(const Capacity& capacity, TaskSink& sink) = 0;
  /// A checked result comes in, in any order. A second call for a task replaces its first result.
  virtual Result<Disposition> accept(const PlannedTask& task, std::span<const Tensor> outputs) = 0;
  /// After a restart: the task's result was kMerged before and still stands in the job's outputs.
  virtual Result<void> restore(const PlannedTask& task) {
    return fail(Code::kUnsupported,
                "task " + std::to_string(task.id) + " was merged, but this planner merges nothing");
  }
  /// Gives back a kMerged result, the same bits as were accepted.
  virtual Result<void> recall(const PlannedTask& task, std::span<const Tensor> /*outputs*/) {
    return fail(Code::kUnsupported, "task " + std::to_string(task.id) +
                                        " cannot be given back: this planner merges "
                                        "nothing");
  }
  /// Every task is accepted: completes the job's outputs.
  virtual Result<void> finish() = 0;
};

}  // namespace goblin
