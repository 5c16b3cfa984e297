// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/lease_frames.hpp"

#include "core/wire/bounds.hpp"

namespace goblin::lab {
namespace {

/// Structs of core/wire/task.capnp and runner.capnp with their pointers and list heads, rounded up.
constexpr std::size_t kTaskBytes = 256;
constexpr std::size_t kParamBytes = 16;
constexpr std::size_t kRefBytes = 64;    ///< TensorRef with its digest
constexpr std::size_t kSpecBytes = 32;   ///< TensorSpec
constexpr std::size_t kPlaceBytes = 96;  ///< View, TensorAt
constexpr std::size_t kExtentBytes = sizeof(std::int64_t);

constexpr std::size_t kMaxRank = GOBLIN_MAX_RANK;
static_assert(kTaskBytes + wire::kMaxParams * kParamBytes +
                  wire::kMaxTensors * (kRefBytes + kSpecBytes + 2 * kMaxRank * kExtentBytes) <
              wire::kMaxPayloadBytes);  // the cap of a kLeases message, too

/// Many small leases share a frame up to here: a host may begin while the rest is on its way.
constexpr std::size_t kFrameBytes = 512u << 10;
constexpr std::size_t kFrameLeases = 512;

}  // namespace

std::size_t most_bytes(const wire::Lease& lease) {
  std::size_t bytes = kTaskBytes + lease.params.size() * kParamBytes;
  for (const auto& input : lease.inputs) {
    bytes += kRefBytes + input.spec.shape.size() * kExtentBytes;
  }
  for (const auto& output : lease.outputs) {
    bytes += kSpecBytes + output.shape.size() * kExtentBytes;
  }
  return bytes;
}

std::size_t most_bytes(const wire::PlannedTask& task) {
  std::size_t bytes = kTaskBytes + task.params.size() * kParamBytes;
  for (const auto& input : task.inputs) {  // its view, and where the runner finds it
    bytes += 2 * (kPlaceBytes + 2 * input.shape.size() * kExtentBytes);
  }
  for (const auto& output : task.outputs) {
    bytes += kPlaceBytes + kSpecBytes + 3 * output.shape.size() * kExtentBytes;
  }
  return bytes;
}

void LeaseFrames::add(wire::Lease lease, const wire::Bytes& payload) {
  const std::size_t bytes = most_bytes(lease);
  if (!open_.leases.empty() &&
      (open_.leases.size() >= kFrameLeases || bytes_ + bytes > kFrameBytes ||
       payload_.size() + payload.size() > kFrameBytes)) {
    close_frame();
  }
  for (auto& input : lease.inputs) {
    if (input.is_inline()) {
      input.inline_offset += static_cast<std::uint32_t>(payload_.size());
    }
  }
  payload_.insert(payload_.end(), payload.begin(), payload.end());
  open_.leases.push_back(std::move(lease));
  bytes_ += bytes;
}

std::vector<net::Frame> LeaseFrames::take() {
  if (!open_.leases.empty()) {
    close_frame();
  }
  std::vector<net::Frame> frames;
  frames.swap(frames_);
  return frames;
}

void LeaseFrames::close_frame() {
  frames_.push_back(net::make_frame(wire::FrameType::kLeases, open_, std::move(payload_)));
  open_.leases.clear();
  payload_.clear();
  bytes_ = 0;
}

}  // namespace goblin::lab
