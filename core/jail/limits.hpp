// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Resource limits of a runner, but for its memory, which hosts/runner caps once it knows how much.
#pragma once

#include <cstdint>

#include "core/jail/layers.hpp"

namespace goblin::jail {

/// `threads`: the most that the runner may have. They are counted by user id: where that is shared
/// with other processes of this computer (`alone` false) there is no such limit.
void enter_limits(Report& report, std::uint32_t threads, bool alone);

}  // namespace goblin::jail
