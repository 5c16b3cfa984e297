// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What a child process prints, on its way into a log. For this folder's .cpp files only.
#pragma once

#include <utility>

#include "core/net/loop.hpp"
#include "core/net/unique_fd.hpp"
#include "core/plugin/output_lines.hpp"

namespace goblin::plugin {

/// A pipe: the reading end, which does not block, and the child's. kExhausted without descriptors.
Result<std::pair<net::UniqueFd, net::UniqueFd>> make_pipe();

/// Reads what a child prints until nobody can print any more. Loop's thread.
net::Task<void> read_output(net::Loop& loop, net::UniqueFd fd, OutputLine line);

}  // namespace goblin::plugin
