// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Randomness that no host can predict. Any thread.
#pragma once

#include <array>
#include <cstdint>

#include "core/scheduler/scheduler.hpp"

namespace goblin::lab {

/// Fresh bytes of the kernel's generator: the seed of a check, drawn after the host has committed.
std::array<std::uint8_t, 32> draw_seed();

/// The same settings with a secret seed, never 0: numbers of leases, and which replica goes to
/// which host, must not follow from anything that hosts know.
scheduler::Config with_secret_seed(scheduler::Config config);

}  // namespace goblin::lab
