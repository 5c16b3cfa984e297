// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/scheduler/matchmaker.hpp"

#include <algorithm>

namespace goblin::scheduler {

void Matchmaker::link(const Pin& host, const Pin& lab) {
  hosts_.at(host).labs.insert(lab);
  labs_.at(lab).hosts.insert(host);
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
  Host& entry = hosts_[host];
  entry.accepting = accepting;
  entry.seen = now;
}

void Matchmaker::lab_seen(const Pin& lab, std::uint32_t hosts_wanted, Micros now) {
  Lab& entry = labs_[lab];
  entry.wanted = hosts_wanted;
  entry.seen = now;
}

void Matchmaker::host_gone(const Pin& host) {
  const auto it = hosts_.find(host);
  if (it == hosts_.end()) {
    return;
  }
  const auto labs = it->second.labs;
  for (const auto& lab : labs) {
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

std::set<Matchmaker::Pin> Matchmaker::update(Micros now) {
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
  // A lab node that wants fewer hosts than it has gives the surplus back. A host that is paused
  // keeps its place: it may resume.
  for (auto& [pin, lab] : labs_) {
    while (lab.hosts.size() > lab.wanted) {
      const Pin host = *lab.hosts.rbegin();
      unlink(host, pin);
    }
  }
  // Fill: the lab node with the smallest part of what it wants goes first.
  const auto neediest = [this](const Host& host) -> const Pin* {
    const Pin* best = nullptr;
    double best_part = 1;
    for (const auto& [pin, lab] : labs_) {
      if (lab.wanted == 0 || lab.hosts.size() >= lab.wanted || host.labs.contains(pin)) {
        continue;
      }
      const double part = static_cast<double>(lab.hosts.size()) / lab.wanted;
      if (best == nullptr || part < best_part) {
        best = &pin;
        best_part = part;
      }
    }
    return best;
  };
  for (auto& [pin, host] : hosts_) {
    while (host.accepting && host.labs.size() < config_.labs_per_host) {
      const Pin* lab = neediest(host);
      if (lab == nullptr) {
        break;
      }
      link(pin, *lab);
    }
  }
  // Balance: a full host moves one place from the lab node that has most of what it wants to the
  // one that has least, when that brings the two closer.
  for (auto& [pin, host] : hosts_) {
    if (!host.accepting || host.labs.size() < config_.labs_per_host) {
      continue;
    }
    const Pin* poor = neediest(host);
    if (poor == nullptr) {
      continue;
    }
    const auto richest =
        std::max_element(host.labs.begin(), host.labs.end(), [this](const Pin& a, const Pin& b) {
          const Lab& left = labs_.at(a);
          const Lab& right = labs_.at(b);
          return static_cast<double>(left.hosts.size()) * right.wanted <
                 static_cast<double>(right.hosts.size()) * left.wanted;
        });
    const Lab& from = labs_.at(*richest);
    const Lab& to = labs_.at(*poor);
    const double from_after = (static_cast<double>(from.hosts.size()) - 1) / from.wanted;
    const double to_after = (static_cast<double>(to.hosts.size()) + 1) / to.wanted;
    if (to_after <= from_after) {
      const Pin lab_from = *richest;
      const Pin lab_to = *poor;
      unlink(pin, lab_from);
      link(pin, lab_to);
    }
  }
  return std::exchange(changed_, {});
}

std::vector<Matchmaker::Pin> Matchmaker::labs_of(const Pin& host) const {
  const auto it = hosts_.find(host);
  return it == hosts_.end() ? std::vector<Pin>{}
                            : std::vector<Pin>(it->second.labs.begin(), it->second.labs.end());
}

std::vector<Matchmaker::Pin> Matchmaker::hosts_of(const Pin& lab) const {
  const auto it = labs_.find(lab);
  return it == labs_.end() ? std::vector<Pin>{}
                           : std::vector<Pin>(it->second.hosts.begin(), it->second.hosts.end());
}

}  // namespace goblin::scheduler
