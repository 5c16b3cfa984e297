// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Frames of leases within their caps, however many tensors a task has.
#include "hosts/lab/lease_frames.hpp"

#include <gtest/gtest.h>

#include "core/wire/bounds.hpp"
#include "core/wire/runner.hpp"

namespace goblin::lab {
namespace {

wire::Lease lease_of(std::size_t params, std::size_t inputs, std::size_t outputs, std::size_t rank,
                     bool small) {
  wire::Lease lease;
  lease.plugin.bytes[3] = 9;
  lease.params.assign(params, wire::Value::of(std::int64_t{-1}));
  wire::TensorRef input;
  input.spec = {GOBLIN_F64, std::vector<std::int64_t>(rank, 1)};
  for (std::size_t i = 0; i < inputs; ++i) {
    if (small) {
      input.inline_offset = static_cast<std::uint32_t>(i * wire::kInlineBytes);
    } else {
      input.digest.bytes[i % 32] = 7;
    }
    lease.inputs.push_back(input);
  }
  lease.outputs.assign(outputs, input.spec);
  lease.flops = 1;
  return lease;
}

struct Decoded {
  std::vector<std::uint64_t> leases;
  std::size_t frames = 0;
};
/// Holds the frames against their caps and reads them.
Decoded decode(LeaseFrames& frames, bool small) {
  const auto caps = wire::frame_caps(static_cast<std::uint16_t>(wire::FrameType::kLeases),
                                     wire::PeerState::kOpen);
  Decoded out;
  for (const auto& frame : frames.take()) {
    ++out.frames;
    EXPECT_EQ(frame.type, wire::FrameType::kLeases);
    EXPECT_LE(frame.message.size(), caps.message_bytes);
    EXPECT_LE(frame.payload.size(), caps.payload_bytes);
    const auto message = wire::decode_leases(frame.message);
    if (!message) {
      ADD_FAILURE() << message.error().message;
      continue;
    }
    for (const auto& lease : message->leases) {
      out.leases.push_back(lease.lease);
      for (const auto& input : lease.inputs) {
        if (!small) {
          continue;
        }
        // Its bytes name the lease that they belong to.
        EXPECT_LE(input.inline_offset + wire::kInlineBytes, frame.payload.size());
        EXPECT_EQ(std::to_integer<std::uint64_t>(frame.payload[input.inline_offset]),
                  lease.lease % 256);
      }
    }
  }
  return out;
}

TEST(LeaseFrames, TheBoundHolds) {
  for (const std::size_t rank : {0, 1, 2, 16}) {
    for (const std::size_t tensors : {0, 1, 3, 1024}) {
      for (const std::size_t params : {0, 5, 1024}) {
        const auto lease = lease_of(params, tensors, tensors, rank, false);
        wire::Leases one;
        one.leases.push_back(lease);
        EXPECT_GE(most_bytes(lease), encode(one).size()) << rank << " " << tensors << " " << params;

        wire::AcceptTask task;
        task.has_outputs = true;
        task.task.params = lease.params;
        task.task.outputs = lease.outputs;
        wire::TensorAt at;
        at.shape.assign(rank, 1);
        at.strides.assign(rank, 8);
        task.outputs.assign(tensors, at);
        wire::View view;
        view.shape = at.shape;
        view.strides = at.strides;
        task.task.inputs.assign(tensors, view);
        wire::Accept accept;
        accept.tasks.push_back(task);
        EXPECT_GE(most_bytes(task.task), encode(accept).size());
        wire::Check check;
        check.tasks.emplace_back();
        check.tasks[0].task.params = lease.params;
        check.tasks[0].task.inputs.assign(tensors, at);
        check.tasks[0].task.outputs.assign(tensors, at);
        EXPECT_GE(most_bytes(task.task), encode(check).size());
      }
    }
  }
}

TEST(LeaseFrames, TasksOfVeryManyTensors) {
  LeaseFrames frames;
  for (std::uint64_t i = 0; i < 20; ++i) {
    auto lease = lease_of(wire::kMaxParams, wire::kMaxTensors, wire::kMaxTensors, 16, false);
    lease.lease = i;
    frames.add(std::move(lease), {});
  }
  const Decoded decoded = decode(frames, false);
  ASSERT_EQ(decoded.leases.size(), 20u);
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(decoded.leases[i], i);
  }
  EXPECT_TRUE(frames.empty());
}

TEST(LeaseFrames, InlineBytesStayWithTheirLease) {
  for (const std::size_t inputs : {1, 300, 1024}) {
    LeaseFrames frames;
    for (std::uint64_t i = 0; i < 9; ++i) {
      auto lease = lease_of(0, inputs, 1, 1, true);
      lease.lease = i;
      const wire::Bytes payload(inputs * wire::kInlineBytes, std::byte(i));
      frames.add(std::move(lease), payload);
    }
    EXPECT_EQ(decode(frames, true).leases.size(), 9u);
  }
}

TEST(LeaseFrames, SmallLeasesShareAFrame) {
  LeaseFrames frames;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    auto lease = lease_of(1, 0, 1, 0, false);
    lease.lease = i;
    frames.add(std::move(lease), {});
  }
  const Decoded decoded = decode(frames, false);
  EXPECT_EQ(decoded.leases.size(), 1000u);
  EXPECT_EQ(decoded.frames, 2u);
}

}  // namespace
}  // namespace goblin::lab
