// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A volunteer's host: connects to the coordinator, serves the lab nodes that it assigns, and
// answers `goblin host status`. Every connection is outbound.
#pragma once

#include "hosts/common/config_reader.hpp"
#include "hosts/volunteer/config.hpp"

namespace goblin::volunteer {

/// Reads every setting; kInvalidArgument lists all that is wrong.
Result<HostConfig> read_config(hosts::ConfigReader& reader);

/// Blocks until a signal or a "stop" or "finish" command. Errors name what could not be opened.
Result<void> run_host(const HostConfig& config);

}  // namespace goblin::volunteer
