// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Exit statuses of goblin-runner, so that its parent can say what happened. A plugin may end the
// process with any status: these are numbers that no program chooses.
#pragma once

namespace goblin::plugin {

enum RunnerExit : int {
  kRunnerUsage = 212,     ///< not started by a daemon
  kRunnerProtocol = 213,  ///< what came through the socket is no request
  kRunnerMemory = 214,    ///< no memory left for the runner itself
  kRunnerConfine = 215,   ///< a limit could not be set: nothing was loaded
  kRunnerSocket = 216,    ///< the socket ended: its parent closed it, or a plugin did
};

/// The descriptor of a runner's socket.
inline constexpr int kRunnerSocketFd = 3;

}  // namespace goblin::plugin
