// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Messages between lab nodes, hosts and the coordinator: late, twice, never, in another order, and
// not at all between two that are cut off from each other.
#pragma once

#include <map>
#include <utility>

#include "tests/sim/options.hpp"

namespace goblin::sim {

using NodeId = std::uint32_t;
inline constexpr NodeId kCoordinator = 1'000;  ///< lab nodes have numbers below, hosts above it

class Network {
 public:
  Network(Timeline& timeline, Random& random, const Options& options)
      : timeline_(timeline), random_(random), options_(options) {}

  enum class Fate : std::uint8_t { kSent, kLost };
  /// `arrive` runs when the message does: perhaps twice. kLost: a connection that loses a message
  /// is broken, and its ends will find out.
  Fate send(NodeId from, NodeId to, const Timeline::Step& arrive);
  /// Until `end` nothing passes between the two; what is sent waits, as in a kernel's buffers, or
  /// is lost where messages are loose.
  void cut(NodeId a, NodeId b, Micros end);
  [[nodiscard]] bool is_cut(NodeId a, NodeId b) const;

 private:
  [[nodiscard]] Micros delay();

  Timeline& timeline_;
  Random& random_;
  const Options& options_;
  std::map<std::pair<NodeId, NodeId>, Micros> cuts_;  ///< smaller number first
  std::map<std::pair<NodeId, NodeId>, Micros> last_;  ///< arrival of the last message
};

}  // namespace goblin::sim
