// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Randomness that no host can predict. Any thread.
#pragma once

#include <array>
#include <cstdint>

#include "core/scheduler/scheduler.hpp"

namespace goblin::lab {

/// Fresh bytes of the kernel's generator: the seed of a check, drawn after the host has committed.
std::array<std::uint8_t, 32> draw_seed();

/// The same settings with the kernel's generator: numbers of leases, which host computes a replica
/// and which result is recomputed must not follow from anything that hosts know.
scheduler::Config with_secret_choices(scheduler::Config config);

}  // namespace goblin::lab
