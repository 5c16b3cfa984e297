// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A volunteer's host: takes leases from the lab nodes that it is told to serve, computes one after
// another, keeps results until they are fetched, and has its faults and lies.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>

#include "tests/sim/lab.hpp"

namespace goblin::sim {

/// What a lease tells a host.
struct SentLease {
  Lab* lab = nullptr;
  Connection connection = 0;
  LeaseId lease = 0;
  const JobPlan* plan = nullptr;
  JobId job = 0;
  TaskId task = 0;
  std::uint64_t before = 0;
};

/// Pointers differ from run to run; histories must not.
struct ByNode {
  bool operator()(const Lab* a, const Lab* b) const { return a->node() < b->node(); }
};

struct SimHost {
  SimHost(World& owner, NodeId number) : world(owner), node(number) {}

  World& world;
  NodeId node;
  Pin pin;
  scheduler::HostSpec spec;
  bool liar = false;
  bool own_list =
      false;  ///< its lab nodes admit it without the coordinator, and it serves only them
  double speed = 1e9, bytes_per_s = 1e7;

  bool on = false;
  std::uint64_t life = 0, work = 0;  ///< counts starts of itself, and of tasks
  std::map<Lab*, Connection, ByNode> connections;
  std::map<Lab*, Micros, ByNode> serves;  ///< until when
  std::deque<SentLease> queue;
  std::optional<SentLease> running;
  Micros ends = 0;  ///< the running one, as it seems; 0: never
  struct Kept {
    SentLease lease;
    bool other_bytes = false, never = false;
  };
  std::map<std::pair<NodeId, LeaseId>, Kept> kept;

  void switch_on();
  /// Everything in its memory is gone; connections break.
  void crash(bool new_key);
  void assigned(const std::set<Lab*, ByNode>& labs, Micros lease);
  void connect(Lab& lab);
  /// The connection is gone, as it learns.
  void lost(Lab& lab, Connection connection);
  void lease(const SentLease& sent);
  void cancel(Lab& lab, LeaseId lease);
  void release(Lab& lab, LeaseId lease);
  void fetch(Lab& lab, Connection connection, LeaseId lease, std::uint64_t fetch);

  /// The running task ends here: the time that it was still to take was not used.
  void stop_running();

 private:
  void beat();
  void ask_coordinator();
  void drop(Lab& lab);
  void compute();
  void computed(std::uint64_t started, double seconds);
  void report(const SentLease& lease, scheduler::Outcome outcome);
  void say(const SentLease& lease, const scheduler::Outcome& outcome);
  [[nodiscard]] bool lies_now(std::uint32_t how);
  void later(Micros delay, Timeline::Step step);
};

}  // namespace goblin::sim
