// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What goblin-runner and its parent must agree on: exit statuses, so that the parent can say what
// happened; descriptors; the number of threads. A plugin may end the
// process with any status: these are numbers that no program chooses.
#pragma once

#include <cstdint>

namespace goblin::plugin {

enum RunnerExit : int {
  kRunnerUsage = 212,      ///< not started by a daemon
  kRunnerProtocol = 213,   ///< what came through the socket is no request
  kRunnerMemory = 214,     ///< no memory left for the runner itself
  kRunnerConfine = 215,    ///< there is no jail: nothing was loaded
  kRunnerSocket = 216,     ///< the socket ended: its parent closed it, or a plugin did
  kRunnerForbidden = 217,  ///< a plugin asked for a system call that the jail forbids
};

/// The descriptor of a runner's socket.
inline constexpr int kRunnerSocketFd = 3;
/// Of a file of its spawner's: why there is no runner, or which system call a plugin asked for.
inline constexpr int kRunnerNoteFd = 4;

/// Of a runner that computes with `threads`: a backend and a kind may each have a pool of as many,
/// and a few more.
constexpr std::uint32_t most_threads(std::uint32_t threads) { return 2 * threads + 16; }

}  // namespace goblin::plugin
