// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// `goblin plugin add|list|remove` and `goblin coordinator reload`: the plugins that a coordinator
// offers, whether it runs or not. Each answers an exit status.
#pragma once

#include <string>

#include "hosts/cli/role.hpp"

namespace goblin::cli {

/// Fails, and changes nothing, when the coordinator would leave the plugin out.
int plugin_add(const std::string& file, const RoleOptions& options);
int plugin_list(const RoleOptions& options);
/// `what`: a kind, or at least six digits that the SHA-256 begins with. Added plugins only.
int plugin_remove(const std::string& what, const RoleOptions& options);
int reload_plugins(const RoleOptions& options);

}  // namespace goblin::cli
