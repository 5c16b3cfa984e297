// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The hosts of the simulated network and their faults.
#include <algorithm>
#include <array>
#include <cmath>

#include "tests/core/scheduler/world.hpp"

namespace goblin::scheduler::sim {

void World::join(SimHost& host) {
  if (host.connected) return;
  host.connected = true;
  ++host.life;
  scheduler_->host_joined(host.id, host.spec, now_);
  after(2'000'000, [this, h = host.id, life = host.life] { beat(h, life); });
}

void World::leave(SimHost& host) {
  if (!host.connected) return;
  ++tally["crashes"];
  host.connected = false;
  ++host.life;
  host.queue.clear();
  host.running = 0;
  ++host.work;
  host.kept.clear();
  std::erase_if(leases_,
                [&](const auto& l) { return l.second.host == host.id && !l.second.committed; });
  scheduler_->host_left(host.id, now_);
}

void World::schedule_faults(HostId id) {
  const double per_minute = options_.crash_per_minute + options_.change_per_minute;
  if (per_minute <= 0) return;
  const double wait = -std::log(1 - random_.uniform()) / per_minute * 60e6;
  if (double(now_) + wait > double(options_.faults_end)) return;
  after(static_cast<Micros>(wait), [this, id, per_minute] {
    SimHost& host = hosts_[id];
    if (random_.chance(options_.crash_per_minute / per_minute)) {
      leave(host);
      after(random_.below(20'000'000), [this, id] { join(hosts_[id]); });
    } else if (host.connected) {
      ++tally["changes"];
      host.speed = 1e9 / random_.uniform(1, options_.speed_spread);
      if (random_.chance(0.3)) {
        host.spec.accepting = false;
        scheduler_->host_changed(id, host.spec, now_);
        after(random_.below(10'000'000), [this, id] {
          hosts_[id].spec.accepting = true;
          if (hosts_[id].connected) scheduler_->host_changed(id, hosts_[id].spec, now_);
        });
      }
      if (random_.chance(0.3) && !host.cache.empty()) host.cache.erase(host.cache.begin());
    }
    schedule_faults(id);
  });
}

void World::deliver(HostId id, std::uint64_t life, LeaseId lease) {
  SimHost& host = hosts_[id];
  if (!host.connected || host.life != life || !leases_.contains(lease)) return;
  host.queue.push_back(lease);
  work_on(host);
}

void World::work_on(SimHost& host) {
  if (!host.connected || host.running != 0 || host.queue.empty()) return;
  if (host.kept.size() >= options_.most_kept) return;
  const LeaseId lease = host.queue.front();
  host.queue.pop_front();
  host.running = lease;
  ++host.work;
  const auto [job_id, task_id] = sent_.at(lease);
  SimJob& job = jobs_.at(job_id);
  const ReadyTask task = make_task(job, task_id);
  for (const TaskInput& input : task.inputs) host.cache.insert(input.digest);
  if (faulty() && random_.chance(options_.stall)) {
    ++tally["stalls"];
    return;  // it never ends; heartbeats go on
  }
  double seconds = (1e-4 + task.flops / host.speed) * random_.uniform(0.9, 1.2);
  if (faulty() && random_.chance(options_.stall)) seconds *= 20;
  job.seconds += seconds;
  const auto compute = static_cast<Micros>(seconds * 1e6) + 1;
  after(compute, [this, h = host.id, lease, work = host.work, compute] {
    finish(hosts_[h], lease, work, compute);
  });
}

/// A result's bytes need not be kept any more.
void World::let_go(SimHost& host, LeaseId lease) {
  host.kept.erase(lease);
  work_on(host);
}

void World::finish(SimHost& host, LeaseId lease, std::uint64_t work, Micros compute) {
  if (host.work != work || host.running != lease) return;
  host.running = 0;
  const auto [job_id, task_id] = sent_.at(lease);
  Outcome outcome{.lease = lease, .digest = result_digest(job_id, task_id, 0), .compute = compute};
  if (faulty() && random_.chance(options_.status)) {
    outcome.status = 1 + std::int32_t(random_.below(9));
  } else if (host.temper == Temper::kLiar && random_.chance(options_.lie)) {
    ++tally["lies"];
    outcome.digest = result_digest(job_id, task_id, 1);
    outcome.compute = random_.next();
  }
  if (outcome.status == GOBLIN_OK) host.kept[lease] = outcome.digest;
  if (faulty() && random_.chance(options_.hand_back)) {
    host.kept.erase(lease);
    after(delay(), [this, h = host.id, life = host.life, lease] {
      if (hosts_[h].life != life || !leases_.contains(lease)) return;
      leases_.erase(lease);
      constexpr std::array kReasons{Code::kUnavailable, Code::kCancelled, Code::kExhausted};
      scheduler_->handed_back(h, lease, kReasons[lease % kReasons.size()], now_);
    });
  } else {
    report(host, outcome);
  }
  work_on(host);
}

void World::report(SimHost& host, Outcome outcome) {
  const auto send = [&](const Outcome& o) {
    after(delay(), [this, h = host.id, life = host.life, o] {
      if (hosts_[h].life == life) tell(h, o);
    });
  };
  send(outcome);
  if (faulty() && random_.chance(options_.duplicate)) send(outcome);
  if (faulty() && random_.chance(options_.forged) && !leases_.empty()) {
    // It speaks for a lease that is not its own, or names one that never was.
    Outcome forged = outcome;
    auto it = leases_.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(random_.below(leases_.size())));
    forged.lease = random_.chance(0.5) ? it->first : random_.next();
    if (!leases_.contains(forged.lease) || leases_[forged.lease].host != host.id) send(forged);
  }
}

void World::tell(HostId from, const Outcome& outcome) {
  const auto it = leases_.find(outcome.lease);
  if (it != leases_.end() && it->second.host == from && !it->second.committed) {
    if (outcome.status == GOBLIN_OK) {
      it->second.committed = true;
      const SimHost& host = hosts_[from];
      auto& commits = commits_[{it->second.job, it->second.task}];
      commits.push_back({.lease = outcome.lease,
                         .host = from,
                         .group = host.spec.group,
                         .trusted = host.spec.trusted,
                         .digest = outcome.digest});
    } else {
      leases_.erase(it);
    }
  }
  scheduler_->outcome(from, outcome, now_);
}

void World::beat(HostId id, std::uint64_t life) {
  SimHost& host = hosts_[id];
  if (!host.connected || host.life != life) return;
  std::vector<LeaseId> running;
  if (host.running != 0) running.push_back(host.running);
  scheduler_->heartbeat(id, running, now_);
  after(2'000'000, [this, id, life] { beat(id, life); });
}

}  // namespace goblin::scheduler::sim
