// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/sim/network.hpp"

#include <algorithm>

namespace goblin::sim {

Micros Network::delay() {
  return 500 + random_.below(random_.chance(options_.slow) ? 400'000 : 8'000);
}

Network::Fate Network::send(NodeId from, NodeId to, const Timeline::Step& arrive) {
  const bool faulty = timeline_.now() < options_.faults_end;
  Micros wait = delay();
  if (const auto it = cuts_.find(std::minmax(from, to));
      it != cuts_.end() && it->second > timeline_.now()) {
    if (options_.loose && random_.chance(0.5)) {
      timeline_.count("messages lost in a cut");
      return Fate::kLost;
    }
    wait += it->second - timeline_.now();
  }
  if (faulty && random_.chance(options_.drop)) {
    timeline_.count("messages dropped");
    return Fate::kLost;
  }
  if (!options_.loose) {
    Micros& last = last_[{from, to}];
    last = std::max(last, timeline_.now() + wait);
    wait = last - timeline_.now();
  }
  timeline_.after(wait, arrive);
  if (options_.loose && faulty && random_.chance(options_.duplicate)) {
    timeline_.count("messages doubled");
    timeline_.after(wait + random_.below(random_.chance(0.2) ? 20'000'000 : 50'000), arrive);
  }
  return Fate::kSent;
}

void Network::cut(NodeId a, NodeId b, Micros end) {
  Micros& until = cuts_[std::minmax(a, b)];
  until = std::max(until, end);
}

bool Network::is_cut(NodeId a, NodeId b) const {
  const auto it = cuts_.find(std::minmax(a, b));
  return it != cuts_.end() && it->second > timeline_.now();
}

}  // namespace goblin::sim
