// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A runner as a child process with its own process group, killed and reaped for certain. The child
// is the runner's spawner (core/jail/spawner.hpp), which ends as the runner does. For this folder's
// .cpp files and tests only.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/net/unique_fd.hpp"
#include "goblin/error.hpp"

namespace goblin::plugin {

/// How a process ended.
struct ExitStatus {
  int code = 0;    ///< when it exited
  int signal = 0;  ///< when a signal killed it; else 0
};

class ChildProcess {
 public:
  struct Options {
    std::string program;
    std::vector<std::string> arguments;
    net::UniqueFd socket;  ///< becomes descriptor 3; may be none
    net::UniqueFd note;    ///< becomes descriptor 4; may be none
    net::UniqueFd output;  ///< becomes its standard output and error; none: what it says is lost
    bool show_stderr = false;
  };
  /// kNotFound or kUnavailable when the program cannot be started. The environment is empty but for
  /// LC_ALL=C (and what sanitizers read).
  static Result<ChildProcess> start(const Options& options);
  /// Kills and waits: a killed process ends soon.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Becomes readable when the process has ended.
  [[nodiscard]] int pidfd() const { return pidfd_.get(); }
  /// Reaps it if it has ended.
  std::optional<ExitStatus> poll();
  /// Has the spawner kill the runner, and end then. Nothing once reaped.
  void kill() const;
  /// SIGSTOP or SIGCONT, to every process of the group. Nothing once reaped.
  void signal(int number) const;

 private:
  ChildProcess(pid_t pid, net::UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  pid_t pid_;
  net::UniqueFd pidfd_;
  std::optional<ExitStatus> status_;
};

}  // namespace goblin::plugin
