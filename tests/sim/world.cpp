// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/sim/world.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

namespace goblin::sim {
namespace {

constexpr NodeId kFirstHost = 2'000;
constexpr std::uint64_t kMostSteps = 600'000;
constexpr Micros kLatest = 4 * 3'600'000'000ull;

Pin pin_from(std::uint64_t number) { return result_of(number, 0, 0, 77); }

struct Scratch {
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "goblin-sim-XXXXXX").string();
    path = ::mkdtemp(pattern.data()) == nullptr ? "" : pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    if (!path.empty()) std::filesystem::remove_all(path, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string path;
  std::map<std::string, std::string> folders;
};

}  // namespace

const std::string& scratch_folder(const std::string& name) {
  static Scratch scratch;
  auto [it, fresh] = scratch.folders.try_emplace(name, scratch.path + "/" + name);
  if (fresh) std::filesystem::create_directories(it->second);
  return it->second;
}

World::World(std::uint64_t seed, Options drawn)
    : random(seed), options(std::move(drawn)), network(time, random, options) {
  seed_sqlite(seed);
  populate(seed);
  if (options.fair) stop_at = 120'000'000;
}

World::~World() = default;

Pin World::new_pin() { return pin_from(++pins_); }
Pin World::lab_pin(NodeId node) { return pin_from(~std::uint64_t{node}); }

SimHost* World::host_of(const Pin& pin) {
  const auto it = by_pin_.find(pin);
  return it == by_pin_.end() ? nullptr : it->second;
}

Lab* World::lab_of(NodeId node) { return node < labs.size() ? labs[node].get() : nullptr; }

void World::renamed(SimHost& host, const Pin&) { by_pin_[host.pin] = &host; }

void World::populate(std::uint64_t seed) {
  constexpr std::uint64_t kMiB = 1u << 20;
  std::uint32_t quorum = ~0u;  ///< of the job that is easiest to deceive
  for (NodeId node = 0; node < options.labs; ++node) {
    std::vector<JobPlan> plans;
    for (std::uint32_t i = 0; i < options.jobs; ++i) {
      plans.push_back(JobPlan::draw(random, options, seed * 72 + node * 9 + i + 1));
      const auto& policy = plans.back().policy;
      if (policy.policy == wire::Policy::kAlgebraic) quorum = std::min(quorum, 2u);
      if (policy.policy == wire::Policy::kAdaptive) quorum = std::min(quorum, 2u);
      if (policy.policy == wire::Policy::kReplicate) quorum = std::min(quorum, policy.replicas);
    }
    labs.push_back(std::make_unique<Lab>(*this, node, random.next(), std::move(plans)));
  }
  coordinator = std::make_unique<Coordinator>(*this, random.next());
  // As many groups of liars as may conspire without winning a quorum by right.
  const std::uint64_t liar_groups = std::min(quorum - 1, 3u);
  for (std::uint32_t i = 0; i < options.hosts + options.trusted; ++i) {
    auto host = std::make_unique<SimHost>(*this, kFirstHost + i);
    host->pin = new_pin();
    host->spec.trusted = i >= options.hosts;
    host->spec.memory_bytes = kMiB << random.below(6);
    host->spec.cache_bytes = kMiB * random.below(64);
    host->spec.slots = 1 + std::uint32_t(random.below(16));
    host->spec.group = host->spec.trusted ? 1'000 + i : random.below(options.groups);
    host->speed = 1e9 / random.uniform(1, options.speed_spread);
    host->bytes_per_s = 1e7 / random.uniform(1, options.speed_spread);
    if (!host->spec.trusted && random.chance(options.liars)) {
      host->liar = true;
      host->spec.group = 900 + random.below(liar_groups);
    }
    if (host->spec.trusted && random.chance(options.lying_validators)) host->liar = true;
    by_pin_[host->pin] = host.get();
    hosts.push_back(std::move(host));
  }
}

Micros World::wait_for(double per_minute) {
  return Micros(std::min(-std::log(1 - random.uniform()) / per_minute * 60e6, 1e12));
}

void World::break_connection(Lab& lab, SimHost& host, Connection connection) {
  time.after(random.below(random.chance(0.2) ? 20'000'000 : 1'000'000),
             [&lab, connection] { lab.lost(connection); });
  time.after(random.below(random.chance(0.2) ? 20'000'000 : 1'000'000),
             [&lab, &host, connection] { host.lost(lab, connection); });
}

void World::fault_of_host(SimHost& host) {
  const double per_minute = options.crash_per_minute + options.change_per_minute;
  if (per_minute <= 0) return;
  const Micros wait = wait_for(per_minute);
  if (time.now() + wait > options.faults_end) return;
  time.after(wait, [this, &host, per_minute] {
    if (random.chance(options.crash_per_minute / per_minute)) {
      host.crash(random.chance(options.new_key));
      time.after(random.below(20'000'000), [&host] { host.switch_on(); });
    } else if (host.on) {
      time.count("changes");
      host.speed = 1e9 / random.uniform(1, options.speed_spread);
      if (random.chance(0.3)) {
        const auto tell = [this, &host] {
          for (const auto& [lab, connection] : host.connections)
            network.send(host.node, lab->node(),
                         [l = lab, c = connection, spec = host.spec] { l->changed(c, spec); });
        };
        host.spec.accepting = false;
        tell();
        time.after(random.below(10'000'000), [&host, tell] {
          host.spec.accepting = true;
          tell();
        });
      }
    }
    fault_of_host(host);
  });
}

void World::stop_lab(Lab& lab) {
  time.after(random.below(options.faults_end / 3), [this, &lab] {
    if (!lab.up()) return;
    if (random.chance(0.6)) {
      // In the middle of one of the next calls of the journal.
      lab.disk().stop_after(random.below(random.chance(0.2) ? 400 : 60));
    } else if (random.chance(0.3)) {
      lab.stop(Lab::Stop::kClean);
    } else {
      lab.stop(random.chance(options.power_losses) ? Lab::Stop::kPower : Lab::Stop::kKill);
    }
  });
}

void World::trouble(Lab& lab) {
  if (options.troubles_per_minute <= 0) return;
  const Micros wait = wait_for(options.troubles_per_minute);
  if (time.now() + wait > options.faults_end) return;
  time.after(wait, [this, &lab] {
    time.note("disk trouble", {lab.node()});
    lab.disk().set_faults(options.disk);
    time.after(random.below(5'000'000), [&lab] { lab.disk().set_faults({}); });
    trouble(lab);
  });
}

void World::cut() {
  if (options.cuts_per_minute <= 0) return;
  const Micros wait = wait_for(options.cuts_per_minute);
  if (time.now() + wait > options.faults_end) return;
  time.after(wait, [this] {
    SimHost& host = *hosts[random.below(hosts.size())];
    const bool coordinators = random.chance(0.3);
    const NodeId other = coordinators ? kCoordinator : NodeId(random.below(labs.size()));
    const Micros lasts = random.below(40'000'000);
    time.note("cut off", {host.node, other, lasts});
    network.cut(host.node, other, time.now() + lasts);
    // A connection that is silent for long is given up by both.
    if (!coordinators && lasts > 10'000'000) {
      Lab& lab = *labs[other];
      if (const auto it = host.connections.find(&lab); it != host.connections.end())
        time.after(10'000'000, [this, &lab, &host, c = it->second] {
          lab.lost(c);
          host.lost(lab, c);
        });
    }
    cut();
  });
}

void World::lab_beats(Lab& lab) {
  if (lab.up())
    network.send(lab.node(), kCoordinator, [this, &lab, wanted = lab.wanted()] {
      coordinator->lab_says(lab_pin(lab.node()), lab.node(), wanted);
    });
  time.after(5'000'000, [this, &lab] { lab_beats(lab); });
}

/// When the faults end, enough honest hosts come that every job can end.
void World::late_hosts() {
  if (options.late_hosts == 0) return;
  for (const auto& lab : labs)
    for (std::uint32_t i = 0; i <= options.late_hosts; ++i) {
      auto host = std::make_unique<SimHost>(*this, NodeId(kFirstHost + hosts.size()));
      host->pin = new_pin();
      host->own_list = true;
      host->serves[lab.get()] = std::numeric_limits<Micros>::max();
      host->spec = {.memory_bytes = 1u << 30,
                    .cache_bytes = 1u << 30,
                    .slots = 4,
                    .trusted = i == options.late_hosts,
                    .group = 10'000 + hosts.size()};
      by_pin_[host->pin] = host.get();
      time.after(options.faults_end + i, [h = host.get()] { h->switch_on(); });
      hosts.push_back(std::move(host));
    }
}

void World::plan_faults() {
  const std::size_t early = hosts.size();
  for (std::size_t i = 0; i < early; ++i) {
    SimHost& host = *hosts[i];
    time.after(random.below(3'000'000), [&host] { host.switch_on(); });
    fault_of_host(host);
  }
  for (const auto& lab : labs) {
    for (int stops = 0; stops < 3; ++stops)
      if (random.chance(options.lab_stops)) stop_lab(*lab);
    trouble(*lab);
    lab_beats(*lab);
  }
  cut();
  if (random.chance(options.coordinator_stops))
    time.after(random.below(options.faults_end / 2), [this] { coordinator->stop(); });
  time.after(options.faults_end, [this] {
    for (const auto& lab : labs) {
      lab->disk().set_faults({});
      if (lab->up()) lab->disk().carry_on();
    }
  });
}

bool World::run() {
  plan_faults();
  late_hosts();
  coordinator->open();
  for (const auto& lab : labs) lab->open();
  const auto open = [&] {
    return std::any_of(labs.begin(), labs.end(), [](const auto& lab) { return !lab->done(); });
  };
  // What ended last still has messages and journal calls under way.
  Micros last_end = 0;
  constexpr Micros kAfterwards = 5'000'000;
  while (time.sound() && (stop_at == 0 || time.now() < stop_at)) {
    if (open()) {
      last_end = time.now();
    } else if (time.now() > last_end + kAfterwards) {
      break;
    }
    Lab* due = nullptr;
    for (const auto& lab : labs)
      if (due == nullptr || lab->next_wakeup() < due->next_wakeup()) due = lab.get();
    const Micros when = due->next_wakeup();
    if (time.idle() || when < time.next()) {
      if (when == std::numeric_limits<Micros>::max()) {
        time.violate("nothing is due and jobs are open");
        break;
      }
      time.advance(when);
      due->tick();
    } else {
      time.run_next();
    }
    if (++steps_ > kMostSteps || time.now() > kLatest) {
      std::string why;
      for (const auto& lab : labs) why += lab->why_open();
      time.violate("the history does not end:" + why);
    }
  }
  if (time.sound() && options.fair) {
    for (const auto& host : hosts) host->stop_running();
    for (const auto& lab : labs) lab->watch_shares(options.change_per_minute > 0 ? 0.08 : 0.03);
  }
  if (time.sound() && stop_at == 0)
    for (const auto& lab : labs) lab->final_look();
  return time.sound();
}

}  // namespace goblin::sim
