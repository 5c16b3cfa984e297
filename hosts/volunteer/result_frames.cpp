// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/volunteer/result_frames.hpp"

#include <algorithm>

#include "core/wire/bounds.hpp"

namespace goblin::volunteer {
namespace {

constexpr std::size_t kFull = 512u << 10;  ///< half the cap of a message
constexpr std::size_t kPayloadFull = 512u << 10;
constexpr std::size_t kHandBackPerFrame = wire::kMaxIds / 2;

/// No fewer bytes than Cap'n Proto takes: task.capnp, with pointers and tags.
std::size_t encoded_bytes(const wire::TaskResult& result) {
  std::size_t bytes = 64;
  for (const auto& output : result.outputs) {
    bytes += 72 + 8 * output.spec.shape.size();
  }
  return bytes;
}

}  // namespace

void ResultFrames::add(wire::TaskResult result, wire::Bytes payload) {
  const std::size_t bytes = encoded_bytes(result);
  if (message_bytes_ + bytes > kFull || payload_.size() + payload.size() > kPayloadFull) {
    flush();
  }
  for (auto& output : result.outputs) {
    if (output.is_inline()) {
      output.inline_offset += static_cast<std::uint32_t>(payload_.size());
    }
  }
  message_bytes_ += bytes;
  payload_.insert(payload_.end(), payload.begin(), payload.end());
  results_.results.push_back(std::move(result));
}

void ResultFrames::flush() {
  if (!results_.results.empty()) {
    send_(net::make_frame(wire::FrameType::kResults, results_, std::move(payload_)));
  }
  results_.results.clear();
  payload_.clear();
  message_bytes_ = 0;
}

std::vector<net::Frame> hand_back_frames(const std::vector<std::uint64_t>& leases, Code reason) {
  std::vector<net::Frame> frames;
  for (std::size_t at = 0; at < leases.size(); at += kHandBackPerFrame) {
    wire::HandBack message;
    message.reason = reason;
    const auto end = std::min(leases.size(), at + kHandBackPerFrame);
    message.leases.assign(leases.begin() + static_cast<std::ptrdiff_t>(at),
                          leases.begin() + static_cast<std::ptrdiff_t>(end));
    frames.push_back(net::make_frame(wire::FrameType::kHandBack, message));
  }
  return frames;
}

}  // namespace goblin::volunteer
