// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The command line of programs that stand in for `goblin host run`.
#pragma once

#include <map>
#include <string>

#include "goblin/error.hpp"

namespace goblin::testing {

struct HostFlags {
  std::map<std::string, std::string> settings;  ///< for hosts::ConfigReader
  int ready_fd = -1;
};

/// `host run --state-dir DIR --ready-fd N --set KEY=VALUE…`; kInvalidArgument names the word.
inline Result<HostFlags> read_host_flags(int argc, char** argv) {
  HostFlags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "host" || word == "run") {
      continue;
    }
    if (i + 1 >= argc) {
      return fail(Code::kInvalidArgument, "a value is missing after " + word);
    }
    const std::string value = argv[++i];
    if (word == "--set") {
      const auto equals = value.find('=');
      if (equals == std::string::npos) {
        return fail(Code::kInvalidArgument, "--set " + value + ": write it as KEY=VALUE");
      }
      flags.settings[value.substr(0, equals)] = value.substr(equals + 1);
    } else if (word == "--state-dir") {
      flags.settings["state-dir"] = value;
    } else if (word == "--ready-fd") {
      flags.ready_fd = std::stoi(value);
    } else {
      return fail(Code::kInvalidArgument, "unknown option " + word);
    }
  }
  return flags;
}

}  // namespace goblin::testing
