// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The coordinator: knows hosts and lab nodes by their keys, says who serves whom, and offers the
// catalogue of plugins. Sees no task and no data.
#pragma once

#include <string>
#include <vector>

#include "core/log/log.hpp"
#include "core/net/channel.hpp"
#include "core/net/loop.hpp"
#include "core/scheduler/matchmaker.hpp"
#include "hosts/common/config_reader.hpp"

namespace goblin::coordinator {

struct CoordinatorConfig {
  std::string state_dir;  ///< registry, identity, added plugins
  std::string address = "0.0.0.0";
  std::uint16_t port = 0;  ///< 0: any free one
  std::string socket;      ///< of `goblin coordinator status`; empty: in state_dir
  std::vector<std::string> plugin_dirs;
  std::vector<std::string> plugins;      ///< single files
  std::vector<wire::Digest> validators;  ///< hosts that every lab node may trust
  std::vector<wire::Digest> labs;        ///< lab nodes admitted; empty: every one
  scheduler::Matchmaker::Config matchmaking;
  net::Milliseconds update_every{500};
  net::ListenerLimits listener;
  std::uint32_t max_known_peers = 100'000;  ///< remembered; the longest unseen are forgotten first
  log::Options log;
  int ready_fd = -1;  ///< told "port pin\n" once it listens
};

/// Reads every setting; kInvalidArgument lists all that is wrong.
Result<CoordinatorConfig> read_config(hosts::ConfigReader& reader);

/// Blocks. Errors name what could not be opened and what to do.
Result<void> run_coordinator(const CoordinatorConfig& config);

}  // namespace goblin::coordinator
