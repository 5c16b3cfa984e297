// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/wire/frame.hpp"

#include <string>

#include "core/wire/bounds.hpp"

namespace goblin::wire {
namespace {

constexpr std::array<std::uint8_t, 4> kMagic{'G', 'B', 'L', 'N'};
constexpr std::uint8_t kHeaderVersion = 1;

constexpr std::uint32_t kKiB = 1u << 10;
constexpr std::uint32_t kMiB = 1u << 20;

std::uint32_t read_number(std::span<const std::byte, kHeaderBytes> in, std::size_t at, int bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < bytes; ++i)
    value |= std::to_integer<std::uint32_t>(in[at + static_cast<std::size_t>(i)]) << (8 * i);
  return value;
}
void write_number(std::span<std::byte, kHeaderBytes> out, std::size_t at, int bytes,
                  std::uint32_t value) {
  for (int i = 0; i < bytes; ++i)
    out[at + static_cast<std::size_t>(i)] = static_cast<std::byte>(value >> (8 * i));
}

FrameCaps open_caps(FrameType type) {
  switch (type) {
    case FrameType::kHello:
    case FrameType::kWelcome:
      return {};  // once, before everything else
    case FrameType::kPing:
    case FrameType::kPong:
      return {0, 0, true};
    case FrameType::kGoodbye:
    case FrameType::kBlobGet:
    case FrameType::kBlobInfo:
    case FrameType::kBlobCredit:
    case FrameType::kBlobCancel:
    case FrameType::kMetadataGet:
    case FrameType::kCatalogueNews:
    case FrameType::kStanding:
      return {256, 0, true};
    case FrameType::kMetadata:
      return {256, 64 * kKiB, true};  // targets, which may be longer, travel as a blob
    case FrameType::kLinkProbe:
    case FrameType::kLinkEcho:
      return {256, 32 * kKiB, true};
    case FrameType::kBlobData:
      return {256, kBlobChunkBytes, true};
    case FrameType::kHostStatus:
    case FrameType::kLabStatus:
    case FrameType::kHostOffer:
      return {64 * kKiB, 0, true};
    case FrameType::kLabAssignments:
    case FrameType::kHostAssignments:
      return {4 * kMiB, 0, true};
    case FrameType::kCancelLeases:
    case FrameType::kHandBack:
    case FrameType::kHeartbeat:
    case FrameType::kReleaseResults:
      return {kMiB, 0, true};
    case FrameType::kLeases:
    case FrameType::kResults:
      return {kMiB, kMiB, true};
    case FrameType::kRequest:
    case FrameType::kReply:
      return {4 * kMiB, kMiB, true};
    case FrameType::kEvent:
      return {4 * kMiB, 0, true};
    case FrameType::kRunnerHello:
    case FrameType::kRunnerLoad:
    case FrameType::kRunnerLoaded:
    case FrameType::kSegmentMap:
    case FrameType::kSegmentUnmap:
    case FrameType::kExecute:
    case FrameType::kExecuted:
    case FrameType::kValidate:
    case FrameType::kValidated:
    case FrameType::kPlanOpen:
    case FrameType::kPlanOpened:
    case FrameType::kPlanNext:
    case FrameType::kPlanned:
    case FrameType::kAccept:
    case FrameType::kAccepted:
    case FrameType::kRecall:
    case FrameType::kFinish:
    case FrameType::kDone:
    case FrameType::kCheck:
    case FrameType::kChecked:
    case FrameType::kCompare:
    case FrameType::kCancelWork:
      return {16 * kMiB, kMiB, true};
  }
  return {};
}

}  // namespace

static_assert(32 * kKiB == kLinkProbeBytes);
static_assert(16 * kMiB == kMaxMessageBytes && kMiB == kMaxPayloadBytes);

FrameCaps frame_caps(std::uint16_t type, PeerState state) {
  const auto known = static_cast<FrameType>(type);
  if (state == PeerState::kGreeting)
    return known == FrameType::kHello || known == FrameType::kWelcome ? FrameCaps{4 * kKiB, 0, true}
                                                                      : FrameCaps{};
  return open_caps(known);
}

void write_header(const FrameHeader& header, std::span<std::byte, kHeaderBytes> out) {
  for (std::size_t i = 0; i < kMagic.size(); ++i) out[i] = static_cast<std::byte>(kMagic[i]);
  out[4] = static_cast<std::byte>(kHeaderVersion);
  out[5] = std::byte{0};
  write_number(out, 6, 2, header.type);
  write_number(out, 8, 4, header.message_bytes);
  write_number(out, 12, 4, header.payload_bytes);
}

Result<FrameHeader> read_header(std::span<const std::byte, kHeaderBytes> in, PeerState state) {
  for (std::size_t i = 0; i < kMagic.size(); ++i)
    if (in[i] != static_cast<std::byte>(kMagic[i]))
      return fail(Code::kCorrupt,
                  "frame header does not begin with \"GBLN\": the peer speaks another protocol");
  const auto version = std::to_integer<std::uint32_t>(in[4]);
  if (version != kHeaderVersion)
    return fail(Code::kCorrupt, "frame header version " + std::to_string(version) +
                                    "; this release reads version 1: upgrade the older side");
  if (in[5] != std::byte{0})
    return fail(Code::kCorrupt,
                "frame flags " + std::to_string(std::to_integer<int>(in[5])) + "; 0 was expected");
  FrameHeader header;
  header.type = static_cast<std::uint16_t>(read_number(in, 6, 2));
  header.message_bytes = read_number(in, 8, 4);
  header.payload_bytes = read_number(in, 12, 4);
  const FrameCaps caps = frame_caps(header.type, state);
  const std::string what = "frame type " + std::to_string(header.type);
  if (!caps.accepted)
    return fail(Code::kCorrupt, what + (state == PeerState::kGreeting ? " before the greeting"
                                                                      : " is not known here"));
  if (header.message_bytes % 8 != 0)
    return fail(Code::kCorrupt, what + ": message of " + std::to_string(header.message_bytes) +
                                    " bytes; a multiple of 8 was expected");
  if (header.message_bytes > caps.message_bytes)
    return fail(Code::kCorrupt, what + ": message of " + std::to_string(header.message_bytes) +
                                    " bytes, at most " + std::to_string(caps.message_bytes) +
                                    " may come");
  if (header.payload_bytes > caps.payload_bytes)
    return fail(Code::kCorrupt, what + ": payload of " + std::to_string(header.payload_bytes) +
                                    " bytes, at most " + std::to_string(caps.payload_bytes) +
                                    " may come");
  return header;
}

}  // namespace goblin::wire
