// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/core/scheduler/world.hpp"

#include <algorithm>
#include <limits>

#include "goblin/abi/plugin.h"

namespace goblin::scheduler::sim {

std::uint64_t Random::next() {
  std::uint64_t x = state_ += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

wire::Digest result_digest(JobId job, TaskId task, std::uint64_t variant) {
  Random random(job * 0x10001 + task * 0x100000001b3 + variant * 0x9e3779b97f4a7c15);
  wire::Digest digest;
  for (auto& byte : digest.bytes) byte = static_cast<std::uint8_t>(random.next());
  return digest;
}

Options Options::draw(Random& random) {
  Options o;
  o.hosts = 1 + std::uint32_t(random.below(8));
  o.trusted = std::uint32_t(random.below(3));
  o.groups = 1 + std::uint32_t(random.below(o.hosts));
  o.jobs = 1 + std::uint32_t(random.below(3));
  o.tasks = 10 + std::uint32_t(random.below(80));
  const double trouble = random.uniform(0, 3);
  for (double* p : {&o.stall, &o.status, &o.hand_back, &o.duplicate, &o.forged, &o.lost_fetch,
                    &o.crash_per_minute, &o.change_per_minute})
    *p *= random.chance(0.3) ? 0 : trouble;
  o.liars = random.chance(0.3) ? 0 : random.uniform(0, 0.7);
  o.lie = random.uniform(0.02, 1);
  o.wrong_bytes = random.chance(0.5) ? 0.3 : 0;
  o.abstain = random.chance(0.6) ? 0 : random.uniform(0, 1);
  o.miss = random.chance(0.7) ? 0 : random.uniform(0, 0.6);
  o.config.max_ready = 8 + std::uint32_t(random.below(64));
  o.config.ready_per_host = 1 + std::uint32_t(random.below(6));
  o.config.placement_window = 1 + std::uint32_t(random.below(64));
  o.config.first_deadline = 60'000'000;
  o.config.max_unjudged_bytes = 1 + random.below(4u << 20);
  if (random.chance(0.5)) o.most_kept = 1 + random.below(3);
  return o;
}

World::World(std::uint64_t seed, Options options) : random_(seed), options_(options) {
  options_.config.seed = seed;
  scheduler_ = Scheduler::create(options_.config);
  populate();
}

void World::populate() {
  constexpr std::uint64_t kMiB = 1u << 20;
  const std::uint32_t all = options_.hosts + options_.trusted;
  for (HostId id = 1; id <= all; ++id) {
    SimHost& h = hosts_[id];
    h.id = id;
    h.spec.trusted = id > options_.hosts;
    h.spec.memory_bytes = kMiB << random_.below(6);
    h.spec.cache_bytes = kMiB * random_.below(64);
    h.spec.slots = 1 + std::uint32_t(random_.below(16));
    h.spec.group = h.spec.trusted ? 1000 + id : random_.below(options_.groups);
    h.speed = 1e9 / random_.uniform(1, options_.speed_spread);
    if (!h.spec.trusted && random_.chance(options_.liars)) {
      // Liars of one group only: several groups that conspire may win a quorum by right.
      h.temper = Temper::kLiar;
      h.spec.group = 999;
    }
  }
  for (JobId id = 1; id <= options_.jobs; ++id) {
    SimJob& j = jobs_[id];
    j.id = id;
    const std::uint64_t p = random_.below(4);
    if (p == 1) j.policy.policy = wire::Policy::kValidator;
    if (p == 2) j.policy = {wire::Policy::kReplicate, 2 + std::uint32_t(random_.below(2))};
    if (p == 3 && options_.trusted > 0) j.policy.policy = wire::Policy::kAdaptive;
    j.weight = 1 + std::uint32_t(random_.below(3));
    j.tasks = random_.chance(0.03) ? 0 : 1 + random_.below(options_.tasks);
    j.round = random_.chance(0.3) ? 1 + random_.below(12) : 0;
    j.flops = random_.chance(0.5) ? 1e6 : random_.uniform(1e8, 4e9);
    j.spread = random_.uniform(0, 0.9);
    j.memory = random_.below(12) * kMiB;
    j.panels = random_.chance(0.5) ? 1 + std::uint32_t(random_.below(8)) : 0;
    j.abstain = random_.chance(0.5) ? options_.abstain : 0;
    j.miss = random_.chance(0.5) ? options_.miss : 0;
  }
}

void World::after(Micros delay, Step step) {
  events_.push({now_ + delay, ++order_, std::move(step)});
}

ReadyTask World::make_task(const SimJob& job, TaskId task) const {
  ReadyTask t;
  t.job = job.id;
  t.task = task;
  Random r(job.id * 7919 + task);
  t.flops = job.flops * (1 + job.spread * (2 * r.uniform() - 1));
  t.memory_bytes = job.memory;
  t.output_bytes = 1 + r.below(1u << 20);
  if (job.panels > 0) {
    t.inputs.push_back({result_digest(job.id, 1'000'000 + task / job.panels, 1), 1u << 20});
    t.inputs.push_back({result_digest(job.id, 2'000'000 + task % job.panels, 1), 1u << 20});
  }
  return t;
}

void World::start_jobs() {
  for (auto& [id, job] : jobs_) {
    if (job.ended) continue;
    scheduler_->add_job(id, job.policy, job.weight, now_);
    job.added = true;
    job.next = 0;
    job.rerunning.clear();
    for (const auto& [task, host] : job.journal)
      scheduler_->restore_accepted(id, task, make_task(job, task).flops, host);
    for (const HostId host : job.quarantined) scheduler_->restore_quarantine(id, host);
  }
}

bool World::run() {
  start_jobs();
  for (auto& [id, host] : hosts_) {
    const HostId h = id;
    after(random_.below(3'000'000), [this, h] { join(hosts_[h]); });
    schedule_faults(h);
  }
  if (random_.chance(options_.restart))
    after(random_.below(options_.faults_end / 4), [this] { restart(); });
  for (auto& [id, job] : jobs_) {
    const JobId j = id;
    if (random_.chance(options_.cancel))
      after(random_.below(options_.faults_end / 8), [this, j] {
        SimJob& cancelled = jobs_[j];
        if (cancelled.ended) return;
        cancelled.cancelled = true;
        ++tally["cancelled"];
        end_job(cancelled);
      });
  }
  // When the faults end, enough honest hosts come that every job can end.
  for (std::uint32_t i = 0; i < options_.late_hosts + 1 && options_.late_hosts > 0; ++i)
    after(options_.faults_end + i, [this, i] {
      SimHost& h = hosts_[10'000 + i];
      h.id = 10'000 + i;
      h.spec = {.memory_bytes = 1u << 30,
                .cache_bytes = 1u << 30,
                .slots = 4,
                .trusted = i == options_.late_hosts,
                .group = 10'000 + i};
      join(h);
    });
  pump();
  constexpr std::uint64_t kMostSteps = 400'000;
  constexpr Micros kLatest = 4 * 3'600'000'000ull;
  const auto open = [&] {
    return std::any_of(jobs_.begin(), jobs_.end(), [](const auto& j) { return !j.second.ended; });
  };
  while (violation_.empty() && open() && (stop_at == 0 || now_ < stop_at)) {
    const Micros due = scheduler_->next_wakeup();
    const bool timer = events_.empty() || due < events_.top().when;
    if (timer && due == std::numeric_limits<Micros>::max()) {
      violate("nothing is due and jobs are open");
      break;
    }
    now_ = std::max(now_, timer ? due : events_.top().when);
    if (timer) {
      scheduler_->tick(now_);
    } else {
      Step step = std::move(const_cast<Event&>(events_.top()).step);
      events_.pop();
      step();
    }
    pump();
    if (++steps_ > kMostSteps) violate("the history does not end: too many steps");
    if (now_ > kLatest) {
      std::string why;
      for (const auto& [id, job] : jobs_)
        if (!job.ended)
          why += " job " + std::to_string(id) + " has " + std::to_string(job.journal.size()) +
                 " of " + std::to_string(job.tasks) + " (" + scheduler_->waiting_reason(id) + ")";
      for (const auto& [id, host] : hosts_)
        why += "; host " + std::to_string(id) + ": " + scheduler_->host_counts(id).idle_reason;
      violate("the history does not end:" + why);
    }
  }
  return violation_.empty();
}

void World::pump() {
  const std::vector<Action> actions = scheduler_->take_actions();
  for (const Action& action : actions) {
    if (!violation_.empty()) return;
    act(action);
  }
  watch_counts();
}

void World::act(const Action& action) {
  if (trace) print(action);
  std::visit([&](const auto& a) { on(a); }, action);
}

void World::on(const PlanMore& a) { plan(a); }

void World::on(const SendLease& a) {
  watch_send(a);
  leases_[a.lease] = {a.host, a.job, a.task};
  sent_[a.lease] = {a.job, a.task};
  ++tally["leases"];
  const SimHost& host = hosts_[a.host];
  after(delay(), [this, h = a.host, life = host.life, l = a.lease] { deliver(h, life, l); });
}

void World::on(const CancelLease& a) {
  leases_.erase(a.lease);
  ++tally["cancelled leases"];
  after(delay(), [this, h = a.host, l = a.lease] {
    SimHost& host = hosts_[h];
    std::erase(host.queue, l);
    if (host.running != l) return;
    host.running = 0;
    ++host.work;
    work_on(host);
  });
}

void World::on(const FetchResult& a) { fetch(a); }

void World::on(const CheckResult& a) { check(a); }

void World::on(const AcceptResult& a) {
  watch_accept(a);
  after(delay(), [this, life = lab_life_, a] {
    if (life != lab_life_ || jobs_[a.job].ended) return;
    SimJob& job = jobs_[a.job];
    job.journal[a.task] = a.host;
    job.digests[a.task] = a.digest;
    job.rerunning.erase(a.task);
    ++tally["accepted"];
    scheduler_->accepted(a.job, a.task, now_);
    if (random_.chance(options_.duplicate)) scheduler_->accepted(a.job, a.task, now_);
  });
}

void World::on(const ReleaseResult& a) {
  leases_.erase(a.lease);
  after(delay(), [this, h = a.host, l = a.lease] { let_go(hosts_[h], l); });
}

void World::on(const ForgetBytes& a) {
  if (const auto it = leases_.find(a.lease); it != leases_.end()) it->second.forgotten = true;
  after(delay(), [this, h = a.host, l = a.lease] { let_go(hosts_[h], l); });
}

void World::on(const Quarantine& a) {
  ++tally["quarantined"];
  SimJob& job = jobs_[a.job];
  if (!job.quarantined.insert(a.host).second) violate("a host is quarantined twice");
  if (hosts_[a.host].temper == Temper::kHonest)
    violate("honest host " + std::to_string(a.host) + " is quarantined: " + a.reason);
}

void World::on(const Recheck& a) { recheck(a); }

void World::on(const Rerun& a) {
  ++tally["reruns"];
  after(delay(), [this, life = lab_life_, a] {
    SimJob& job = jobs_[a.job];
    if (life == lab_life_ && !job.ended) scheduler_->task_ready(make_task(job, a.task), now_);
  });
}

void World::on(const FinishJob& a) {
  watch_finish(a);
  ++tally["finished"];
  jobs_[a.job].ended = true;
  after(0, [this, j = a.job] { end_job(jobs_[j]); });
}

void World::on(const FailJob& a) {
  watch_fail(a);
  ++tally["failed"];
  jobs_[a.job].ended = jobs_[a.job].failed = true;
  after(0, [this, j = a.job] { end_job(jobs_[j]); });
}

void World::on(const Incident& a) {
  ++tally[a.what];
  if (a.what == "late" || a.what.starts_with("failed")) ++jobs_[a.job].failures[a.task];
}

void World::end_job(SimJob& job) {
  job.ended = true;
  job.removed = true;
  scheduler_->remove_job(job.id, now_);
  for (const Action& action : scheduler_->take_actions()) {
    const bool names_it = std::visit(
        [&](const auto& a) {
          if constexpr (requires { a.job; })
            return a.job == job.id;
          else
            return false;
        },
        action);
    if (names_it) violate("a removed job is spoken of");
    act(action);
  }
  for (const auto& [id, lease] : leases_)
    if (lease.job == job.id) violate("a lease outlives its job");
}

void World::plan(const PlanMore& ask) {
  ++jobs_[ask.job].plans;
  if (ask.max_tasks == 0) violate("the planner is asked for no tasks");
  after(delay(), [this, life = lab_life_, ask] {
    SimJob& job = jobs_[ask.job];
    if (life != lab_life_ || job.ended) return;
    if (ask.memory_bytes < job.memory) {
      scheduler_->planned(job.id, 0, true, random_.chance(0.5) ? job.memory : 0, now_);
      return;
    }
    std::uint32_t progress = GOBLIN_PLAN_MORE;
    for (std::uint32_t i = 0; i < ask.max_tasks && job.next < job.tasks; ++i) {
      if (job.round > 0) {
        // A round begins when every task before it is accepted.
        const std::uint64_t first = job.next / job.round * job.round;
        std::uint64_t done = 0;
        for (auto it = job.journal.begin(); it != job.journal.end() && it->first < first; ++it)
          ++done;
        if (done < first) {
          progress = GOBLIN_PLAN_WAIT;
          break;
        }
      }
      const TaskId task = job.next++;
      if (!job.journal.contains(task)) scheduler_->task_ready(make_task(job, task), now_);
    }
    if (job.next == job.tasks) progress = GOBLIN_PLAN_DONE;
    scheduler_->planned(job.id, progress, false, 0, now_);
  });
}

void World::fetch(const FetchResult& ask) {
  const auto it = leases_.find(ask.lease);
  if (it == leases_.end() || !it->second.committed || it->second.fetching)
    return violate("a result is fetched that is not there");
  it->second.fetching = true;
  Micros pause = delay();
  if (faulty() && random_.chance(options_.stall)) {
    ++tally["slow fetches"];
    pause += random_.below(120'000'000);
  }
  after(pause, [this, life = lab_life_, ask] {
    if (life != lab_life_) return;
    SimHost& host = hosts_[ask.host];
    const bool there = host.connected && host.kept.contains(ask.lease) &&
                       !(faulty() && random_.chance(options_.lost_fetch));
    const bool wrong =
        there && host.temper == Temper::kLiar && random_.chance(options_.wrong_bytes);
    const auto lease = leases_.find(ask.lease);
    if (lease != leases_.end()) lease->second.fetched = there && !wrong;
    if (lease != leases_.end()) lease->second.fetching = false;
    if (there && !wrong) {
      scheduler_->fetched(ask.lease, now_);
      if (random_.chance(options_.duplicate)) scheduler_->fetched(ask.lease, now_);
    } else {
      scheduler_->fetch_failed(ask.lease, wrong, now_);
    }
  });
}

void World::check(const CheckResult& ask) {
  const auto it = leases_.find(ask.lease);
  if (it == leases_.end() || !it->second.fetched)
    return violate("a check is asked for without bytes");
  after(delay(), [this, life = lab_life_, ask] {
    if (life != lab_life_) return;
    Verdict verdict = Verdict::kAbstain;
    for (Commit& c : commits_[{ask.job, ask.task}]) {
      if (c.lease != ask.lease) continue;
      Random r(ask.task * 31 + ask.job);
      const bool right = c.digest == result_digest(ask.job, ask.task, 0);
      if (!r.chance(jobs_[ask.job].abstain))
        verdict =
            right || random_.chance(jobs_[ask.job].miss) ? Verdict::kAccept : Verdict::kReject;
      c.passed = verdict == Verdict::kAccept;
      c.abstained = verdict == Verdict::kAbstain;
    }
    scheduler_->checked(ask.lease, verdict, now_);
  });
}

void World::recheck(const Recheck& ask) {
  ++tally["rechecks"];
  SimJob& job = jobs_[ask.job];
  if (!job.journal.contains(ask.task)) return violate("a recheck of what is not accepted");
  // Bytes must be recalled first: that may take longer than all that is left of the job.
  after(random_.chance(0.3) ? 1'000 * delay() : delay(), [this, life = lab_life_, ask] {
    if (life != lab_life_ || jobs_[ask.job].ended) return;
    SimJob& j = jobs_[ask.job];
    const bool right = j.digests[ask.task] == result_digest(ask.job, ask.task, 0);
    const double odds = faulty() ? 0.2 : 0;
    const Verdict verdict = !right                 ? Verdict::kReject
                            : random_.chance(odds) ? Verdict::kAbstain
                                                   : Verdict::kAccept;
    if (verdict == Verdict::kAccept) {
      j.verified.insert(ask.task);
    } else {
      j.rerunning.insert(ask.task);
      j.verified.erase(ask.task);
      commits_.erase({ask.job, ask.task});
    }
    scheduler_->rechecked(ask.job, ask.task, verdict, now_);
  });
}

/// kill -9 of the lab node: what is not in the journal is gone, connections break.
void World::restart() {
  ++tally["restarts"];
  ++lab_life_;
  for (auto& [id, host] : hosts_) {
    if (!host.connected) continue;
    host.connected = false;
    ++host.life;
    host.queue.clear();
    host.running = 0;
    ++host.work;
    host.kept.clear();
    const HostId h = id;
    after(delay(), [this, h] { join(hosts_[h]); });
  }
  leases_.clear();
  commits_.clear();
  for (auto& [id, job] : jobs_) {
    // A task whose recheck had failed is no longer in the journal.
    for (const TaskId task : job.rerunning) {
      job.journal.erase(task);
      job.digests.erase(task);
    }
    job.verified.clear();
    job.failures.clear();
  }
  options_.config.seed = random_.next();
  scheduler_ = Scheduler::create(options_.config);
  start_jobs();
}

}  // namespace goblin::scheduler::sim
