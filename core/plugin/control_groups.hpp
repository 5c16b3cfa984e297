// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Control groups of runners: the kernel counts each runner's memory and threads by themselves.
// Where this process may make groups is found out by making one: in a delegated group of version 2,
// or else in the hierarchies of version 1. Loop's thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "goblin/error.hpp"

namespace goblin::plugin {

/// The group of one runner, removed with this object once its processes are gone.
class RunnerGroup {
 public:
  explicit RunnerGroup(std::vector<std::string> directories)
      : directories_(std::move(directories)) {}
  ~RunnerGroup();
  RunnerGroup(RunnerGroup&& other) noexcept = default;
  RunnerGroup& operator=(RunnerGroup&&) = delete;
  /// One for each hierarchy; whoever writes 0 to `cgroup.procs` of each is in it.
  [[nodiscard]] const std::vector<std::string>& directories() const { return directories_; }

 private:
  std::vector<std::string> directories_;
};

class ControlGroups {
 public:
  /// kUnavailable says why there are none. With version 2 this process moves into a group "daemon"
  /// below its own, since only groups without processes can have limited ones. Removes what earlier
  /// daemons left behind.
  static Result<std::shared_ptr<ControlGroups>> open();
  /// The same below given directories (of version 1, or one of version 2), for tests.
  static Result<std::shared_ptr<ControlGroups>> below(std::vector<std::string> parents);

  /// `memory_bytes`: the runner's private memory; 0: no cap. What it touches first of lent memory
  /// is counted on top, so the group's limit is larger.
  Result<RunnerGroup> make(std::uint64_t memory_bytes, std::uint32_t threads);

 private:
  explicit ControlGroups(std::vector<std::string> parents) : parents_(std::move(parents)) {}
  std::vector<std::string> parents_;
  std::uint64_t made_ = 0;
};

}  // namespace goblin::plugin
