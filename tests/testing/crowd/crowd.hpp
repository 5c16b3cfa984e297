// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What the hosts of a crowd are told to do.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/net/loop.hpp"
#include "hosts/common/config_reader.hpp"

namespace goblin::testing {

/// How one host behaves. Times count from the crowd's first lease.
struct Conduct {
  double slowness = 1;                            ///< its tasks take so many times as long
  bool lies = false;                              ///< every result is wrong
  std::optional<net::Milliseconds> leaves;        ///< its connections end then
  std::optional<net::Milliseconds> falls_silent;  ///< they stay, and nothing comes any more
};

struct CrowdOptions {
  std::vector<Conduct> hosts;
  /// Of each task on a host that is not slow; empty: tasks take no time.
  std::vector<net::Milliseconds> durations;
};

/// Settings:
///   crowd.hosts      how many
///   crowd.durations  a file of milliseconds, one line for each task
///   crowd.slow       list of HOST:TIMES, such as "3:10"
///   crowd.liars      list of HOST
///   crowd.leave      list of HOST:MILLISECONDS
///   crowd.silent     list of HOST:MILLISECONDS
/// What is wrong with them is complained of to the reader.
CrowdOptions read_crowd(hosts::ConfigReader& reader);

}  // namespace goblin::testing
