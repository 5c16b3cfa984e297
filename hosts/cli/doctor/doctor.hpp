// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// `goblin doctor [ROLE]`: is this installation sound, and what is to be done?
#pragma once

#include <string>

#include "hosts/cli/role.hpp"

namespace goblin::cli {

/// Examines what every role needs, and the role ("coordinator", "lab", "host"); empty: each that
/// has a file of settings or a state directory. Prints text or JSON; 0, or 1 when something must be
/// mended.
int run_doctor(const std::string& role, const RoleOptions& options);

}  // namespace goblin::cli
