// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/scheduler/matchmaker.hpp"

#include <algorithm>

namespace goblin::scheduler {

namespace {

/// Of what it wants.
double part(std::size_t hosts, std::uint32_t wanted) {
  return static_cast<double>(hosts) / static_cast<double>(wanted);
}

}  // namespace

void Matchmaker::link(const Pin& host, const Pin& lab, Micros now) {
  hosts_.at(host).labs.emplace(lab, now);
  Lab& entry = labs_.at(lab);
  entry.hosts.insert(host);
  entry.place = ++last_place_;
  changed_.insert(host);
  changed_.insert(lab);
}

void Matchmaker::unlink(const Pin& host, const Pin& lab) {
  if (const auto it = hosts_.find(host); it != hosts_.end()) {
    it->second.labs.erase(lab);
  }
  if (const auto it = labs_.find(lab); it != labs_.end()) {
    it->second.hosts.erase(host);
  }
  changed_.insert(host);
  changed_.insert(lab);
}

void Matchmaker::host_seen(const Pin& host, bool accepting, Micros now) {
  const auto [it, fresh] = hosts_.try_emplace(host);
  Host& entry = it->second;
  if (fresh || accepting) entry.accepted = now;
  entry.accepting = accepting;
  entry.seen = now;
}

void Matchmaker::lab_seen(const Pin& lab, std::uint32_t hosts_wanted, Micros now) {
  const auto [it, fresh] = labs_.try_emplace(lab);
  Lab& entry = it->second;
  if (fresh || entry.wanted == 0) entry.place = ++last_place_;
  entry.wanted = hosts_wanted;
  entry.seen = now;
}

void Matchmaker::host_gone(const Pin& host) {
  const auto it = hosts_.find(host);
  if (it == hosts_.end()) {
    return;
  }
  const auto labs = it->second.labs;
  for (const auto& [lab, since] : labs) {
    unlink(host, lab);
  }
  hosts_.erase(host);
}

void Matchmaker::lab_gone(const Pin& lab) {
  const auto it = labs_.find(lab);
  if (it == labs_.end()) {
    return;
  }
  const auto hosts = it->second.hosts;
  for (const auto& host : hosts) {
    unlink(host, lab);
  }
  labs_.erase(lab);
}

void Matchmaker::end_silent(Micros now) {
  std::vector<Pin> silent_hosts;
  for (const auto& [pin, host] : hosts_) {
    if (host.seen + config_.silence < now) {
      silent_hosts.push_back(pin);
    }
  }
  for (const auto& pin : silent_hosts) {
    host_gone(pin);
  }
  std::vector<Pin> silent_labs;
  for (const auto& [pin, lab] : labs_) {
    if (lab.seen + config_.silence < now) {
      silent_labs.push_back(pin);
    }
  }
  for (const auto& pin : silent_labs) {
    lab_gone(pin);
  }
}

/// What is wanted no longer, and what a host that takes no work holds: it may resume, but not for
/// ever.
void Matchmaker::give_back(Micros now) {
  for (auto& [pin, lab] : labs_) {
    while (lab.hosts.size() > lab.wanted) {
      const Pin host = *lab.hosts.rbegin();
      unlink(host, pin);
    }
  }
  for (auto& [pin, host] : hosts_) {
    while (!host.accepting && host.accepted + config_.silence < now && !host.labs.empty()) {
      const Pin lab = host.labs.begin()->first;
      unlink(pin, lab);
    }
  }
}

bool Matchmaker::lacks(const Lab& lab) { return lab.hosts.size() < lab.wanted; }

const Matchmaker::Pin* Matchmaker::neediest(const Host& host) const {
  const Pin* best = nullptr;
  std::pair<double, std::uint64_t> best_need{};
  for (const auto& [pin, lab] : labs_) {
    if (!lacks(lab) || host.labs.contains(pin)) {
      continue;
    }
    const std::pair<double, std::uint64_t> need{part(lab.hosts.size(), lab.wanted), lab.place};
    if (best == nullptr || need < best_need) {
      best = &pin;
      best_need = need;
    }
  }
  return best;
}

/// The lab node with the smallest part of what it wants goes first, of equal ones who has waited
/// longest.
void Matchmaker::fill(Micros now) {
  for (auto& [pin, host] : hosts_) {
    while (host.accepting && host.labs.size() < config_.labs_per_host) {
      const Pin* lab = neediest(host);
      if (lab == nullptr) {
        break;
      }
      link(pin, *lab, now);
    }
  }
}

/// A full host moves one place from the lab node that has most of what it wants to the one that has
/// least: when that brings the two closer, or, after its term, when it makes them change places.
void Matchmaker::balance(Micros now) {
  for (auto& [pin, host] : hosts_) {
    if (!host.accepting || host.labs.size() < config_.labs_per_host) {
      continue;
    }
    const Pin* poor = neediest(host);
    if (poor == nullptr) {
      continue;
    }
    const Lab& to = labs_.at(*poor);
    const double to_now = part(to.hosts.size(), to.wanted);
    const double to_after = part(to.hosts.size() + 1, to.wanted);
    const Pin* from = nullptr;
    std::pair<double, Micros> from_has{};
    for (const auto& [lab_pin, since] : host.labs) {
      const Lab& lab = labs_.at(lab_pin);
      const double has = part(lab.hosts.size(), lab.wanted);
      const double after = part(lab.hosts.size() - 1, lab.wanted);
      const bool turn = now >= since + config_.term && to_now < has && to_after <= has;
      if (to_after > after && !turn) {
        continue;
      }
      // Of equal ones that which has had its host longest.
      const std::pair<double, Micros> rich{has, now - since};
      if (from == nullptr || rich > from_has) {
        from = &lab_pin;
        from_has = rich;
      }
    }
    if (from == nullptr) {
      continue;
    }
    const Pin lab_from = *from;
    const Pin lab_to = *poor;
    unlink(pin, lab_from);
    labs_.at(lab_from).place = ++last_place_;
    link(pin, lab_to, now);
  }
}

std::set<Matchmaker::Pin> Matchmaker::update(Micros now) {
  end_silent(now);
  give_back(now);
  fill(now);
  balance(now);
  return std::exchange(changed_, {});
}

std::vector<Matchmaker::Pin> Matchmaker::labs_of(const Pin& host) const {
  const auto it = hosts_.find(host);
  std::vector<Pin> labs;
  if (it == hosts_.end()) {
    return labs;
  }
  for (const auto& [lab, since] : it->second.labs) {
    labs.push_back(lab);
  }
  return labs;
}

std::vector<Matchmaker::Pin> Matchmaker::hosts_of(const Pin& lab) const {
  const auto it = labs_.find(lab);
  return it == labs_.end() ? std::vector<Pin>{}
                           : std::vector<Pin>(it->second.hosts.begin(), it->second.hosts.end());
}

}  // namespace goblin::scheduler
