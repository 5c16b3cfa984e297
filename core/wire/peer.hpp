// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Messages between peers: greetings, blobs, the coordinator's part, tasks and results.
// Every struct has `Bytes encode(const T&)` and `Result<T> decode_<name>(ByteView)`; decode bounds
// everything (list lengths, ranks, sizes) and answers kCorrupt with the field's name.
#pragma once

#include "core/wire/frame.hpp"
#include "core/wire/values.hpp"

namespace goblin::wire {

enum class Role : std::uint8_t { kCoordinator = 1, kLab = 2, kHost = 3, kClient = 4 };
/// "lab node", as messages say it.
std::string_view role_name(Role role);

struct Hello {
  std::uint16_t protocol_min = kProtocolMin;
  std::uint16_t protocol_max = kProtocol;
  Role role = Role::kHost;
  std::uint32_t release = 0;  ///< major << 16 | minor << 8 | patch
};

/// Why a peer was refused.
enum class Refusal : std::uint8_t {
  kNone = 0,
  kProtocolTooOld = 1,
  kProtocolTooNew = 2,
  kNotAuthorised = 3,
  kBusy = 4,
  kWrongRole = 5,
  kShuttingDown = 6,
};

/// The server's answer: the client may talk only after it.
struct Welcome {
  Refusal refusal = Refusal::kNone;
  std::uint16_t protocol = 0;  ///< the one to speak; with a refusal, the highest that would do
  Role role = Role::kLab;
  std::uint32_t release = 0;
};

struct Goodbye {
  Code reason = Code::kUnavailable;
};

// ---- blobs ----

/// Asks the peer for a blob from `offset` on. The peer sends kBlobInfo, then kBlobData frames
/// within the credit. `stream` is chosen by the asker, unique among its open streams on the
/// connection.
struct BlobGet {
  std::uint32_t stream = 0;
  Digest digest;
  std::uint64_t offset = 0;
  std::uint64_t credit = 0;  ///< payload bytes that may be sent before more is granted
};
struct BlobInfo {
  std::uint32_t stream = 0;
  std::int32_t status = 0;  ///< GOBLIN_OK or why there will be no bytes
  std::uint64_t size = 0;   ///< of the whole blob
};
struct BlobData {
  std::uint32_t stream = 0;
  std::uint64_t offset = 0;  ///< of the frame's payload in the blob
};
struct BlobCredit {
  std::uint32_t stream = 0;
  std::uint64_t bytes = 0;
};
/// From the asker, with GOBLIN_CANCELLED: no more. From the sender, with another code: the source
/// failed midway, or (GOBLIN_UNAVAILABLE) the answer to the asker's cancel; it is the stream's
/// last.
struct BlobCancel {
  std::uint32_t stream = 0;
  std::int32_t status = GOBLIN_CANCELLED;
};

// ---- coordinator ----

/// What a host lends.
struct HostCapacity {
  std::uint32_t threads = 0;
  std::uint32_t slots = 0;         ///< leases that it takes at once, queue included
  std::uint64_t memory_bytes = 0;  ///< cap of one runner
  std::uint64_t cache_bytes = 0;   ///< cap of its input cache on disk
  std::uint32_t abi_major = 0;
  std::uint32_t abi_minor = 0;
  /// Multiply-adds, counted as two, that its threads do in a second, measured; 0: not known.
  double flops_f32 = 0, flops_f64 = 0;

  bool operator==(const HostCapacity&) const = default;
};
enum class HostState : std::uint8_t { kReady = 1, kPaused = 2, kStopping = 3 };

/// Host → coordinator: registers, then every few seconds as a heartbeat.
struct HostStatus {
  HostCapacity capacity;
  HostState state = HostState::kReady;
  std::uint32_t leases = 0;  ///< held now
};

/// Coordinator → host: which lab nodes it serves; replaces the previous list. A lease not renewed
/// within `lease_ms` ends.
struct LabAssignment {
  Digest lab;           ///< pin of the lab node's key
  std::string address;  ///< host name or IP address to connect to
  std::uint16_t port = 0;
  std::uint32_t lease_ms = 0;
};
struct LabAssignments {
  std::vector<LabAssignment> labs;
};

/// Lab node → coordinator: registers, then as a heartbeat.
struct LabStatus {
  std::string address;  ///< where hosts reach it; empty: the address the connection comes from
  std::uint16_t port = 0;
  std::uint32_t hosts_wanted = 0;
  std::uint32_t jobs = 0;
};
struct HostAssignment {
  Digest host;  ///< pin of the host's key
  bool validator = false;
  std::uint32_t lease_ms = 0;
};
/// Coordinator → lab node: who serves it. A host no longer named keeps its lease until it ends.
struct HostAssignments {
  std::vector<HostAssignment> hosts;
};

/// Signed files of the catalogue that no digest names yet; targets are a blob, which the timestamp
/// names.
enum class ServedFile : std::uint8_t { kRoot = 1, kTimestamp = 2 };
/// Host, lab node → coordinator. One at a time.
struct MetadataGet {
  ServedFile file = ServedFile::kRoot;
  std::uint64_t version = 0;  ///< 0: the newest
};
/// Its answer: the file is the frame's payload.
struct Metadata {
  ServedFile file = ServedFile::kRoot;
  std::uint64_t version = 0;  ///< as it was asked for
  std::int32_t status = 0;    ///< GOBLIN_OK, or why there is no file
};
/// Coordinator → host, lab node: there is a newer timestamp than it last served.
struct CatalogueNews {};

// ---- tasks ----

struct HostOffer {
  HostCapacity capacity;
  HostState state = HostState::kReady;

  bool operator==(const HostOffer&) const = default;
};

/// A task as it travels: numbers only.
struct Lease {
  std::uint64_t lease = 0;  ///< the lab node's number for this start of the task
  std::uint64_t job = 0;    ///< same job, same runner; says nothing else
  Digest plugin;
  std::uint32_t kind = 0;  ///< index in the plugin
  std::vector<Value> params;
  std::vector<TensorRef> inputs;
  std::vector<TensorSpec> outputs;
  double flops = 0;
  std::uint64_t memory_bytes = 0;
  std::uint32_t deadline_ms = 0;  ///< from receipt; the lab node gives up then
};
struct Leases {
  std::vector<Lease> leases;
};

struct TaskResult {
  std::uint64_t lease = 0;
  std::int32_t status = GOBLIN_OK;  ///< closed code; outputs are empty unless GOBLIN_OK
  std::vector<TensorRef> outputs;   ///< digests commit the host before anyone fetches the bytes
  std::uint64_t compute_us = 0;
  std::uint64_t fetch_us = 0;
  std::uint64_t peak_bytes = 0;  ///< measured peak of the runner, 0 if unknown
};
struct Results {
  std::vector<TaskResult> results;
};

struct CancelLeases {
  std::vector<std::uint64_t> leases;
};
/// Host → lab node: these leases end without a result.
struct HandBack {
  std::vector<std::uint64_t> leases;
  Code reason = Code::kUnavailable;
};
struct Heartbeat {
  std::vector<std::uint64_t> running;  ///< leases being computed now
};
/// Lab node → host: results that it need not keep any longer.
struct ReleaseResults {
  std::vector<std::uint64_t> leases;
};
/// Results of the host were wrong. Whoever runs it should know: memory, heat, overclocking.
struct Standing {
  std::uint32_t faults = 0;        ///< wrong results that were not made up for
  std::uint32_t forgiven = 0;      ///< and those that were
  std::uint64_t suspended_ms = 0;  ///< so long it gets no work of this lab node
};
/// Lab node → host: one of `count` frames that come one after another, to learn how fast the link
/// is. The last one is answered with as many LinkEcho as `answers` says.
struct LinkProbe {
  std::uint32_t number = 0;  ///< of the measurement
  std::uint32_t index = 0, count = 0;
  std::uint32_t answers = 0;  ///< 1 to kMaxLinkFrames; with payloads as long as the last one's
};
/// Its answer. `bytes`: of the probe's frames after the one in its middle, which took `micros`.
struct LinkEcho {
  std::uint32_t number = 0;
  std::uint32_t index = 0, count = 0;
  std::uint64_t bytes = 0, micros = 0;
};
inline constexpr std::uint32_t kMaxLinkFrames = 64;

// clang-format off
#define GOBLIN_WIRE_PEER_MESSAGES(X) \
  X(Hello, hello) X(Welcome, welcome) X(Goodbye, goodbye) X(BlobGet, blob_get) \
  X(BlobInfo, blob_info) X(BlobData, blob_data) X(BlobCredit, blob_credit) \
  X(BlobCancel, blob_cancel) X(HostStatus, host_status) \
  X(LabAssignments, lab_assignments) X(LabStatus, lab_status) \
  X(HostAssignments, host_assignments) X(MetadataGet, metadata_get) \
  X(Metadata, metadata) X(CatalogueNews, catalogue_news) X(HostOffer, host_offer) X(Leases, leases) \
  X(Results, results) X(CancelLeases, cancel_leases) X(HandBack, hand_back) \
  X(Heartbeat, heartbeat) X(ReleaseResults, release_results) X(Standing, standing) \
  X(LinkProbe, link_probe) X(LinkEcho, link_echo)
// clang-format on

#define GOBLIN_WIRE_DECLARE(Type, name) \
  Bytes encode(const Type& message);    \
  Result<Type> decode_##name(ByteView bytes);
GOBLIN_WIRE_PEER_MESSAGES(GOBLIN_WIRE_DECLARE)

}  // namespace goblin::wire
