// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Short words for driving one Scheduler by hand in unit tests. Actions are kept until asked for.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/scheduler/scheduler.hpp"
#include "goblin/abi/plugin.h"

namespace goblin::scheduler {

inline constexpr std::uint64_t kMiB = 1u << 20;
inline constexpr Micros kSecond = 1'000'000;

inline wire::Digest named(std::uint64_t name) {
  wire::Digest d;
  std::memcpy(d.bytes.data(), &name, sizeof name);
  return d;
}

struct Driver {
  explicit Driver(const Config& config = {}) : s(Scheduler::create(config)) {}

  std::unique_ptr<Scheduler> s;
  Micros now = kSecond;
  std::vector<Action> kept;

  Driver& job(JobId id, wire::Policy policy = wire::Policy::kAlgebraic, std::uint32_t replicas = 2,
              std::uint32_t weight = 1) {
    s->add_job(id, {policy, replicas}, weight, now);
    return collect();
  }
  static HostSpec spec(std::uint64_t group = 0, bool trusted = false) {
    return {.memory_bytes = 256 * kMiB,
            .cache_bytes = 1024 * kMiB,
            .slots = 8,
            .threads = 1,
            .trusted = trusted,
            .group = group};
  }
  Driver& host(HostId id) { return host(id, spec(id)); }
  Driver& host(HostId id, const HostSpec& host_spec) {
    s->host_joined(id, host_spec, now);
    return collect();
  }
  Driver& ready(JobId job, TaskId task, double flops = 1e6, std::uint64_t memory = 0,
                std::vector<TaskInput> inputs = {}, std::uint64_t output = 0) {
    s->task_ready({job, task, flops, memory, output, std::move(inputs)}, now);
    return *this;
  }
  Driver& plan_done(JobId job) { return plan(job, GOBLIN_PLAN_DONE); }
  Driver& plan(JobId job, std::uint32_t progress, bool exhausted = false, std::uint64_t need = 0) {
    s->planned(job, progress, exhausted, need, now);
    return collect();
  }
  Driver& say(HostId from, LeaseId lease, std::uint64_t digest, Micros compute = 1000) {
    s->outcome(from, {.lease = lease, .digest = named(digest), .compute = compute}, now);
    return collect();
  }
  Driver& say_failed(HostId from, LeaseId lease, std::int32_t status) {
    s->outcome(from, {.lease = lease, .status = status}, now);
    return collect();
  }
  /// A result that is right, all the way until it is accepted.
  Driver& complete(HostId from, const SendLease& lease, Micros compute = 1000) {
    say(from, lease.lease, lease.task, compute);
    s->fetched(lease.lease, now);
    s->checked(lease.lease, Verdict::kAccept, now);
    s->accepted(lease.job, lease.task, now);
    return collect();
  }
  Driver& wait(Micros time) {
    now += time;
    s->tick(now);
    return collect();
  }
  Driver& collect() {
    for (Action& a : s->take_actions()) kept.push_back(std::move(a));
    return *this;
  }
  /// Takes what was said of one sort.
  template <typename T>
  std::vector<T> take() {
    collect();
    std::vector<T> found;
    std::erase_if(kept, [&](Action& a) {
      if (!std::holds_alternative<T>(a)) return false;
      found.push_back(std::move(std::get<T>(a)));
      return true;
    });
    return found;
  }
  template <typename T>
  T one() {
    auto found = take<T>();
    EXPECT_EQ(found.size(), 1u) << typeid(T).name();
    return found.empty() ? T{} : found.front();
  }
  std::vector<TaskId> tasks_sent_to(HostId host) {
    std::vector<TaskId> tasks;
    for (const Action& a : kept)
      if (const auto* send = std::get_if<SendLease>(&a); send != nullptr && send->host == host)
        tasks.push_back(send->task);
    return tasks;
  }
};

}  // namespace goblin::scheduler
