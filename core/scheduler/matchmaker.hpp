// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Which hosts serve which lab node. Pure logic over a clock that the caller passes in; one thread.
//
// A host serves at most `labs_per_host` lab nodes. Assignments are leases: sticky while both sides
// are heard of, ended when one is silent for `silence` or the host takes no work for so long. A lab
// node with fewer hosts than its share takes from those with more than theirs, one per host and
// round, so that work is not torn apart. Where places are so few that some lab nodes would get no
// host, or one fewer than others, an assignment ends after `term` in favour of the lab node that
// has waited longest: over time all have their share, at one move per host and round.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "core/wire/values.hpp"

namespace goblin::scheduler {

class Matchmaker {
 public:
  using Micros = std::uint64_t;
  using Pin = wire::Digest;

  struct Config {
    std::uint32_t labs_per_host = 3;
    Micros silence = 30'000'000;  ///< a peer not heard of, or a host paused, for so long is gone
    Micros lease = 60'000'000;    ///< what an assignment is worth to those who hold it
    Micros term = 600'000'000;    ///< what it lasts for at least where another lab node waits
  };
  explicit Matchmaker(Config config) : config_(config) {}

  /// A heartbeat. `accepting`: the host takes work (not paused, not stopping).
  void host_seen(const Pin& host, bool accepting, Micros now);
  void lab_seen(const Pin& lab, std::uint32_t hosts_wanted, Micros now);
  void host_gone(const Pin& host);
  void lab_gone(const Pin& lab);

  /// Ends what is silent, fills and balances. Answers everyone whose assignments changed.
  std::set<Pin> update(Micros now);

  [[nodiscard]] std::vector<Pin> labs_of(const Pin& host) const;
  [[nodiscard]] std::vector<Pin> hosts_of(const Pin& lab) const;
  [[nodiscard]] const Config& config() const { return config_; }

 private:
  struct Host {
    bool accepting = true;
    Micros accepted = 0;  ///< when it last took work, or was heard of first
    Micros seen = 0;
    std::map<Pin, Micros> labs;  ///< since when
  };
  struct Lab {
    std::uint32_t wanted = 0;
    Micros seen = 0;
    std::uint64_t place = 0;  ///< in the queue: who got or gave a host last is behind
    std::set<Pin> hosts;
  };
  void unlink(const Pin& host, const Pin& lab);
  void link(const Pin& host, const Pin& lab, Micros now);
  [[nodiscard]] static bool lacks(const Lab& lab);
  void end_silent(Micros now);
  void give_back(Micros now);
  void fill(Micros now);
  void balance(Micros now);
  [[nodiscard]] const Pin* neediest(const Host& host) const;

  Config config_;
  std::map<Pin, Host> hosts_;
  std::map<Pin, Lab> labs_;
  std::set<Pin> changed_;
  std::uint64_t last_place_ = 0;
};

}  // namespace goblin::scheduler
