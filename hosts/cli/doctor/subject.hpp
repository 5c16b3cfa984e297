// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What checks are about: settings, read once.
#pragma once

#include <string>

#include "hosts/cli/doctor/check.hpp"

namespace goblin::cli::doctor {

/// Stands for a role where none is set up.
inline constexpr const char* kMachine = "machine";

Subject examine(const std::string& role, const RoleOptions& options);

}  // namespace goblin::cli::doctor
