// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The process between a daemon and its runner. It forks the runner into the namespaces, waits, and
// ends as the runner did, so that the daemon sees one child. When it dies, however, the runner
// dies: the first process of the runner's pid namespace goes with it, and the kernel kills the
// rest.
#pragma once

#include "core/jail/layers.hpp"

namespace goblin::jail {

/// What the runner keeps until the jail is closed: its line to the spawner.
class SpawnerLine {
 public:
  explicit SpawnerLine(int fd) : fd_(fd) {}
  SpawnerLine(SpawnerLine&& other) noexcept;
  SpawnerLine& operator=(SpawnerLine&&) = delete;
  ~SpawnerLine();
  /// Hands over the listener of the filter, if there is one (>= 0, then closed here).
  Result<void> give(int listener);

 private:
  int fd_;
};

/// Single-threaded. Returns in the runner, and in the spawner only with an error. The spawner never
/// returns otherwise: it leaves with the runner's exit status or by its signal, or with
/// `forbidden_exit` after a forbidden call, whose name it writes to the descriptor `note`. SIGTERM
/// has it kill the runner first.
Result<SpawnerLine> fork_runner(const Report& report, int note, int forbidden_exit);

}  // namespace goblin::jail
