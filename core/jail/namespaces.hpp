// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Namespaces of the spawner's children.
#pragma once

#include <optional>

#include "core/jail/credentials.hpp"
#include "core/jail/layers.hpp"

namespace goblin::jail {

/// Single-threaded. Takes this process into new namespaces, those of processes for its children
/// only, and notes in `report` which the kernel gave. `own` gets its number inside. kUnavailable
/// when the process was left halfway, and cannot go on.
Result<void> enter_namespaces(Report& report, std::optional<OwnUid>& own);

}  // namespace goblin::jail
