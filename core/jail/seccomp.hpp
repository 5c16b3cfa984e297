// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Which system calls are left to a runner (system_calls.hpp has the lists).
#pragma once

#include <cstdint>
#include <string>

#include "core/jail/layers.hpp"

namespace goblin::jail {

/// Single-threaded; threads to come have the same filter. Notes in `report` what it became. Answers
/// a descriptor that tells the spawner of forbidden calls, or -1 where the kernel has no such: it
/// then kills by itself, and nobody learns which call it was.
int enter_seccomp(Report& report);

/// In the spawner: waits for what `listener` has to tell. The name of the call, or "a system call
/// without a name"; empty when there was nothing to read.
std::string read_forbidden_call(int listener);

}  // namespace goblin::jail
