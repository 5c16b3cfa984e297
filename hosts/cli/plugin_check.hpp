// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// `goblin plugin check`: the conformance kit for authors, against any plugin's file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace goblin::cli {

struct PluginCheckOptions {
  std::string file;
  std::vector<std::string> jobs;   ///< lines as hosts/conformance/job.hpp reads them
  std::vector<std::string> tests;  ///< only these; empty: all
  std::string backend = "cpu";
  std::uint64_t seed = 0;  ///< 0: a fresh one
  bool list = false;       ///< only say which tests there are
};

/// Prints a verdict per test. 0: all passed or were skipped, 1: one failed or the plugin cannot be
/// used, 2: the question makes no sense.
int check_plugin(const PluginCheckOptions& options);

}  // namespace goblin::cli
