// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Sizes and probabilities of one history.
#pragma once

#include "core/scheduler/scheduler.hpp"
#include "tests/sim/disk.hpp"
#include "tests/sim/timeline.hpp"

namespace goblin::sim {

/// How a host lies, as bits.
enum Lie : std::uint32_t {
  kWrongResult = 1,     ///< computes something else, all liars of a history the same
  kOwnResult = 2,       ///< computes something else, each liar its own
  kOtherBytes = 4,      ///< sends other bytes than it committed to
  kNoBytes = 8,         ///< commits and never sends
  kFalseFailure = 16,   ///< says that tasks fail which do not
  kForgedLease = 32,    ///< speaks for leases of others, or for such as never were
  kChangedResult = 64,  ///< commits twice, to different results
  kFalseTimes = 128,    ///< claims times that cannot be
  kLostInputs = 256,    ///< says that inputs are damaged
};

struct Options {
  std::uint32_t labs = 1, hosts = 4, trusted = 0, groups = 4;
  std::uint32_t jobs = 1, tasks = 60;  ///< of a lab node, of a job
  std::uint32_t labs_per_host = 3, wanted = 64;
  std::uint32_t late_hosts = 3;  ///< honest ones of each lab node's own list, when the faults end
  double speed_spread = 10;
  std::size_t most_kept = 1000;  ///< results that fill a host's memory: it computes no more

  double liars = 0.25, lie = 0.3;  ///< share of hosts that lie, in so many of their tasks
  std::uint32_t lies = kWrongResult;
  double lying_validators = 0;  ///< share of the trusted hosts that lie, each a lie of its own
  double stall = 0.01, status = 0.01, hand_back = 0.01, lost_fetch = 0.02;  ///< per task
  double crash_per_minute = 0.5, change_per_minute = 0.3;
  double new_key = 0.2;  ///< of a host that crashed: it comes back as somebody else

  bool loose = false;  ///< messages overtake each other, and those of dead connections still come
  double duplicate = 0.02, drop = 0, slow = 0.05;
  double cuts_per_minute = 0;

  double abstain = 0.1;
  double miss = 0;  ///< the check passes so many of the wrong results (a sampled check may)
  double slow_checks = 0;
  double cancel = 0.1;
  double lab_stops = 0.3;   ///< of each lab node, up to three times
  double power_losses = 0;  ///< share of those in which power is lost
  bool power_safe = false;  ///< the journal's setting
  std::uint64_t large = 0;  ///< bytes of planners' states
  DiskFaults disk;          ///< while a disk is troubled
  double troubles_per_minute = 0;
  double coordinator_stops = 0.2;
  Micros term = 600'000'000;  ///< of an assignment where lab nodes wait

  Micros faults_end = 90'000'000;
  bool fair =
      false;  ///< three jobs that never end, of unlike tasks and weights: shares are measured
  scheduler::Config config;

  static Options draw(std::uint64_t seed);
  /// One lab node and `fair`; with `faults` hosts crash, change speed, and the coordinator dies.
  static Options fair_shares(std::uint64_t seed, bool faults);
  /// No faults and no lies.
  static Options calm();
};

}  // namespace goblin::sim
