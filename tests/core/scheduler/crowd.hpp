// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Many hosts around one Scheduler, without delays or losses: what matters is who computes what and
// what is believed. Every host answers in an order drawn from the seed.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <random>

#include "tests/core/scheduler/driver.hpp"

namespace goblin::scheduler {

struct Crowd {
  /// A host's digest of a task; kRight is right. `n`: results that the host gave before.
  static constexpr std::uint64_t kRight = 1;
  using Behaviour = std::function<std::uint64_t(TaskId task, std::uint64_t n)>;

  explicit Crowd(std::uint64_t seed, Config config = {}) : random(seed) {
    config.seed = seed;
    d = std::make_unique<Driver>(config);
  }

  std::mt19937_64 random;
  std::unique_ptr<Driver> d;
  std::map<HostId, Behaviour> hosts;
  std::map<HostId, std::uint64_t> given;
  bool blind = false;  ///< the kind's check cannot tell
  std::vector<SendLease> waiting;
  std::map<LeaseId, SendLease> sent;
  std::map<LeaseId, std::uint64_t> said;

  // of the last play()
  std::uint64_t results = 0, wrong = 0;
  std::map<TaskId, std::uint64_t> accepted;  ///< its digest
  std::map<TaskId, std::vector<HostId>> starts;
  std::map<HostId, TaskId> caught;
  bool finished = false;

  void host(HostId id, Behaviour behaviour, bool trusted = false, std::uint64_t group = 0) {
    hosts[id] = std::move(behaviour);
    HostSpec spec = Driver::spec(group == 0 ? id : group, trusted);
    spec.slots = 2;
    d->host(id, spec);
  }
  static std::uint64_t honest(TaskId, std::uint64_t) { return kRight; }

  /// One job from its first task to its end, or until nothing more happens.
  void play(JobId job, TaskId tasks, wire::Policy policy, std::uint32_t replicas = 2) {
    results = wrong = 0;
    accepted.clear();
    starts.clear();
    caught.clear();
    finished = false;
    d->job(job, policy, replicas);
    TaskId next = 0;
    bool done = false;
    int idle = 0;
    while (idle < 200) {
      bool moved = false;
      for (const PlanMore& p : d->take<PlanMore>()) {
        for (std::uint32_t i = 0; i < p.max_tasks && next < tasks; ++i) d->ready(job, next++);
        done = done || next == tasks;
        d->plan(job, done ? GOBLIN_PLAN_DONE : GOBLIN_PLAN_MORE);
        moved = true;
      }
      for (const SendLease& l : d->take<SendLease>()) {
        waiting.push_back(l);
        sent[l.lease] = l;
        starts[l.task].push_back(l.host);
        moved = true;
      }
      for (const CancelLease& c : d->take<CancelLease>())
        std::erase_if(waiting, [&](const SendLease& l) { return l.lease == c.lease; });
      for (const FetchResult& f : d->take<FetchResult>()) {
        d->s->fetched(f.lease, d->now);
        moved = true;
      }
      for (const CheckResult& c : d->take<CheckResult>()) {
        d->s->checked(c.lease,
                      blind                     ? Verdict::kAbstain
                      : said[c.lease] == kRight ? Verdict::kAccept
                                                : Verdict::kReject,
                      d->now);
        moved = true;
      }
      for (const AcceptResult& a : d->take<AcceptResult>()) {
        accepted[a.task] = said[a.lease];
        d->s->accepted(job, a.task, d->now);
        moved = true;
      }
      for (const Recheck& r : d->take<Recheck>()) {
        d->s->rechecked(job, r.task,
                        accepted[r.task] == kRight ? Verdict::kAccept : Verdict::kReject, d->now);
        moved = true;
      }
      for (const Rerun& r : d->take<Rerun>()) {
        accepted.erase(r.task);
        d->ready(job, r.task);
        moved = true;
      }
      for (const Quarantine& q : d->take<Quarantine>()) caught.emplace(q.host, q.task);
      finished = finished || !d->take<FinishJob>().empty();
      std::erase_if(d->kept, [](const Action& a) {
        return std::holds_alternative<ReleaseResult>(a) || std::holds_alternative<ForgetBytes>(a) ||
               std::holds_alternative<StandingChanged>(a) || std::holds_alternative<Incident>(a);
      });
      d->collect();
      if (finished) break;
      if (!waiting.empty()) {
        const std::size_t i = random() % waiting.size();
        const SendLease lease = waiting[i];
        waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
        answer(lease);
        moved = true;
      }
      idle = moved ? 0 : idle + 1;
      d->wait(moved ? 1000 : 100'000);
    }
    for (const auto& [task, digest] : accepted) wrong += digest == kRight ? 0 : 1;
    d->s->remove_job(job, d->now);
    waiting.clear();
  }

  void answer(const SendLease& lease) {
    const std::uint64_t digest = hosts.at(lease.host)(lease.task, given[lease.host]++);
    said[lease.lease] = digest;
    ++results;
    // Two tasks' results differ; a lie may be anybody's.
    d->say(lease.host, lease.lease, digest * 1'000'003 + lease.task);
  }
};

}  // namespace goblin::scheduler
