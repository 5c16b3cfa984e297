// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Landlock: whatever this kernel's version of it can deny is denied.
#pragma once

#include "core/jail/layers.hpp"

namespace goblin::jail {

/// This thread's and those of its threads to come. Needs no_new_privs. Notes in `report` what the
/// kernel offers ("ABI 4: files, TCP"), or why it is missing.
void enter_landlock(Report& report);

}  // namespace goblin::jail
