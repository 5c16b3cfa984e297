// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A runner as a process: what its end means, what it uses, the descriptors that it gets. For this
// folder's .cpp files only.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "core/net/unique_fd.hpp"
#include "core/plugin/child_process.hpp"
#include "core/plugin/runner_client.hpp"
#include "goblin/error.hpp"

namespace goblin::plugin {

/// Of an end of the socket that is not ours: the runner's own code never closes it. It is seen
/// here, or by the runner, whichever looks first.
Error socket_closed();

/// What an end that we did not ask for means. `note`: what the spawner wrote.
Error explain(const ExitStatus& status, const std::string& note);

/// What the spawner wrote into its note, if anything.
std::string read_note(const net::UniqueFd& file);

struct ProcessUsage {
  RunnerUsage usage;
  std::uint32_t threads = 0;
};
/// Zeroes when there is no such process.
ProcessUsage read_usage(pid_t pid);

/// A pair of sockets, the second one for the child.
Result<std::pair<net::UniqueFd, net::UniqueFd>> make_sockets();
/// A file without a name for the spawner's last words.
Result<net::UniqueFd> make_note();
/// kExhausted without descriptors.
Result<net::UniqueFd> duplicate(int fd);
/// What a runner may only read it must not be able to write by mprotect, or by a map of its own:
/// the descriptor itself is for reading.
Result<net::UniqueFd> read_only(int fd);

}  // namespace goblin::plugin
