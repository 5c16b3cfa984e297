// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Leases of one host gathered into frames that its caps allow, and how large messages about tasks
// get. Values; one thread.
#pragma once

#include <vector>

#include "core/net/channel.hpp"
#include "core/wire/peer.hpp"
#include "core/wire/runner.hpp"

namespace goblin::lab {

/// What a lease takes in a message at most. The largest that the bounds of core/wire allow fits a
/// frame by itself.
std::size_t most_bytes(const wire::Lease& lease);
/// What a task takes at most in a request to a runner that names its inputs and outputs.
std::size_t most_bytes(const wire::PlannedTask& task);

/// Requests about several tasks end before this, well below the cap of their frames.
inline constexpr std::size_t kRequestBytes = 8u << 20;

class LeaseFrames {
 public:
  /// `payload`: the lease's inline inputs; their offsets in the lease are moved to where they come
  /// to lie in the frame.
  void add(wire::Lease lease, const wire::Bytes& payload);
  /// What was added since the last call, in order; each frame within the caps of kLeases.
  std::vector<net::Frame> take();
  [[nodiscard]] bool empty() const { return frames_.empty() && open_.leases.empty(); }

 private:
  void close_frame();

  std::vector<net::Frame> frames_;
  wire::Leases open_;
  wire::Bytes payload_;
  std::size_t bytes_ = 0;  ///< of open_ at most
};

}  // namespace goblin::lab
