// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/common/paths.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <utility>

namespace goblin::hosts {
namespace {

Environment environment(bool root, std::map<std::string, std::string> variables) {
  return {root, [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
            const auto found = variables.find(name);
            return found == variables.end() ? std::nullopt : std::optional(found->second);
          }};
}

TEST(Paths, RootUsesTheSystemsPlaces) {
  const Environment root = environment(true, {{"HOME", "/root"}, {"XDG_STATE_HOME", "/x"}});
  EXPECT_EQ(default_state_directory("lab", root).value(), "/var/lib/gpugoblin/lab");
  EXPECT_EQ(default_config_file("lab", root).value(), "/etc/gpugoblin/lab.toml");
  EXPECT_EQ(default_socket("lab", root).value(), "/run/gpugoblin/lab.sock");
}

TEST(Paths, UsersUseXdg) {
  const Environment user = environment(false, {{"HOME", "/home/u"},
                                               {"XDG_STATE_HOME", "/s"},
                                               {"XDG_CONFIG_HOME", "/c"},
                                               {"XDG_RUNTIME_DIR", "/run/user/7"}});
  EXPECT_EQ(default_state_directory("host", user).value(), "/s/gpugoblin/host");
  EXPECT_EQ(default_config_file("host", user).value(), "/c/gpugoblin/host.toml");
  EXPECT_EQ(default_socket("host", user).value(), "/run/user/7/gpugoblin/host.sock");
}

TEST(Paths, HomeIsTheFallbackAndRelativeValuesAreIgnored) {
  const Environment user = environment(
      false, {{"HOME", "/home/u"}, {"XDG_STATE_HOME", "state"}, {"XDG_RUNTIME_DIR", ""}});
  EXPECT_EQ(default_state_directory("host", user).value(), "/home/u/.local/state/gpugoblin/host");
  EXPECT_EQ(default_config_file("host", user).value(), "/home/u/.config/gpugoblin/host.toml");
  EXPECT_EQ(default_socket("host", user).value(), "/home/u/.local/state/gpugoblin/host/host.sock");
}

TEST(Paths, NoHomeIsAClearError) {
  const Environment user = environment(false, {{"HOME", "relative"}});
  const auto refused = default_state_directory("host", user);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNotFound);
  EXPECT_NE(refused.error().message.find("neither XDG_STATE_HOME nor HOME"), std::string::npos);
  EXPECT_FALSE(default_config_file("host", user));
  EXPECT_FALSE(default_socket("host", user));
}

TEST(Paths, ProcessEnvironment) {
  ASSERT_EQ(::setenv("GOBLIN_PATHS_TEST", "/x", 1), 0);
  EXPECT_EQ(Environment::process().get("GOBLIN_PATHS_TEST"), "/x");
  ASSERT_EQ(::setenv("GOBLIN_PATHS_TEST", "", 1), 0);
  EXPECT_EQ(Environment::process().get("GOBLIN_PATHS_TEST"), std::nullopt);
}

}  // namespace
}  // namespace goblin::hosts
