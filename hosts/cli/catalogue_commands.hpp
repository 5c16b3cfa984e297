// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The subcommands of `goblin plugin` that concern the signed catalogue, and the options of roles.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "hosts/cli/plugin_catalogue.hpp"

namespace goblin::cli {

void add_role_options(CLI::App& app, RoleOptions& options);
/// `options` and `action` live as long as the command line is looked at.
void add_catalogue_commands(CLI::App& plugin, CatalogueOptions& options,
                            std::function<int()>& action);

}  // namespace goblin::cli
