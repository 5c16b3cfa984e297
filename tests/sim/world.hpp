// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// One history: a whole network under a virtual clock. One seed, one history.
#pragma once

#include <memory>

#include "tests/sim/coordinator.hpp"

namespace goblin::sim {

class World {
 public:
  World(std::uint64_t seed, Options options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Runs until every job has ended; false when something happened that must not.
  bool run();

  Timeline time;
  Random random;
  const Options options;
  Network network;

  /// A lab node and a host, joined by `connection`, learn that it is broken, each when it does.
  void break_connection(Lab& lab, SimHost& host, Connection connection);
  [[nodiscard]] Connection new_connection() { return ++connections_; }
  [[nodiscard]] bool faulty() const { return time.now() < options.faults_end; }
  [[nodiscard]] Pin new_pin();
  [[nodiscard]] SimHost* host_of(const Pin& pin);
  [[nodiscard]] Lab* lab_of(NodeId node);
  [[nodiscard]] static Pin lab_pin(NodeId node);
  void renamed(SimHost& host, const Pin& old);

  std::vector<std::unique_ptr<Lab>> labs;
  std::vector<std::unique_ptr<SimHost>> hosts;
  std::unique_ptr<Coordinator> coordinator;
  Micros stop_at = 0;  ///< 0: when every job has ended
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

 private:
  void populate(std::uint64_t seed);
  void plan_faults();
  void fault_of_host(SimHost& host);
  void stop_lab(Lab& lab);
  void trouble(Lab& lab);
  void cut();
  void late_hosts();
  void lab_beats(Lab& lab);
  [[nodiscard]] Micros wait_for(double per_minute);

  Connection connections_ = 0;
  std::uint64_t pins_ = 0, steps_ = 0;
  std::map<Pin, SimHost*> by_pin_;
};

/// Where the files of this process' disks seem to be; made when first asked for, removed at exit.
const std::string& scratch_folder(const std::string& name);

}  // namespace goblin::sim
