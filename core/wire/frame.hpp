// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The 16-byte header before every message, and how long a frame of each type may be.
//
//   offset size
//   0      4    magic "GBLN"
//   4      1    header version, 1
//   5      1    flags, 0
//   6      2    frame type, little endian
//   8      4    message length in bytes, little endian, a multiple of 8
//   12     4    payload length in bytes, little endian
//   16     …    message (one Cap'n Proto segment), then payload
#pragma once

#include <cstdint>

#include "core/wire/values.hpp"

namespace goblin::wire {

inline constexpr std::size_t kHeaderBytes = 16;
inline constexpr std::size_t kMaxFrameFds =
    16;  ///< descriptors that one frame carries over a Unix socket
inline constexpr std::uint16_t kProtocol = 2;  ///< highest protocol that this build speaks
inline constexpr std::uint16_t kProtocolMin = 2;

/// The numbers are on the wire: they never change.
enum class FrameType : std::uint16_t {
  // every connection
  kHello = 1,
  kWelcome = 2,
  kPing = 3,
  kPong = 4,
  kGoodbye = 5,
  // blobs, both directions
  kBlobGet = 16,
  kBlobInfo = 17,
  kBlobData = 18,
  kBlobCredit = 19,
  kBlobCancel = 20,
  // host ↔ coordinator
  kHostStatus = 32,
  kLabAssignments = 33,
  // lab node ↔ coordinator
  kLabStatus = 40,
  kHostAssignments = 41,
  // both ↔ coordinator; 44 and 45 were a catalogue without signatures
  kMetadataGet = 42,
  kMetadata = 43,
  kCatalogueNews = 46,
  // host ↔ lab node
  kHostOffer = 48,
  kLeases = 49,
  kResults = 50,
  kCancelLeases = 51,
  kHandBack = 52,
  kHeartbeat = 53,
  kReleaseResults = 54,
  kStanding = 55,
  kLinkProbe = 56,
  kLinkEcho = 57,
  // client ↔ lab node, and commands that ask a running daemon
  kRequest = 64,
  kReply = 65,
  kEvent = 66,
  // daemon ↔ runner, Unix sockets only
  kRunnerHello = 96,
  kRunnerLoad = 97,
  kRunnerLoaded = 98,
  kSegmentMap = 99,
  kSegmentUnmap = 100,
  kExecute = 101,
  kExecuted = 102,
  kValidate = 103,
  kValidated = 104,
  kPlanOpen = 105,
  kPlanOpened = 106,
  kPlanNext = 107,
  kPlanned = 108,
  kAccept = 109,
  kAccepted = 110,
  kRecall = 111,
  kFinish = 112,
  kDone = 113,
  kCheck = 114,
  kChecked = 115,
  kCompare = 116,
  kCancelWork = 117,
};

/// How far a connection is: before the hello only kHello and kWelcome of at most 4 KiB pass.
enum class PeerState : std::uint8_t { kGreeting, kOpen };

struct FrameHeader {
  std::uint16_t type = 0;
  std::uint32_t message_bytes = 0;
  std::uint32_t payload_bytes = 0;
};

/// The largest message and payload of a frame type in a state. A type that may not come there, or
/// that nobody knows, is not accepted (a ping is, though both its caps are 0).
struct FrameCaps {
  std::uint32_t message_bytes = 0;
  std::uint32_t payload_bytes = 0;
  bool accepted = false;
};
FrameCaps frame_caps(std::uint16_t type, PeerState state);

/// Payload bytes of one kLinkProbe or kLinkEcho frame at most.
inline constexpr std::uint32_t kLinkProbeBytes = 32u << 10;
/// Payload bytes of one kBlobData frame at most.
inline constexpr std::uint32_t kBlobChunkBytes = 1u << 20;

void write_header(const FrameHeader& header, std::span<std::byte, kHeaderBytes> out);
/// kCorrupt for a wrong magic, version or flags, a type that may not come in this state, a message
/// length that is no multiple of 8, or a length over the cap of its type and state.
Result<FrameHeader> read_header(std::span<const std::byte, kHeaderBytes> in, PeerState state);

}  // namespace goblin::wire
