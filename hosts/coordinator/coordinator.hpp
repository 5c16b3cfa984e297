// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The coordinator: knows hosts and lab nodes by their keys, says who serves whom, and serves the
// signed catalogue of plugins. Sees no task and no data.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/log/log.hpp"
#include "core/net/channel.hpp"
#include "core/net/loop.hpp"
#include "core/scheduler/matchmaker.hpp"
#include "hosts/common/config_reader.hpp"
#include "hosts/coordinator/publisher.hpp"

namespace goblin::coordinator {

struct CoordinatorConfig {
  std::string state_dir;  ///< registry, identity, published metadata and plugins
  std::string address = "0.0.0.0";
  std::uint16_t port = 0;  ///< 0: any free one
  std::string socket;      ///< of `goblin coordinator status`; empty: in state_dir
  PublisherSettings publisher;
  std::vector<wire::Digest> validators;  ///< hosts that every lab node may trust
  std::vector<wire::Digest> labs;        ///< lab nodes admitted; empty: every one
  scheduler::Matchmaker::Config matchmaking;
  net::Milliseconds update_every{500};
  net::ListenerLimits listener;
  std::uint32_t max_known_peers = 100'000;  ///< remembered; the longest unseen are forgotten first
  log::Options log;
  int ready_fd = -1;  ///< told "port pin\n" once it listens
  /// Seam for the lying coordinator of the tests; empty: a Publisher.
  std::function<Result<std::unique_ptr<CatalogueSource>>(const PublisherSettings&)> open_catalogue;
};

/// Reads every setting; kInvalidArgument lists all that is wrong.
Result<CoordinatorConfig> read_config(hosts::ConfigReader& reader);

/// Blocks. Errors name what could not be opened and what to do.
Result<void> run_coordinator(const CoordinatorConfig& config);

}  // namespace goblin::coordinator
