// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A lab node: wires journal, staging, engine, coordinator link and listeners, and runs until a
// signal or a "stop" command.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/log/log.hpp"
#include "hosts/common/config_reader.hpp"
#include "hosts/lab/engine.hpp"
#include "hosts/link/catalogue.hpp"

namespace goblin::lab {

struct LabConfig {
  std::string state_dir;            ///< journal, staging, identity, plugins
  std::string address = "0.0.0.0";  ///< where hosts connect to
  std::uint16_t port = 0;           ///< 0: any free one
  net::ListenerLimits listener;     ///< of hosts, and clients over TLS
  std::string public_address;       ///< how hosts reach it; empty: as the coordinator sees it
  std::string socket;               ///< Unix socket of clients; empty: state_dir/lab.sock
  bool socket_group = false;        ///< the socket's group may use it, too
  std::string coordinator;          ///< host name or address
  std::uint16_t coordinator_port = 0;
  wire::Digest coordinator_pin;
  link::CatalogueSettings catalogue;
  std::uint32_t hosts_wanted = 1000;
  std::vector<wire::Digest> hosts;       ///< allowed without the coordinator's word
  std::vector<wire::Digest> validators;  ///< trusted by this lab
  bool network_validators = false;       ///< the coordinator's are trusted like those
  std::vector<wire::Digest> clients;     ///< allowed over TLS
  std::uint64_t staging_bytes = 0;       ///< cap; 0: the disk's
  std::uint64_t plugin_cache_bytes = 1ULL << 30;
  bool synchronous_full = false;  ///< survive a loss of power, not only a crash
  net::Milliseconds heartbeat{3'000};
  EngineOptions engine;
  log::Options log;
  int ready_fd = -1;  ///< told "port pin\n" once all listeners are up
};

/// Reads every setting; kInvalidArgument lists all that is wrong.
Result<LabConfig> read_config(hosts::ConfigReader& reader);

/// Blocks. Errors name what could not be opened and what to do.
Result<void> run_lab(const LabConfig& config);

}  // namespace goblin::lab
