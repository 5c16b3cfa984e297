// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What jail a runner would get on this machine: one is started, loads the installation's backend,
// closes its jail, tries to get out, and tells. No plugin is loaded into it.
#pragma once

#include <string>
#include <vector>

#include "core/jail/layers.hpp"
#include "core/plugin/runner_client.hpp"
#include "goblin/error.hpp"

namespace goblin::plugin {

struct JailProbe {
  jail::Report report;
  std::string refused;               ///< why a runner would load nothing; empty: it would
  std::string device;                ///< the backend's; empty: none was named
  std::vector<std::string> escapes;  ///< what was tried from inside and not denied
};

/// Blocks, 10 s at most. Of the options it reads the program, the backend (may be none), its device
/// and what is required. Errors: the
/// program cannot be started (kNotFound, kUnavailable), or answers what nobody understands.
Result<JailProbe> probe_jail(const RunnerOptions& options);

/// For daemons, before they take any work: finds out whether runners can have control groups
/// (`options.groups`), and whether they have a jail. What jail that is, in words; kUnavailable,
/// with everything that is missing, unless it is complete.
Result<std::string> expect_jail(RunnerOptions& options);

}  // namespace goblin::plugin
