// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The root directory of a runner: empty, but for the list of its own descriptors, through which its
// plugin is loaded.
#pragma once

#include "goblin/error.hpp"

namespace goblin::jail {

/// In a mount namespace of one's own, with the right to mount. Afterwards "/" is a read-only
/// directory with /proc/self/fd, and nothing else of the computer's files can be named.
/// kUnavailable names the step, or the path that is missing.
Result<void> enter_empty_root();

}  // namespace goblin::jail
