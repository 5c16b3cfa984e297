// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Which hosts a lab node serves, which of them it trusts, and which of them are independent. Loop's
// thread only.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/net/channel.hpp"

namespace goblin::lab {

class Admission {
 public:
  /// What a host may do here now.
  struct Standing {
    bool trusted = false;
    bool operator==(const Standing&) const = default;
  };

  /// `network_validators`: hosts that the coordinator calls validators are trusted like our own.
  Admission(std::vector<wire::Digest> hosts, std::vector<wire::Digest> validators,
            bool network_validators = false)
      : hosts_(std::move(hosts)),
        validators_(std::move(validators)),
        network_validators_(network_validators) {}

  /// The coordinator's word, each with a lease from `now`. A host that it no longer names keeps its
  /// lease to the end: a coordinator that has just started knows nobody yet.
  void assign(const wire::HostAssignments& message, net::TimePoint now);
  /// Nothing: neither our own lists nor a lease that has not run out name it.
  [[nodiscard]] std::optional<Standing> standing(const wire::Digest& pin, net::TimePoint now) const;
  /// Forgets the leases that have run out; says how many are left.
  std::size_t prune(net::TimePoint now);

 private:
  struct Assigned {
    bool validator = false;
    net::TimePoint until;
  };
  std::vector<wire::Digest> hosts_, validators_;
  bool network_validators_;
  std::map<wire::Digest, Assigned> assigned_;
};

/// Peers with one number are not independent: one IPv4 address or one IPv6 /64, which one machine
/// can fill. Hosts of this machine are told apart by key.
std::uint64_t independence_group(const net::Peer& peer);

}  // namespace goblin::lab
