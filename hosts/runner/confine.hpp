// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Memory and floating-point environment of calls into a plugin. What a runner denies itself
// otherwise is its jail (core/jail).
#pragma once

#include <cstdint>

#include "goblin/error.hpp"

namespace goblin::runner {

/// Caps the private memory that this process may take from now on (RLIMIT_DATA) and the stacks of
/// its threads; 0 leaves it uncapped.
Result<void> cap_memory(std::uint64_t bytes, std::uint32_t threads);

/// The floating-point environment that canonical results are defined in: nearest even, subnormals
/// kept, no traps. Before every call into a plugin, which may have changed it.
void reset_float_environment();

}  // namespace goblin::runner
