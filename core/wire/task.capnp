# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
# What hosts and lab nodes tell each other about work: numbers only. No struct reachable from here
# may hold Text, Data or a pointer of any type; tests/core/wire/privacy_test.cpp walks the schema.
# Field numbers are on the wire: append, never renumber. Enumerations are the numbers of
# core/wire/*.hpp and goblin/abi/types.h; units and meanings are stated there too.
@0xbf793f2eff9d8faa;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("goblin::wire::schema");

struct Digest {  # 32 bytes as four little-endian words
  a @0 :UInt64;
  b @1 :UInt64;
  c @2 :UInt64;
  d @3 :UInt64;
}

struct Value {
  type @0 :UInt32;  # GOBLIN_VALUE_*
  bits @1 :UInt64;  # two's complement or IEEE binary64, by type
}

struct TensorSpec {
  dtype @0 :UInt32;
  shape @1 :List(Int64);
}

struct TensorRef {
  dtype @0 :UInt32;
  inlineOffset @1 :UInt32 = 0xffffffff;
  shape @2 :List(Int64);
  digest @3 :Digest;  # absent when inline
}

struct HostCapacity {
  threads @0 :UInt32;
  slots @1 :UInt32;
  memoryBytes @2 :UInt64;
  cacheBytes @3 :UInt64;
  abiMajor @4 :UInt32;
  abiMinor @5 :UInt32;
  flopsF32 @6 :Float64;
  flopsF64 @7 :Float64;
}

struct HostOffer {
  capacity @0 :HostCapacity;
  state @1 :UInt8;
}

struct Lease {
  lease @0 :UInt64;
  job @1 :UInt64;
  plugin @2 :Digest;
  kind @3 :UInt32;
  params @4 :List(Value);
  inputs @5 :List(TensorRef);
  outputs @6 :List(TensorSpec);
  flops @7 :Float64;
  memoryBytes @8 :UInt64;
  deadlineMs @9 :UInt32;
}

struct Leases {
  leases @0 :List(Lease);
}

struct TaskResult {
  lease @0 :UInt64;
  status @1 :Int32;
  outputs @2 :List(TensorRef);
  computeUs @3 :UInt64;
  fetchUs @4 :UInt64;
  peakBytes @5 :UInt64;
}

struct Results {
  results @0 :List(TaskResult);
}

struct CancelLeases {
  leases @0 :List(UInt64);
}

struct HandBack {
  leases @0 :List(UInt64);
  reason @1 :Int32;
}

struct Heartbeat {
  running @0 :List(UInt64);
}

struct ReleaseResults {
  leases @0 :List(UInt64);
}

struct LinkProbe {
  number @0 :UInt32;
  index @1 :UInt32;
  count @2 :UInt32;
  answers @3 :UInt32;
}

struct LinkEcho {
  number @0 :UInt32;
  index @1 :UInt32;
  count @2 :UInt32;
  bytes @3 :UInt64;
  micros @4 :UInt64;
}

struct Standing {
  faults @0 :UInt32;
  forgiven @1 :UInt32;
  suspendedMs @2 :UInt64;
}
