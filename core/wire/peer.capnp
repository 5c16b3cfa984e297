# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
# Greetings, blobs, and what the coordinator tells hosts and lab nodes. The only texts are addresses
# of peers. Field numbers are on the wire: append, never renumber.
@0xa5c44029b6ecc51c;

using Cxx = import "/capnp/c++.capnp";
using Task = import "task.capnp";
$Cxx.namespace("goblin::wire::schema");

struct Hello {
  protocolMin @0 :UInt16;
  protocolMax @1 :UInt16;
  role @2 :UInt8;
  release @3 :UInt32;
}

struct Welcome {
  refusal @0 :UInt8;
  protocol @1 :UInt16;
  role @2 :UInt8;
  release @3 :UInt32;
}

struct Goodbye {
  reason @0 :Int32;
}

struct BlobGet {
  stream @0 :UInt32;
  digest @1 :Task.Digest;
  offset @2 :UInt64;
  credit @3 :UInt64;
}

struct BlobInfo {
  stream @0 :UInt32;
  status @1 :Int32;
  size @2 :UInt64;
}

struct BlobData {
  stream @0 :UInt32;
  offset @1 :UInt64;
}

struct BlobCredit {
  stream @0 :UInt32;
  bytes @1 :UInt64;
}

struct BlobCancel {
  stream @0 :UInt32;
  status @1 :Int32;
}

struct HostStatus {
  capacity @0 :Task.HostCapacity;
  state @1 :UInt8;
  leases @2 :UInt32;
}

struct LabAssignment {
  lab @0 :Task.Digest;
  address @1 :Text;
  port @2 :UInt16;
  leaseMs @3 :UInt32;
}

struct LabAssignments {
  labs @0 :List(LabAssignment);
}

struct LabStatus {
  address @0 :Text;
  port @1 :UInt16;
  hostsWanted @2 :UInt32;
  jobs @3 :UInt32;
}

struct HostAssignment {
  host @0 :Task.Digest;
  validator @1 :Bool;
  leaseMs @2 :UInt32;
}

struct HostAssignments {
  hosts @0 :List(HostAssignment);
}

struct MetadataGet {
  file @0 :UInt8;
  version @1 :UInt64;
}

struct Metadata {
  file @0 :UInt8;
  version @1 :UInt64;
  status @2 :Int32;
}

struct CatalogueNews {
}
