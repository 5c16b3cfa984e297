// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Greetings, blobs and the coordinator's messages (peer.capnp).
#include "core/wire/peer.hpp"

#include "core/wire/codec_task.hpp"
#include "peer.capnp.h"

namespace goblin::wire::codec {

GOBLIN_WIRE_STRUCT(Hello) {
  GOBLIN_NUMBER(protocol_min, ProtocolMin);
  GOBLIN_NUMBER(protocol_max, ProtocolMax);
  GOBLIN_ENUM(role, Role, Role::kCoordinator, Role::kClient);
  GOBLIN_NUMBER(release, Release);
}
GOBLIN_WIRE_STRUCT(Welcome) {
  GOBLIN_ENUM(refusal, Refusal, Refusal::kNone, Refusal::kShuttingDown);
  GOBLIN_NUMBER(protocol, Protocol);
  GOBLIN_ENUM(role, Role, Role::kCoordinator, Role::kClient);
  GOBLIN_NUMBER(release, Release);
}
GOBLIN_WIRE_STRUCT(Goodbye) {
  GOBLIN_ENUM(reason, Reason, Code::kInvalidArgument, Code::kInternal);
}

GOBLIN_WIRE_STRUCT(BlobGet) {
  GOBLIN_NUMBER(stream, Stream);
  GOBLIN_DIGEST(digest, Digest);
  GOBLIN_NUMBER(offset, Offset);
  GOBLIN_NUMBER(credit, Credit);
}
GOBLIN_WIRE_STRUCT(BlobInfo) {
  GOBLIN_NUMBER(stream, Stream);
  GOBLIN_STATUS(status, Status);
  GOBLIN_NUMBER(size, Size);
}
GOBLIN_WIRE_STRUCT(BlobData) {
  GOBLIN_NUMBER(stream, Stream);
  GOBLIN_NUMBER(offset, Offset);
}
GOBLIN_WIRE_STRUCT(BlobCredit) {
  GOBLIN_NUMBER(stream, Stream);
  GOBLIN_NUMBER(bytes, Bytes);
}
GOBLIN_WIRE_STRUCT(BlobCancel) {
  GOBLIN_NUMBER(stream, Stream);
  GOBLIN_STATUS(status, Status);
}

GOBLIN_WIRE_STRUCT(HostStatus) {
  GOBLIN_STRUCT(capacity, Capacity);
  GOBLIN_ENUM(state, State, HostState::kReady, HostState::kStopping);
  GOBLIN_NUMBER(leases, Leases);
}
GOBLIN_WIRE_STRUCT(LabAssignment) {
  GOBLIN_DIGEST(lab, Lab);
  GOBLIN_TEXT(address, Address, kMaxAddressBytes);
  GOBLIN_NUMBER(port, Port);
  GOBLIN_NUMBER(lease_ms, LeaseMs);
}
GOBLIN_WIRE_STRUCT(LabAssignments) { GOBLIN_LIST(labs, Labs, kMaxPeers); }
GOBLIN_WIRE_STRUCT(LabStatus) {
  GOBLIN_TEXT(address, Address, kMaxAddressBytes);
  GOBLIN_NUMBER(port, Port);
  GOBLIN_NUMBER(hosts_wanted, HostsWanted);
  GOBLIN_NUMBER(jobs, Jobs);
}
GOBLIN_WIRE_STRUCT(HostAssignment) {
  GOBLIN_DIGEST(host, Host);
  GOBLIN_NUMBER(validator, Validator);
  GOBLIN_NUMBER(lease_ms, LeaseMs);
}
GOBLIN_WIRE_STRUCT(HostAssignments) { GOBLIN_LIST(hosts, Hosts, kMaxPeers); }

GOBLIN_WIRE_STRUCT(MetadataGet) {
  GOBLIN_ENUM(file, File, ServedFile::kRoot, ServedFile::kTimestamp);
  GOBLIN_NUMBER(version, Version);
}
GOBLIN_WIRE_STRUCT(Metadata) {
  GOBLIN_ENUM(file, File, ServedFile::kRoot, ServedFile::kTimestamp);
  GOBLIN_NUMBER(version, Version);
  GOBLIN_STATUS(status, Status);
}
GOBLIN_WIRE_STRUCT(CatalogueNews) {}

}  // namespace goblin::wire::codec

namespace goblin::wire {

std::string_view role_name(Role role) {
  switch (role) {
    case Role::kCoordinator:
      return "coordinator";
    case Role::kLab:
      return "lab node";
    case Role::kHost:
      return "host";
    case Role::kClient:
      return "client";
  }
  return "unknown role";
}

GOBLIN_WIRE_DEFINE(Hello, hello)
GOBLIN_WIRE_DEFINE(Welcome, welcome)
GOBLIN_WIRE_DEFINE(Goodbye, goodbye)
GOBLIN_WIRE_DEFINE(BlobGet, blob_get)
GOBLIN_WIRE_DEFINE(BlobInfo, blob_info)
GOBLIN_WIRE_DEFINE(BlobData, blob_data)
GOBLIN_WIRE_DEFINE(BlobCredit, blob_credit)
GOBLIN_WIRE_DEFINE(BlobCancel, blob_cancel)
GOBLIN_WIRE_DEFINE(HostStatus, host_status)
GOBLIN_WIRE_DEFINE(LabAssignments, lab_assignments)
GOBLIN_WIRE_DEFINE(LabStatus, lab_status)
GOBLIN_WIRE_DEFINE(HostAssignments, host_assignments)
GOBLIN_WIRE_DEFINE(MetadataGet, metadata_get)
GOBLIN_WIRE_DEFINE(Metadata, metadata)
GOBLIN_WIRE_DEFINE(CatalogueNews, catalogue_news)
}  // namespace goblin::wire
