// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Messages between a daemon and its runner (runner.capnp).
#include "core/wire/runner.hpp"

#include "core/wire/codec_runner.hpp"

namespace goblin::wire::codec {

GOBLIN_WIRE_STRUCT(RunnerHello) {
  GOBLIN_NUMBER(abi_major, AbiMajor);
  GOBLIN_NUMBER(abi_minor, AbiMinor);
  GOBLIN_NUMBER(pid, Pid);
}
GOBLIN_WIRE_STRUCT(RunnerLoad) {
  GOBLIN_TEXT(backend, Backend, kMaxPathBytes);
  GOBLIN_TEXT(device, Device, kMaxNameBytes);
  GOBLIN_NUMBER(threads, Threads);
  GOBLIN_NUMBER(memory_bytes, MemoryBytes);
}
GOBLIN_WIRE_STRUCT(RunnerLoaded) {
  GOBLIN_STATUS(status, Status);
  GOBLIN_MESSAGE(message, Message);
  GOBLIN_LIST(kinds, Kinds, kMaxPluginKinds);
  GOBLIN_TEXT(device, Device, kMaxNameBytes);
}

GOBLIN_WIRE_STRUCT(SegmentMap) {
  GOBLIN_NUMBER(segment, Segment);
  GOBLIN_NUMBER(size, Size);
  GOBLIN_NUMBER(writable, Writable);
}
GOBLIN_WIRE_STRUCT(SegmentUnmap) { GOBLIN_NUMBERS(segments, Segments, kMaxIds); }

GOBLIN_WIRE_STRUCT(TensorAt) {
  GOBLIN_DTYPE(dtype, Dtype, 0);
  GOBLIN_NUMBER(segment, Segment);
  GOBLIN_NUMBER(offset, Offset);
  GOBLIN_NUMBERS(shape, Shape, GOBLIN_MAX_RANK);
  GOBLIN_STRIDES(strides, Strides, true);
  if constexpr (Pass::kGet) {
    GOBLIN_AT(shape);
    pass.extents(m.dtype, m.shape);
  }
}
GOBLIN_WIRE_STRUCT(RunnerTask) {
  GOBLIN_NUMBER(id, Id);
  GOBLIN_NUMBER(kind, Kind);
  GOBLIN_LIST(params, Params, kMaxParams);
  GOBLIN_LIST(inputs, Inputs, kMaxTensors);
  GOBLIN_LIST(outputs, Outputs, kMaxTensors);
}
GOBLIN_WIRE_STRUCT(Execute) { GOBLIN_LIST(tasks, Tasks, kMaxTasks); }
GOBLIN_WIRE_STRUCT(ExecutedTask) {
  GOBLIN_NUMBER(id, Id);
  GOBLIN_STATUS(status, Status);
  GOBLIN_MESSAGE(message, Message);
  GOBLIN_NUMBER(compute_us, ComputeUs);
}
GOBLIN_WIRE_STRUCT(Executed) {
  GOBLIN_LIST(tasks, Tasks, kMaxTasks);
  GOBLIN_NUMBER(peak_bytes, PeakBytes);
  GOBLIN_NUMBER(cpu_us, CpuUs);
}

GOBLIN_WIRE_STRUCT(Capacity) {
  GOBLIN_NUMBER(memory_bytes, MemoryBytes);
  GOBLIN_NUMBER(min_memory_bytes, MinMemoryBytes);
  GOBLIN_NUMBER(hosts, Hosts);
  GOBLIN_NUMBER(threads, Threads);
}
GOBLIN_WIRE_STRUCT(Validate) {
  GOBLIN_NUMBER(kind, Kind);
  GOBLIN_LIST(inputs, Inputs, kMaxTensors);
  GOBLIN_LIST(params, Params, kMaxParams);
}
GOBLIN_WIRE_STRUCT(Validated) {
  GOBLIN_STATUS(status, Status);
  GOBLIN_MESSAGE(message, Message);
  GOBLIN_LIST(outputs, Outputs, kMaxTensors);
  GOBLIN_AMOUNT(flops, Flops);
  GOBLIN_AMOUNT(bytes, Bytes);
  GOBLIN_NUMBER(min_task_bytes, MinTaskBytes);
}

GOBLIN_WIRE_STRUCT(PlanOpen) {
  GOBLIN_NUMBER(kind, Kind);
  GOBLIN_LIST(inputs, Inputs, kMaxTensors);
  GOBLIN_LIST(params, Params, kMaxParams);
  GOBLIN_LIST(outputs, Outputs, kMaxTensors);
  GOBLIN_STRUCT(capacity, Capacity);
  GOBLIN_DATA(state, State, kMaxStateBytes, m.state.has_value(), *m.state);
}
GOBLIN_WIRE_STRUCT(PlanOpened) {
  GOBLIN_STATUS(status, Status);
  GOBLIN_MESSAGE(message, Message);
  GOBLIN_DATA(state, State, kMaxStateBytes, !m.state.empty(), m.state);
}

GOBLIN_WIRE_STRUCT(View) {
  GOBLIN_ENUM(source, Source, GOBLIN_SOURCE_JOB_INPUT, GOBLIN_SOURCE_TASK_RESULT);
  GOBLIN_NUMBER(index, Index);
  GOBLIN_NUMBER(task, Task);
  GOBLIN_NUMBER(offset, Offset);
  GOBLIN_DTYPE(dtype, Dtype, GOBLIN_BOOL);
  GOBLIN_NUMBERS(shape, Shape, GOBLIN_MAX_RANK);
  GOBLIN_STRIDES(strides, Strides, false);
  if constexpr (Pass::kGet) {
    GOBLIN_AT(shape);
    pass.extents(m.dtype, m.shape);
  }
}
GOBLIN_WIRE_STRUCT(PlannedTask) {
  GOBLIN_NUMBER(id, Id);
  GOBLIN_LIST(params, Params, kMaxParams);
  GOBLIN_LIST(inputs, Inputs, kMaxTensors);
  GOBLIN_LIST(outputs, Outputs, kMaxTensors);
  GOBLIN_AMOUNT(flops, Flops);
  GOBLIN_NUMBER(memory_bytes, MemoryBytes);
}
GOBLIN_WIRE_STRUCT(PlanNext) {
  GOBLIN_STRUCT(capacity, Capacity);
  GOBLIN_NUMBER(max_tasks, MaxTasks);
}
GOBLIN_WIRE_STRUCT(Planned) {
  GOBLIN_STATUS(status, Status);
  GOBLIN_MESSAGE(message, Message);
  GOBLIN_ENUM(progress, Progress, 0, GOBLIN_PLAN_DONE);
  GOBLIN_LIST(tasks, Tasks, kMaxTasks);
}

GOBLIN_WIRE_STRUCT(AcceptTask) {
  GOBLIN_STRUCT(task, Task);
  GOBLIN_NUMBER(has_outputs, HasOutputs);
  GOBLIN_LIST(outputs, Outputs, kMaxTensors);
}
GOBLIN_WIRE_STRUCT(Accept) { GOBLIN_LIST(tasks, Tasks, kMaxTasks); }
GOBLIN_WIRE_STRUCT(AcceptedTask) {
  GOBLIN_NUMBER(id, Id);
  GOBLIN_STATUS(status, Status);
  GOBLIN_ENUM(disposition, Disposition, 0, GOBLIN_ACCEPT_KEEP);
  GOBLIN_MESSAGE(message, Message);
}
GOBLIN_WIRE_STRUCT(Accepted) { GOBLIN_LIST(tasks, Tasks, kMaxTasks); }

GOBLIN_WIRE_STRUCT(Recall) {
  GOBLIN_STRUCT(task, Task);
  GOBLIN_LIST(outputs, Outputs, kMaxTensors);
}
GOBLIN_WIRE_STRUCT(Finish) {}
GOBLIN_WIRE_STRUCT(Done) {
  GOBLIN_STATUS(status, Status);
  GOBLIN_MESSAGE(message, Message);
}

GOBLIN_WIRE_STRUCT(CheckTask) {
  GOBLIN_STRUCT(task, Task);
  GOBLIN_BYTES32(seed, Seed);
}
GOBLIN_WIRE_STRUCT(Check) { GOBLIN_LIST(tasks, Tasks, kMaxTasks); }
GOBLIN_WIRE_STRUCT(CheckedTask) {
  GOBLIN_NUMBER(id, Id);
  GOBLIN_STATUS(status, Status);
  GOBLIN_ENUM(verdict, Verdict, 0, GOBLIN_VERDICT_ABSTAIN);
  GOBLIN_MESSAGE(message, Message);
  GOBLIN_NUMBER(check_us, CheckUs);
}
GOBLIN_WIRE_STRUCT(Checked) { GOBLIN_LIST(tasks, Tasks, kMaxTasks); }
GOBLIN_WIRE_STRUCT(Compare) {
  GOBLIN_STRUCT(canonical, Canonical);
  GOBLIN_LIST(other, Other, kMaxTensors);
}
GOBLIN_WIRE_STRUCT(CancelWork) {}

}  // namespace goblin::wire::codec

namespace goblin::wire {
GOBLIN_WIRE_RUNNER_MESSAGES(GOBLIN_WIRE_DEFINE)
}  // namespace goblin::wire
