// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Lists that a host sends, cut so that every frame keeps within the caps of its type.
#pragma once

#include <functional>
#include <vector>

#include "core/net/channel.hpp"

namespace goblin::volunteer {

/// Gathers results into frames. Loop's thread only.
class ResultFrames {
 public:
  explicit ResultFrames(std::function<void(net::Frame)> send) : send_(std::move(send)) {}

  /// Adds one result. The inline offsets of its outputs point into `payload`, which holds nothing
  /// else, at most 1 MiB. Sends what came before when both do not fit into one frame.
  void add(wire::TaskResult result, wire::Bytes payload);
  /// Sends what is left. Call it at the end.
  void flush();

 private:
  std::function<void(net::Frame)> send_;
  wire::Results results_;
  wire::Bytes payload_;
  std::size_t message_bytes_ = 0;  ///< no fewer than the encoded message has
};

/// Leases that go back, in as many frames as they need.
std::vector<net::Frame> hand_back_frames(const std::vector<std::uint64_t>& leases, Code reason);

}  // namespace goblin::volunteer
