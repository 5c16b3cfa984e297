// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/volunteer/result_frames.hpp"

#include <gtest/gtest.h>

#include "core/wire/bounds.hpp"

namespace goblin::volunteer {
namespace {

/// Passes frames through what a channel demands and the peer's reader.
class Peer {
 public:
  void take(const net::Frame& frame) {
    const auto caps =
        wire::frame_caps(static_cast<std::uint16_t>(frame.type), wire::PeerState::kOpen);
    EXPECT_LE(frame.message.size(), caps.message_bytes);
    EXPECT_LE(frame.payload.size(), caps.payload_bytes);
    ++frames;
    if (frame.type == wire::FrameType::kHandBack) {
      const auto message = wire::decode_hand_back(frame.message);
      ASSERT_TRUE(message) << message.error().message;
      EXPECT_EQ(message->reason, Code::kUnavailable);
      leases.insert(leases.end(), message->leases.begin(), message->leases.end());
      return;
    }
    const auto message = wire::decode_results(frame.message);
    ASSERT_TRUE(message) << message.error().message;
    for (const auto& result : message->results) {
      leases.push_back(result.lease);
      for (const auto& output : result.outputs) {
        if (output.is_inline()) {
          EXPECT_EQ(frame.payload.at(output.inline_offset),
                    static_cast<std::byte>(result.lease % 251));
        }
      }
    }
  }
  int frames = 0;
  std::vector<std::uint64_t> leases;
};

void expect_all(const Peer& peer, std::uint64_t count) {
  ASSERT_EQ(peer.leases.size(), count);
  for (std::uint64_t i = 0; i < count; ++i) {
    EXPECT_EQ(peer.leases[i], i);
  }
}

TEST(ResultFrames, ManyOutputsOfManyTasksKeepWithinTheCapOfAMessage) {
  Peer peer;
  ResultFrames frames([&peer](const net::Frame& frame) { peer.take(frame); });
  for (std::uint64_t lease = 0; lease < 256; ++lease) {
    wire::TaskResult result;
    result.lease = lease;
    wire::TensorRef output;
    output.spec = {GOBLIN_F32, {8, 1, 1, 1, 1, 1, 1, 64}};
    output.digest.bytes[0] = 1;
    result.outputs.assign(wire::kMaxTensors, output);
    frames.add(std::move(result), {});
  }
  frames.flush();
  expect_all(peer, 256);
  EXPECT_GT(peer.frames, 1);
}

TEST(ResultFrames, InlineOutputsKeepWithinTheCapOfAPayload) {
  Peer peer;
  ResultFrames frames([&peer](const net::Frame& frame) { peer.take(frame); });
  for (std::uint64_t lease = 0; lease < 5; ++lease) {
    wire::TaskResult result;
    result.lease = lease;
    // As much as one task can bring along: a whole payload.
    for (std::uint32_t o = 0; o < wire::kMaxTensors; ++o) {
      wire::TensorRef output;
      output.spec = {GOBLIN_F64, {128}};
      output.inline_offset = o * 1024;
      result.outputs.push_back(output);
    }
    frames.add(std::move(result),
               wire::Bytes(wire::kMaxPayloadBytes, static_cast<std::byte>(lease)));
  }
  frames.flush();
  expect_all(peer, 5);
}

TEST(ResultFrames, SmallResultsShareAFrameAndAnEmptyListSendsNone) {
  Peer peer;
  ResultFrames frames([&peer](const net::Frame& frame) { peer.take(frame); });
  frames.flush();
  EXPECT_EQ(peer.frames, 0);
  for (std::uint64_t lease = 0; lease < 256; ++lease) {
    wire::TaskResult result;
    result.lease = lease;
    wire::TensorRef output;
    output.spec = {GOBLIN_F64, {1}};
    output.inline_offset = 0;
    result.outputs.push_back(output);
    frames.add(std::move(result), wire::Bytes(8, static_cast<std::byte>(lease % 251)));
  }
  frames.flush();
  expect_all(peer, 256);
  EXPECT_EQ(peer.frames, 1);
}

TEST(HandBackFrames, AnyNumberOfLeasesGoesBack) {
  Peer peer;
  std::vector<std::uint64_t> leases(200'000);
  for (std::uint64_t i = 0; i < leases.size(); ++i) {
    leases[i] = i;
  }
  for (const auto& frame : hand_back_frames(leases, Code::kUnavailable)) {
    peer.take(frame);
  }
  expect_all(peer, leases.size());
  EXPECT_TRUE(hand_back_frames({}, Code::kUnavailable).empty());
}

}  // namespace
}  // namespace goblin::volunteer
