// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Prints what the scheduler itself costs per task; the test holds it to finishing, not to a time.
#include <ctime>
#include <iostream>

#include "tests/core/scheduler/driver.hpp"

namespace goblin::scheduler {
namespace {

/// Every host answers at once with all that it has, in one batch a round.
double micros_per_task(std::uint32_t hosts, std::uint64_t tasks, std::uint32_t panels) {
  Driver d;
  for (HostId h = 1; h <= hosts; ++h) {
    HostSpec spec = Driver::spec(h);
    spec.slots = 256;
    d.s->host_joined(h, spec, d.now);
  }
  d.s->add_job(1, {}, 1, d.now);
  TaskId next = 0;
  const std::clock_t begin = std::clock();  // processor time: other programs run beside this one
  bool finished = false;
  while (!finished) {
    d.now += 1000;
    if (d.s->next_wakeup() <= d.now) d.s->tick(d.now);
    for (const Action& action : d.s->take_actions()) {
      if (const auto* plan = std::get_if<PlanMore>(&action)) {
        for (std::uint32_t i = 0; i < plan->max_tasks && next < tasks; ++i, ++next) {
          ReadyTask task{.job = 1, .task = next, .flops = 100, .output_bytes = 8};
          if (panels > 0)
            task.inputs = {{named(next / panels), kMiB}, {named(1u << 30 | next % panels), kMiB}};
          d.s->task_ready(std::move(task), d.now);
        }
        d.s->planned(1, next == tasks ? GOBLIN_PLAN_DONE : GOBLIN_PLAN_MORE, false, 0, d.now);
      } else if (const auto* lease = std::get_if<SendLease>(&action)) {
        d.s->outcome(lease->host, {.lease = lease->lease, .compute = 20}, d.now);
      } else if (const auto* fetch = std::get_if<FetchResult>(&action)) {
        d.s->fetched(fetch->lease, d.now);
      } else if (const auto* check = std::get_if<CheckResult>(&action)) {
        d.s->checked(check->lease, Verdict::kAccept, d.now);
      } else if (const auto* accept = std::get_if<AcceptResult>(&action)) {
        d.s->accepted(1, accept->task, d.now);
      } else if (std::holds_alternative<FinishJob>(action)) {
        finished = true;
      }
    }
  }
  EXPECT_EQ(d.s->job_counts(1).accepted, tasks);
  return double(std::clock() - begin) / CLOCKS_PER_SEC * 1e6 / double(tasks);
}

TEST(Throughput, OfTheSchedulerAlone) {
  for (const std::uint32_t hosts : {1u, 2u, 10u, 200u})
    std::cout << hosts << " hosts: " << micros_per_task(hosts, 50'000, 0)
              << " us of processor time per tiny task, " << micros_per_task(hosts, 20'000, 64)
              << " us per task with two placed inputs\n";
}

}  // namespace
}  // namespace goblin::scheduler
