// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/common/paths.hpp"

#include <unistd.h>

#include <cstdlib>

namespace goblin::hosts {
namespace {

/// The specification: relative values are invalid and ignored.
std::optional<std::string> absolute(const Environment& environment, const char* variable) {
  auto value = environment.get(variable);
  return value && value->starts_with('/') ? value : std::nullopt;
}

Result<std::string> base(const Environment& environment, const char* variable,
                         const char* below_home) {
  if (const auto value = absolute(environment, variable)) {
    return *value;
  }
  if (const auto home = absolute(environment, "HOME")) {
    return *home + "/" + below_home;
  }
  return fail(Code::kNotFound, std::string("neither ") + variable +
                                   " nor HOME holds an absolute path; set one of them, or name "
                                   "the directory");
}

}  // namespace

Environment Environment::process() {
  return {::geteuid() == 0, [](const char* variable) -> std::optional<std::string> {
            const char* value = std::getenv(variable);
            return value == nullptr || *value == '\0' ? std::nullopt
                                                      : std::optional<std::string>(value);
          }};
}

Result<std::string> default_state_directory(std::string_view role, const Environment& environment) {
  if (environment.root) {
    return "/var/lib/gpugoblin/" + std::string(role);
  }
  GOBLIN_TRY(const std::string home, base(environment, "XDG_STATE_HOME", ".local/state"));
  return home + "/gpugoblin/" + std::string(role);
}

Result<std::string> default_config_file(std::string_view role, const Environment& environment) {
  if (environment.root) {
    return "/etc/gpugoblin/" + std::string(role) + ".toml";
  }
  GOBLIN_TRY(const std::string home, base(environment, "XDG_CONFIG_HOME", ".config"));
  return home + "/gpugoblin/" + std::string(role) + ".toml";
}

Result<std::string> default_socket(std::string_view role, const Environment& environment) {
  const std::string name = "/" + std::string(role) + ".sock";
  if (environment.root) {
    return "/run/gpugoblin" + name;
  }
  if (const auto runtime = absolute(environment, "XDG_RUNTIME_DIR")) {
    return *runtime + "/gpugoblin" + name;
  }
  GOBLIN_TRY(const std::string state, default_state_directory(role, environment));
  return state + name;
}

}  // namespace goblin::hosts
