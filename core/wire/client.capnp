# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
# Between a client and a lab node, or a command and the daemon that it asks. These stay in the lab,
# so text is allowed. Field numbers are on the wire: append, never renumber.
@0xe9cf63d9e761ef5e;

using Cxx = import "/capnp/c++.capnp";
using Task = import "task.capnp";
using Runner = import "runner.capnp";
$Cxx.namespace("goblin::wire::schema");

struct JobInput {
  name @0 :Text;
  dtype @1 :UInt32;
  shape @2 :List(Int64);
  strides @3 :List(Int64);
  storage @4 :UInt8;
  stage @5 :UInt64;
  fdIndex @6 :UInt32;
  path @7 :Text;
  offset @8 :UInt64;
  digest @9 :Task.Digest;  # of a blob
}

struct JobOutputFile {
  name @0 :Text;
  fdIndex @1 :UInt32;
  path @2 :Text;
  offset @3 :UInt64;
}

struct NamedValue {
  name @0 :Text;
  value @1 :Task.Value;
}

struct Words {
  name @0 :Text;
  value @1 :Text;
}

struct Stage {
  size @0 :UInt64;
}

struct Submit {
  tokenLow @0 :UInt64;
  tokenHigh @1 :UInt64;
  kind @2 :Text;
  inputs @3 :List(JobInput);
  params @4 :List(NamedValue);
  outputs @5 :List(JobOutputFile);
  policy @6 :UInt8;
  replicas @7 :UInt32;
  weight @8 :UInt32;
  dryRun @9 :Bool;
  forecast @10 :Bool;
}

struct JobNumber {
  job @0 :UInt64;
  watch @1 :Bool;
}

struct Control {
  command @0 :Text;
  values @1 :List(NamedValue);
}

struct Request {
  number @0 :UInt32;
  body :union {
    stage @1 :Stage;
    submit @2 :Submit;
    getJob @3 :JobNumber;
    getJobs @4 :Void;
    cancelJob @5 :JobNumber;
    explainJob @6 :JobNumber;
    getResult @7 :JobNumber;
    forgetJob @8 :JobNumber;
    getHosts @9 :Void;
    getKinds @10 :Void;
    getStatus @11 :Void;
    control @12 :Control;
    estimateJob @13 :JobNumber;
  }
}

struct Staged {
  stage @0 :UInt64;
}

struct OutputInfo {
  name @0 :Text;
  spec @1 :Task.TensorSpec;
  staged @2 :Bool;
  offset @3 :UInt64;
  digest @4 :Task.Digest;
}

struct JobStatus {
  job @0 :UInt64;
  kind @1 :Text;
  state @2 :UInt8;
  status @3 :Int32;
  message @4 :Text;
  outputs @5 :List(OutputInfo);
  tasksPlanned @6 :UInt64;
  tasksRunning @7 :UInt64;
  tasksAccepted @8 :UInt64;
  planDone @9 :Bool;
  flopsTotal @10 :Float64;
  flopsAccepted @11 :Float64;
  resultsChecked @12 :UInt64;
  resultsRefused @13 :UInt64;
  recomputed @14 :UInt64;
  bytesSent @15 :UInt64;
  bytesReceived @16 :UInt64;
  computeUs @17 :UInt64;
  checkUs @18 :UInt64;
  wallUs @19 :UInt64;
  hosts @20 :UInt32;
}

struct JobList {
  jobs @0 :List(JobStatus);
}

struct HostReport {
  host @0 :Task.Digest;
  connected @1 :Bool;
  validator @2 :Bool;
  capacity @3 :Task.HostCapacity;
  state @4 :UInt8;
  leases @5 :UInt32;
  accepted @6 :UInt64;
  refused @7 :UInt64;
  failed @8 :UInt64;
  computeUs @9 :UInt64;
  bytesSent @10 :UInt64;
  bytesReceived @11 :UInt64;
  peakBytes @12 :UInt64;
  quarantined @13 :Bool;
  reason @14 :Text;
  confirmed @15 :UInt64;
  passed @16 :UInt64;
  faults @17 :UInt32;
  forgiven @18 :UInt32;
}

struct HostList {
  hosts @0 :List(HostReport);
}

struct KindInfo {
  description @0 :Runner.KindDescription;
  plugin @1 :Task.Digest;
}

struct KindList {
  kinds @0 :List(KindInfo);
}

struct Incident {
  task @0 :UInt64;
  host @1 :Task.Digest;
  what @2 :Text;
  detail @3 :Text;
}

struct Explanation {
  status @0 :JobStatus;
  policy @1 :UInt8;
  replicas @2 :UInt32;
  hosts @3 :List(HostReport);
  incidents @4 :List(Incident);
  incidentCount @5 :UInt64;
  plan @6 :List(Words);
}

struct Estimated {
  outputs @0 :List(OutputInfo);
  flops @1 :Float64;
  bytes @2 :Float64;
  minTaskBytes @3 :UInt64;
  forecast @4 :Bool;
  seconds @5 :Float64;
  bound @6 :UInt8;
  hostsSpeedS @7 :Float64;
  labLinkS @8 :Float64;
  hostLinkS @9 :Float64;
  bytesToHosts @10 :Float64;
  bytesFromHosts @11 :Float64;
  flopsComputed @12 :Float64;
  flopsPerS @13 :Float64;
  labToHosts @14 :Float64;
  labFromHosts @15 :Float64;
  slowestToHost @16 :Float64;
  slowestFromHost @17 :Float64;
  longestRttS @18 :Float64;
  hosts @19 :UInt32;
  starts @20 :UInt64;
  plannedShare @21 :Float64;
  speedsAssumed @22 :UInt32;
  jobsBeside @23 :UInt32;
  remaining @24 :Float64;
}

struct StatusReport {
  fields @0 :List(Words);
}

struct Reply {
  number @0 :UInt32;
  status @1 :Int32;
  message @2 :Text;
  body :union {
    ok @3 :Void;
    staged @4 :Staged;
    jobStatus @5 :JobStatus;
    jobList @6 :JobList;
    hostList @7 :HostList;
    kindList @8 :KindList;
    explanation @9 :Explanation;
    estimated @10 :Estimated;
    statusReport @11 :StatusReport;
  }
}

struct Event {
  status @0 :JobStatus;
}
