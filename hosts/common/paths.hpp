// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Default places of a program's files, by the XDG base directory specification for users and the
// file system hierarchy for root. `role` is "host", "lab" or "coordinator". Any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "goblin/error.hpp"

namespace goblin::hosts {

/// What the places depend on.
struct Environment {
  bool root = false;
  std::function<std::optional<std::string>(const char*)> get;  ///< of a variable; empty is unset

  /// This process'.
  static Environment process();
};

/// /var/lib/gpugoblin/ROLE, or $XDG_STATE_HOME/gpugoblin/ROLE, else ~/.local/state/gpugoblin/ROLE.
/// kNotFound when neither variable nor HOME is set.
Result<std::string> default_state_directory(std::string_view role, const Environment& environment);
/// /etc/gpugoblin/ROLE.toml, or $XDG_CONFIG_HOME/gpugoblin/ROLE.toml, else below ~/.config.
Result<std::string> default_config_file(std::string_view role, const Environment& environment);
/// /run/gpugoblin/ROLE.sock, or $XDG_RUNTIME_DIR/gpugoblin/ROLE.sock, else the state directory's
/// ROLE.sock.
Result<std::string> default_socket(std::string_view role, const Environment& environment);

}  // namespace goblin::hosts
