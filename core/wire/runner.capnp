# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
# Between a daemon and its runner, on one machine. Field numbers are on the wire: a runner may be of
# another release than the daemon that starts it, so append, never renumber.
@0x84c49dbeda9a2ccc;

using Cxx = import "/capnp/c++.capnp";
using Task = import "task.capnp";
$Cxx.namespace("goblin::wire::schema");

struct RunnerHello {
  abiMajor @0 :UInt32;
  abiMinor @1 :UInt32;
  pid @2 :UInt32;
}

struct RunnerLoad {
  backend @0 :Text;
  device @1 :Text;
  threads @2 :UInt32;
  memoryBytes @3 :UInt64;
}

struct InputDescription {
  name @0 :Text;
  doc @1 :Text;
  dtypes @2 :UInt64;
  minRank @3 :UInt32;
  maxRank @4 :UInt32;
  optional @5 :Bool;
}

struct ParamDescription {
  name @0 :Text;
  doc @1 :Text;
  defaultValue @2 :Task.Value;
  minValue @3 :Task.Value;
  maxValue @4 :Task.Value;
  required @5 :Bool;
}

struct OutputDescription {
  name @0 :Text;
  doc @1 :Text;
}

struct KindDescription {
  name @0 :Text;
  doc @1 :Text;
  version @2 :UInt32;
  inputs @3 :List(InputDescription);
  params @4 :List(ParamDescription);
  outputs @5 :List(OutputDescription);
  defaultPolicy @6 :UInt32;
  defaultReplicas @7 :UInt32;
}

struct RunnerLoaded {
  status @0 :Int32;
  message @1 :Text;
  kinds @2 :List(KindDescription);
  device @3 :Text;
}

struct SegmentMap {
  segment @0 :UInt32;
  size @1 :UInt64;
  writable @2 :Bool;
}

struct SegmentUnmap {
  segments @0 :List(UInt32);
}

struct TensorAt {
  dtype @0 :UInt32;
  segment @1 :UInt32;
  offset @2 :UInt64;
  shape @3 :List(Int64);
  strides @4 :List(Int64);
}

struct RunnerTask {
  id @0 :UInt64;
  kind @1 :UInt32;
  params @2 :List(Task.Value);
  inputs @3 :List(TensorAt);
  outputs @4 :List(TensorAt);
}

struct Execute {
  tasks @0 :List(RunnerTask);
}

struct ExecutedTask {
  id @0 :UInt64;
  status @1 :Int32;
  message @2 :Text;
  computeUs @3 :UInt64;
}

struct Executed {
  tasks @0 :List(ExecutedTask);
  peakBytes @1 :UInt64;
  cpuUs @2 :UInt64;
}

struct Capacity {
  memoryBytes @0 :UInt64;
  minMemoryBytes @1 :UInt64;
  hosts @2 :UInt64;
  threads @3 :UInt32;
}

struct Validate {
  kind @0 :UInt32;
  inputs @1 :List(TensorAt);
  params @2 :List(Task.Value);
}

struct Validated {
  status @0 :Int32;
  message @1 :Text;
  outputs @2 :List(Task.TensorSpec);
  flops @3 :Float64;
  bytes @4 :Float64;
  minTaskBytes @5 :UInt64;
}

struct PlanOpen {
  kind @0 :UInt32;
  inputs @1 :List(TensorAt);
  params @2 :List(Task.Value);
  outputs @3 :List(TensorAt);
  capacity @4 :Capacity;
  state @5 :Data;  # absent for a new job
}

struct PlanOpened {
  status @0 :Int32;
  message @1 :Text;
  state @2 :Data;
}

struct View {
  source @0 :UInt32;
  index @1 :UInt32;
  task @2 :UInt64;
  offset @3 :Int64;
  dtype @4 :UInt32;
  shape @5 :List(Int64);
  strides @6 :List(Int64);
}

struct PlannedTask {
  id @0 :UInt64;
  params @1 :List(Task.Value);
  inputs @2 :List(View);
  outputs @3 :List(Task.TensorSpec);
  flops @4 :Float64;
  memoryBytes @5 :UInt64;
}

struct PlanNext {
  capacity @0 :Capacity;
  maxTasks @1 :UInt32;
}

struct Planned {
  status @0 :Int32;
  message @1 :Text;
  progress @2 :UInt32;
  tasks @3 :List(PlannedTask);
}

struct AcceptTask {
  task @0 :PlannedTask;
  hasOutputs @1 :Bool;
  outputs @2 :List(TensorAt);
}

struct Accept {
  tasks @0 :List(AcceptTask);
}

struct AcceptedTask {
  id @0 :UInt64;
  status @1 :Int32;
  disposition @2 :UInt32;
  message @3 :Text;
}

struct Accepted {
  tasks @0 :List(AcceptedTask);
}

struct Recall {
  task @0 :PlannedTask;
  outputs @1 :List(TensorAt);
}

struct Finish {
}

struct Done {
  status @0 :Int32;
  message @1 :Text;
}

struct CheckTask {
  task @0 :RunnerTask;
  seed @1 :Task.Digest;  # 32 secret bytes
}

struct Check {
  tasks @0 :List(CheckTask);
}

struct CheckedTask {
  id @0 :UInt64;
  status @1 :Int32;
  verdict @2 :UInt32;
  message @3 :Text;
  checkUs @4 :UInt64;
}

struct Checked {
  tasks @0 :List(CheckedTask);
}

struct Compare {
  canonical @0 :RunnerTask;
  other @1 :List(TensorAt);
}

struct CancelWork {
}
