// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/cli/role.hpp"

#include <filesystem>
#include <iostream>
#include <map>

#include "hosts/common/paths.hpp"

namespace goblin::cli {

int report(const Error& error) {
  std::cerr << "goblin: " << error.message << "\n";
  return error.code == Code::kInvalidArgument ? 2 : 1;
}
int report(const Result<void>& result) { return result ? 0 : report(result.error()); }

ConfigFile config_file(const std::string& role, const RoleOptions& options) {
  if (!options.config.empty()) {
    return {options.config, "configuration file: " + options.config};
  }
  const auto environment = hosts::Environment::process();
  const auto fallback = hosts::default_config_file(role, environment);
  if (!fallback) {
    return {"", "no configuration file: " + fallback.error().message};
  }
  std::error_code error;
  if (std::filesystem::exists(*fallback, error)) {
    return {*fallback, "configuration file: " + *fallback};
  }
  std::string source = "no configuration file: " + *fallback + " does not exist";
  // A user who became root by sudo wrote it where users' files are.
  auto as_user = environment;
  as_user.root = false;
  const auto users = hosts::default_config_file(role, as_user);
  if (environment.root && users && std::filesystem::exists(*users, error)) {
    source += " (" + *users + " does, but is not root's: move it there, or name it with --config)";
  }
  return {"", std::move(source)};
}

Result<hosts::ConfigReader> open_config(const std::string& role, const RoleOptions& options) {
  std::map<std::string, std::string> flags;
  for (const auto& item : options.set) {
    const auto equals = item.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail(Code::kInvalidArgument,
                  "--set " + item + ": write it as KEY=VALUE, such as memory=256MiB");
    }
    flags[item.substr(0, equals)] = item.substr(equals + 1);
  }
  if (!options.state_dir.empty()) {
    flags["state-dir"] = options.state_dir;
  }
  if (!options.socket.empty()) {
    flags["socket"] = options.socket;
  }
  const ConfigFile file = config_file(role, options);
  GOBLIN_TRY(hosts::ConfigReader reader, hosts::ConfigReader::open(file.path, std::move(flags)));
  reader.set_source(file.source);
  return reader;
}

Result<std::string> socket_of(const std::string& role, const RoleOptions& options) {
  if (!options.socket.empty()) {
    return options.socket;
  }
  GOBLIN_TRY(hosts::ConfigReader reader, open_config(role, options));
  auto fallback = hosts::default_state_directory(role, hosts::Environment::process());
  const std::string state = reader.string("state-dir", fallback.value_or("."));
  return reader.string("socket", state + "/" + role + ".sock");
}

Error unanswered(const std::string& role, const std::string& socket, Error error) {
  if (error.code != Code::kUnavailable) {
    return error;
  }
  return {Code::kUnavailable, "no " + role + " answers at '" + socket + "' (" + error.message +
                                  "); start it with `goblin " + role +
                                  " run`, or name its --state-dir or --socket"};
}

wire::Role role_of(const std::string& role) {
  return role == "coordinator" ? wire::Role::kCoordinator
         : role == "lab"       ? wire::Role::kLab
                               : wire::Role::kHost;
}

}  // namespace goblin::cli
