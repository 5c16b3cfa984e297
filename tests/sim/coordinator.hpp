// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The coordinator: the real matchmaker and the real register of peers.
#pragma once

#include <memory>

#include "core/scheduler/matchmaker.hpp"
#include "core/store/peer_registry.hpp"
#include "tests/sim/host.hpp"

namespace goblin::sim {

class Coordinator {
 public:
  Coordinator(World& world, std::uint64_t seed);
  ~Coordinator();

  void open();
  /// kill -9; it comes back by itself.
  void stop();
  void host_says(const Pin& pin, NodeId node, bool accepting);
  void lab_says(const Pin& pin, NodeId node, std::uint32_t wanted);

 private:
  void update();
  void answer(const Pin& pin);
  void register_peer(const Pin& pin, wire::Role role);
  void watch(Micros now);
  void watch_turns(const std::map<Pin, std::size_t>& have, Micros now);

  World& world_;
  Disk disk_;
  Mount mount_;
  std::string path_;
  std::uint64_t life_ = 0;
  std::unique_ptr<store::PeerRegistry> registry_;
  std::unique_ptr<scheduler::Matchmaker> matchmaker_;
  std::map<Pin, NodeId> nodes_;
  std::set<Pin> known_;  ///< acknowledged by the register, ever
  // What it was told, for the oracle.
  struct Told {
    Micros when = 0;
    bool accepting = true;
    std::uint32_t wanted = 0;
    Micros since = 0;  ///< of a host: takes work, or not; of a lab node: has no host
  };
  std::map<Pin, Told> hosts_, labs_;
  std::uint64_t calm_ = 0;  ///< updates since somebody came, went or said something new
};

}  // namespace goblin::sim
