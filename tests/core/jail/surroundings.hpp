// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Runs tests of this program again in other surroundings than root's on this machine.
#pragma once

#include <string>

namespace goblin::testing {

enum class Surroundings {
  kUser,          ///< an ordinary user
  kNoNamespaces,  ///< nobody may make any, as in many containers
  kNeither,       ///< nor is there Landlock
  kNoProc,        ///< /proc is not mounted
};

/// Runs the tests that `filter` names there; the output on failure. Exit status 0: they passed.
/// Needs root.
inline constexpr int kCannotSurround = 99;  ///< status where this machine does not allow them
struct Rerun {
  int status = -1;
  std::string output;
};
Rerun rerun(Surroundings where, const std::string& filter);

/// Is this such a run?
bool runs_in(Surroundings where);

}  // namespace goblin::testing
