// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A TOML file as a flat map: `[listen] port = 7400` is "listen.port". Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "goblin/error.hpp"

namespace goblin::hosts {

struct ConfigValue {
  /// What TOML has beside these (dates, lists of other things than strings and numbers).
  struct Other {
    std::string type;
  };
  using Data =
      std::variant<std::string, std::int64_t, double, bool, std::vector<std::string>, Other>;
  Data data;
  std::string text;   ///< as it can be shown: strings quoted
  std::string where;  ///< "host.toml:12"
};

/// kNotFound: no such file. kInvalidArgument: not TOML (file, line and column), or over 1 MiB.
Result<std::map<std::string, ConfigValue>> read_config_file(const std::string& path);
/// The same from memory; `name` stands for the path in errors.
Result<std::map<std::string, ConfigValue>> parse_config(std::string_view text,
                                                        const std::string& name);

}  // namespace goblin::hosts
