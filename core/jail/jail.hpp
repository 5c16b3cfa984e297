// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A runner puts itself into a jail in two steps. enter(), at the very start, leaves the daemon's
// surroundings: the process that was started becomes the spawner, and its child in new namespaces
// the runner. close(), once the installation's own backend is loaded and before the first byte of a
// plugin is, takes away the rest: every file, the user id, system calls. Fails closed: without
// every protection (layers.hpp) there is no runner.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/jail/credentials.hpp"
#include "core/jail/layers.hpp"
#include "core/jail/spawner.hpp"

namespace goblin::jail {

struct Policy {
  pid_t parent = 0;            ///< the daemon: when it dies, so do spawner and runner
  int nice = 0;                ///< added to the daemon's
  int last_fd = 3;             ///< descriptors above are closed
  int note = 4;                ///< … but this one, the spawner's: it writes there what went wrong
  int forbidden_exit = 0;      ///< the spawner's exit status after a forbidden system call
  std::vector<Layer> require;  ///< beside what protections need
  std::vector<std::string> cgroups;  ///< directories of control groups that were made for it
};

class Jail {
 public:
  /// Single-threaded. Returns in the runner; in the spawner only with an error (kUnavailable).
  static Result<Jail> enter(const Policy& policy);

  /// Single-threaded. `threads`: the most that the runner may have. kUnavailable names the layers
  /// that are missing; the runner must end then. Once.
  Result<void> close(std::uint32_t threads);

  [[nodiscard]] const Report& report() const { return report_; }
  /// This process' number as the daemon sees it; 0: unknown, for want of /proc.
  [[nodiscard]] pid_t pid_outside() const { return pid_outside_; }

 private:
  explicit Jail(std::vector<Layer> require) : require_(std::move(require)) {}
  Result<void> take_away(std::uint32_t threads);

  std::vector<Layer> require_;
  Report report_;
  std::optional<OwnUid> own_;
  std::optional<SpawnerLine> line_;
  pid_t spawner_ = 0;  ///< 0 where it is in another pid namespace
  pid_t pid_outside_ = 0;
};

}  // namespace goblin::jail
