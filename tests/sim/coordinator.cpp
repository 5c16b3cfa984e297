// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/sim/coordinator.hpp"

#include <algorithm>

#include "tests/sim/world.hpp"

namespace goblin::sim {
namespace {

constexpr Micros kUpdate = 1'000'000;
/// After so many updates without news the assignments must be as fair as they get: each update
/// moves a host by one place.
constexpr std::uint64_t kSettled = 20;

}  // namespace

Coordinator::Coordinator(World& world, std::uint64_t seed)
    : world_(world),
      disk_(seed),
      mount_(scratch_folder("coordinator"), disk_),
      path_(scratch_folder("coordinator") + "/peers.sqlite") {}

Coordinator::~Coordinator() { disk_.stop_now(); }

void Coordinator::open() {
  ++life_;
  auto opened = store::PeerRegistry::open(path_);
  if (!opened)
    return world_.time.violate("the register of peers cannot be opened: " + opened.error().message);
  registry_ = std::move(*opened);
  for (const Pin& pin : known_) {
    const auto found = registry_->find(pin);
    if (!found || !*found) return world_.time.violate("the coordinator forgot a peer");
  }
  matchmaker_ = std::make_unique<scheduler::Matchmaker>(scheduler::Matchmaker::Config{
      .labs_per_host = world_.options.labs_per_host, .term = world_.options.term});
  world_.time.note("coordinator up");
  update();
}

void Coordinator::stop() {
  if (!matchmaker_) return;
  world_.time.note("coordinator killed");
  ++life_;
  disk_.stop_now();
  registry_.reset();
  matchmaker_.reset();
  disk_.restart(false);
  nodes_.clear();
  hosts_.clear();
  labs_.clear();
  calm_ = 0;
  world_.time.after(world_.random.below(20'000'000), [this] { open(); });
}

void Coordinator::register_peer(const Pin& pin, wire::Role role) {
  if (known_.contains(pin)) return;
  const auto written = registry_->seen(pin, role, "simulated", 1);
  if (!written)
    return world_.time.violate("a peer cannot be registered: " + written.error().message);
  known_.insert(pin);
}

void Coordinator::host_says(const Pin& pin, NodeId node, bool accepting) {
  if (!matchmaker_) return;
  register_peer(pin, wire::Role::kHost);
  Told& told = hosts_[pin];
  if (told.when == 0 || told.accepting != accepting) {
    calm_ = 0;
    told.since = world_.time.now();
  }
  told = {world_.time.now() + 1, accepting, 0, told.since};
  nodes_[pin] = node;
  matchmaker_->host_seen(pin, accepting, world_.time.now());
  answer(pin);
}

void Coordinator::lab_says(const Pin& pin, NodeId node, std::uint32_t wanted) {
  if (!matchmaker_) return;
  register_peer(pin, wire::Role::kLab);
  Told& told = labs_[pin];
  if (told.when == 0 || told.wanted != wanted) {
    calm_ = 0;
    told.since = world_.time.now();
  }
  told = {world_.time.now() + 1, true, wanted, told.since};
  nodes_[pin] = node;
  matchmaker_->lab_seen(pin, wanted, world_.time.now());
  answer(pin);
}

void Coordinator::answer(const Pin& pin) {
  const Micros lease = matchmaker_->config().lease;
  const NodeId node = nodes_[pin];
  if (Lab* lab = world_.lab_of(node)) {
    const auto list = matchmaker_->hosts_of(pin);
    world_.network.send(kCoordinator, node,
                        [lab, lease, pins = std::set<Pin>(list.begin(), list.end())] {
                          lab->assigned(pins, lease);
                        });
    return;
  }
  std::set<Lab*, ByNode> labs;
  for (const Pin& lab : matchmaker_->labs_of(pin)) labs.insert(world_.lab_of(nodes_[lab]));
  SimHost* host = world_.host_of(pin);
  world_.network.send(kCoordinator, node, [host, pin, labs, lease] {
    if (host->pin == pin) host->assigned(labs, lease);
  });
}

void Coordinator::update() {
  const Micros silence = matchmaker_->config().silence;
  const Micros now = world_.time.now();
  const auto forget = [&](std::map<Pin, Told>& told) {
    const auto gone =
        std::erase_if(told, [&](const auto& t) { return t.second.when - 1 + silence < now; });
    if (gone > 0) calm_ = 0;
  };
  forget(hosts_);
  forget(labs_);
  const auto changed = matchmaker_->update(now);
  ++calm_;
  watch(now);
  for (const Pin& pin : changed)
    if (hosts_.contains(pin) || labs_.contains(pin)) answer(pin);
  world_.time.after(kUpdate, [this, life = life_] {
    if (life == life_ && matchmaker_) update();
  });
}

void Coordinator::watch(Micros now) {
  const auto violate = [&](const std::string& what) {
    world_.time.violate("matchmaking: " + what);
  };
  std::map<Pin, std::set<Pin>> of_host;
  for (const auto& [pin, told] : hosts_) {
    const auto labs = matchmaker_->labs_of(pin);
    of_host[pin] = {labs.begin(), labs.end()};
    if (!told.accepting && !labs.empty() &&
        told.since + matchmaker_->config().silence + kUpdate < now)
      violate("a host that has been paused for long keeps its place");
    if (labs.size() > world_.options.labs_per_host) violate("a host serves too many lab nodes");
    for (const Pin& lab : labs)
      if (!labs_.contains(lab)) violate("a host serves a lab node that is gone");
  }
  std::map<Pin, std::size_t> have;
  for (const auto& [pin, told] : labs_) {
    const auto hosts = matchmaker_->hosts_of(pin);
    have[pin] = hosts.size();
    if (hosts.size() > told.wanted) violate("a lab node has more hosts than it wants");
    for (const Pin& host : hosts)
      if (!of_host.contains(host) || !of_host[host].contains(pin))
        violate("a lab node has a host that does not serve it");
  }
  watch_turns(have, now);
  if (calm_ < kSettled) return;
  world_.time.count("settled assignments");
  for (const auto& [pin, host] : hosts_) {
    if (!host.accepting) continue;
    for (const auto& [poor, lab] : labs_) {
      if (have[poor] >= lab.wanted || of_host[pin].contains(poor)) continue;
      if (of_host[pin].size() < world_.options.labs_per_host)
        violate("a lab node wants hosts and one that has room does not serve it");
      for (const Pin& rich : of_host[pin])
        if (double(have[poor] + 1) / lab.wanted <= (double(have[rich]) - 1) / labs_[rich].wanted)
          violate("a lab node starves beside one that could spare a host");
    }
  }
}

/// Whoever has no host has waited while all others had their turn, at most.
void Coordinator::watch_turns(const std::map<Pin, std::size_t>& have, Micros now) {
  const bool some_host = std::any_of(hosts_.begin(), hosts_.end(),
                                     [](const auto& host) { return host.second.accepting; });
  for (auto& [pin, told] : labs_) {
    if (have.at(pin) > 0 || told.wanted == 0 || !some_host) told.since = now;
    const Micros all = matchmaker_->config().term * labs_.size();
    if (told.since + all + kSettled * kUpdate < now)
      world_.time.violate(
          "matchmaking: a lab node has waited for a host for longer than all terms");
  }
}

}  // namespace goblin::sim
