// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A daemon of the local network as a child process that dies with this one.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "goblin/error.hpp"

namespace goblin::client {

/// Starts `arguments[0]` in a process group of its own (Ctrl-C is not for it), with /dev/null as
/// input, `log_fd` as output and errors, and `ready_fd` as descriptor 3. The kernel kills it when
/// the calling *thread* ends, so call this from a thread that lives as long as the process shall.
/// kUnavailable when the program cannot be started. The caller reaps it.
Result<pid_t> spawn(std::vector<std::string> arguments, std::vector<std::string> environment,
                    int log_fd, int ready_fd);

}  // namespace goblin::client
