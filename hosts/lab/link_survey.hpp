// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What the links to all hosts carry, each alone and all together: what they have less together is
// what the lab node's own link does not carry. Loop's thread only.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "core/scheduler/forecast.hpp"
#include "hosts/lab/link_meter.hpp"

namespace goblin::lab {

struct Links {
  std::map<scheduler::HostId, LinkMeasure> hosts;
  scheduler::LinkRate lab;  ///< infinite where the hosts' links were the limit
};

/// The lab node's link is the limit where hosts have less than this share together.
inline constexpr double kShared = 0.8;

/// `alone`: some of the hosts in `together`. Those that were not measured alone have what was seen
/// of them together, or, where the lab node's link is the limit, what the median host has alone.
Links links_of(const std::map<scheduler::HostId, LinkMeasure>& together,
               const std::map<scheduler::HostId, LinkMeasure>& alone);

class LinkSurvey {
 public:
  using Measure = std::function<net::Task<Result<LinkMeasure>>()>;

  explicit LinkSurvey(net::Loop& loop) : loop_(loop), free_(loop) { free_.set(); }

  /// Measures all at once, then up to four alone, unless that was done within a minute for the same
  /// hosts. Hosts that do not answer are left out. One at a time: others wait.
  net::Task<Links> survey(std::map<scheduler::HostId, Measure> hosts);

 private:
  net::Loop& loop_;
  net::Event free_;  ///< nobody measures
  std::optional<net::TimePoint> measured_;
  std::vector<scheduler::HostId> asked_;
  Links last_;
};

}  // namespace goblin::lab
