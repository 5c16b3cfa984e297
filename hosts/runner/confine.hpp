// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What the runner denies itself before it loads anything. The one place for that: namespaces,
// Landlock and seccomp belong here too.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "goblin/error.hpp"

namespace goblin::runner {

struct Confinement {
  int nice = 0;
  pid_t parent = 0;  ///< the daemon: when it dies, the runner dies
};

/// Before the first thread: no descriptors but stdio and the socket, no new privileges, no core
/// dumps, first victim when memory runs out, death with the parent. Fails closed.
Result<void> confine(const Confinement& options);

/// Caps the private memory that this process may take from now on (RLIMIT_DATA) and the stacks of
/// its threads; 0 leaves it uncapped.
Result<void> cap_memory(std::uint64_t bytes, std::uint32_t threads);

/// The floating-point environment that canonical results are defined in: nearest even, subnormals
/// kept, no traps. Before every call into a plugin, which may have changed it.
void reset_float_environment();

}  // namespace goblin::runner
