// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/sim/host.hpp"

#include <algorithm>
#include <array>

#include "tests/sim/world.hpp"

namespace goblin::sim {
namespace {

constexpr Micros kBeat = 2'000'000;
constexpr Micros kAskCoordinator = 5'000'000;

}  // namespace

void SimHost::later(Micros delay, Timeline::Step step) {
  world.time.after(delay, [this, own = life, step = std::move(step)] {
    if (on && life == own) step();
  });
}

bool SimHost::lies_now(std::uint32_t how) {
  return liar && (world.options.lies & how) != 0 && world.random.chance(world.options.lie);
}

void SimHost::switch_on() {
  if (on) return;
  on = true;
  ++life;
  world.time.note("host on", {node});
  later(kBeat, [this] { beat(); });
  if (own_list) {
    for (const auto& [lab, until] : serves) connect(*lab);
  } else {
    ask_coordinator();
  }
}

void SimHost::crash(bool new_key) {
  if (!on) return;
  world.time.note("host crashes", {node, std::uint64_t(new_key)});
  on = false;
  ++life;
  const auto broken = connections;
  connections.clear();
  for (const auto& [lab, connection] : broken) world.break_connection(*lab, *this, connection);
  if (!own_list) serves.clear();
  queue.clear();
  stop_running();
  kept.clear();
  if (!new_key) return;
  const Pin old = pin;
  pin = world.new_pin();
  world.renamed(*this, old);
}

void SimHost::ask_coordinator() {
  world.network.send(node, kCoordinator, [this, p = pin, accepting = spec.accepting] {
    world.coordinator->host_says(p, node, accepting);
  });
  // An assignment that is not renewed ends.
  for (auto it = serves.begin(); it != serves.end();) {
    if (it->second >= world.time.now()) {
      ++it;
      continue;
    }
    Lab* lab = it->first;
    it = serves.erase(it);
    drop(*lab);
  }
  later(kAskCoordinator, [this] { ask_coordinator(); });
}

void SimHost::assigned(const std::set<Lab*, ByNode>& labs, Micros lease) {
  if (!on || own_list) return;
  for (Lab* lab : labs) {
    serves[lab] = world.time.now() + lease;
    connect(*lab);
  }
}

void SimHost::connect(Lab& lab) {
  if (connections.contains(&lab)) return;
  const Connection connection = world.new_connection();
  connections[&lab] = connection;
  const auto fate = world.network.send(node, lab.node(), [this, &lab, connection] {
    lab.hello(connection, *this, own_list);
    // A lab node that is down answers nothing: the host tries again.
    if (!lab.up() && on && connections.contains(&lab) && connections[&lab] == connection)
      lost(lab, connection);
  });
  if (fate == Network::Fate::kLost)
    later(5'000'000, [this, &lab, connection] { lost(lab, connection); });
}

void SimHost::drop(Lab& lab) {
  std::erase_if(queue, [&](const SentLease& l) { return l.lab == &lab; });
  std::erase_if(kept, [&](const auto& entry) { return entry.first.first == lab.node(); });
  if (running && running->lab == &lab) stop_running();
  if (const auto it = connections.find(&lab); it != connections.end()) {
    const Connection connection = it->second;
    connections.erase(it);
    world.network.send(node, lab.node(), [&lab, connection] { lab.lost(connection); });
  }
  compute();
}

void SimHost::lost(Lab& lab, Connection connection) {
  const auto it = connections.find(&lab);
  if (it == connections.end() || it->second != connection) return;
  drop(lab);
  later(200'000 + world.random.below(2'000'000), [this, &lab] {
    const auto still = serves.find(&lab);
    if (still != serves.end() && (own_list || still->second >= world.time.now())) connect(lab);
  });
}

void SimHost::lease(const SentLease& sent) {
  const auto it = connections.find(sent.lab);
  if (!on || it == connections.end() || it->second != sent.connection) return;
  // A message that comes twice: the host has the lease already.
  if (running && running->lease == sent.lease) return;
  if (std::any_of(queue.begin(), queue.end(),
                  [&](const SentLease& l) { return l.lease == sent.lease; }))
    return;
  queue.push_back(sent);
  compute();
}

void SimHost::cancel(Lab& lab, LeaseId lease) {
  std::erase_if(queue, [&](const SentLease& l) { return l.lab == &lab && l.lease == lease; });
  if (!running || running->lab != &lab || running->lease != lease) return;
  stop_running();
  compute();
}

void SimHost::stop_running() {
  if (running && ends > world.time.now())
    running->lab->computes(running->plan->key, -double(ends - world.time.now()) * 1e-6);
  running.reset();
  ends = 0;
  ++work;
}

void SimHost::release(Lab& lab, LeaseId lease) {
  if (kept.erase({lab.node(), lease}) > 0) compute();
}

void SimHost::fetch(Lab& lab, Connection connection, LeaseId lease, std::uint64_t fetch) {
  const auto seat = connections.find(&lab);
  if (!on || seat == connections.end() || seat->second != connection) return;
  const auto it = kept.find({lab.node(), lease});
  const bool gone =
      it == kept.end() || (world.faulty() && world.random.chance(world.options.lost_fetch));
  if (!gone && it->second.never) return;
  const auto how = gone                     ? Lab::Fetched::kGone
                   : it->second.other_bytes ? Lab::Fetched::kWrong
                                            : Lab::Fetched::kRight;
  Micros pause = 0;
  if (!gone) {
    const double bytes = double(it->second.lease.plan->task(0, it->second.lease.task).output_bytes);
    pause = Micros(bytes / bytes_per_s * 1e6);
    if (world.faulty() && world.random.chance(world.options.stall)) {
      world.time.count("slow fetches");
      pause += world.random.below(120'000'000);
    } else {
      for (int part = 1; part <= 2; ++part)
        later(pause * Micros(part) / 3, [this, &lab, lease, bytes] {
          world.network.send(node, lab.node(), [&lab, lease, some = std::uint64_t(bytes / 3)] {
            lab.bytes_came(lease, some);
          });
        });
    }
  }
  later(pause, [this, &lab, connection, lease, fetch, how] {
    const auto sent = world.network.send(
        node, lab.node(), [&lab, lease, fetch, how] { lab.fetched(lease, fetch, how); });
    if (sent == Network::Fate::kLost) world.break_connection(lab, *this, connection);
  });
}

void SimHost::compute() {
  if (!on || running || queue.empty() || kept.size() >= world.options.most_kept) return;
  running = queue.front();
  queue.pop_front();
  ++work;
  ends = 0;
  Random& r = world.random;
  if (world.faulty() && r.chance(world.options.stall)) {
    world.time.count("stalls");
    return;  // it never ends; heartbeats go on
  }
  const scheduler::ReadyTask task = running->plan->task(running->job, running->task);
  double seconds = (1e-4 + task.flops / speed) * r.uniform(0.9, 1.2);
  if (world.faulty() && r.chance(world.options.stall)) seconds *= 20;
  running->lab->computes(running->plan->key, seconds);
  ends = world.time.now() + Micros(seconds * 1e6);
  later(Micros(seconds * 1e6) + 1, [this, started = work, seconds] { computed(started, seconds); });
}

void SimHost::computed(std::uint64_t started, double seconds) {
  if (started != work || !running) return;
  const SentLease done = *running;
  running.reset();
  Random& r = world.random;
  scheduler::Outcome outcome;
  outcome.lease = done.lease;
  outcome.compute = Micros(seconds * 1e6) + 1;
  outcome.digest = result_of(done.plan->key, done.task, done.before, 0);
  Kept result{done};
  if (world.faulty() && r.chance(world.options.status)) {
    outcome.status = 1 + std::int32_t(r.below(9));
  } else if (lies_now(kFalseFailure)) {
    world.time.count("false failures");
    outcome.status = 1 + std::int32_t(r.below(9));
  } else if (lies_now(kLostInputs)) {
    outcome.status = GOBLIN_CORRUPT;
  } else if (!spec.trusted && lies_now(kWrongResult)) {
    world.time.count("lies");
    outcome.digest = result_of(done.plan->key, done.task, done.before, 1);
  } else if (lies_now(spec.trusted ? kOwnResult | kWrongResult : kOwnResult)) {
    world.time.count("lies");
    outcome.digest = result_of(done.plan->key, done.task, done.before, 2 + node);
  }
  if (lies_now(kFalseTimes)) outcome.compute = r.next() >> r.below(64);
  result.other_bytes = lies_now(kOtherBytes);
  result.never = lies_now(kNoBytes);
  if (outcome.status == GOBLIN_OK) kept[{done.lab->node(), done.lease}] = result;
  if (world.faulty() && r.chance(world.options.hand_back)) {
    kept.erase({done.lab->node(), done.lease});
    constexpr std::array kReasons{Code::kUnavailable, Code::kCancelled, Code::kExhausted};
    const Code reason = kReasons[r.below(kReasons.size())];
    const auto fate = world.network.send(
        node, done.lab->node(), [lab = done.lab, c = done.connection, l = done.lease, reason] {
          lab->handed_back(c, l, reason);
        });
    if (fate == Network::Fate::kLost) world.break_connection(*done.lab, *this, done.connection);
  } else {
    report(done, outcome);
  }
  compute();
}

void SimHost::say(const SentLease& lease, const scheduler::Outcome& outcome) {
  const auto fate = world.network.send(
      node, lease.lab->node(),
      [lab = lease.lab, c = lease.connection, outcome] { lab->outcome(c, outcome); });
  if (fate == Network::Fate::kLost) world.break_connection(*lease.lab, *this, lease.connection);
}

void SimHost::report(const SentLease& lease, scheduler::Outcome outcome) {
  say(lease, outcome);
  if (lies_now(kChangedResult)) {
    scheduler::Outcome changed = outcome;
    changed.digest = result_of(lease.plan->key, lease.task, lease.before, 3);
    say(lease, changed);
  }
  if (lies_now(kForgedLease)) {
    world.time.count("forged");
    scheduler::Outcome forged = outcome;
    forged.lease = world.random.next();
    for (const auto& other : world.hosts)
      if (other.get() != this && other->running && world.random.chance(0.5))
        forged.lease = other->running->lease;
    say(lease, forged);
  }
}

void SimHost::beat() {
  for (const auto& [lab, connection] : connections) {
    std::vector<LeaseId> leases;
    if (running && running->lab == lab) leases.push_back(running->lease);
    world.network.send(node, lab->node(),
                       [l = lab, c = connection, leases] { l->heartbeat(c, leases); });
  }
  later(kBeat, [this] { beat(); });
}

}  // namespace goblin::sim
