// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Worlds in which one thing is looked at.
#include <gtest/gtest.h>

#include "tests/sim/world.hpp"

namespace goblin::sim {
namespace {

/// No faults and no lies.
Options calm() {
  Options o;
  o.liars = o.stall = o.status = o.hand_back = o.lost_fetch = o.abstain = 0;
  o.duplicate = o.crash_per_minute = o.change_per_minute = o.cancel = 0;
  o.lab_stops = o.coordinator_stops = 0;
  o.late_hosts = 0;
  return o;
}

/// Hosts whose memory one result fills do not wait for each other's votes.
TEST(Worlds, ResultsThatWaitForVotesDoNotFillTheHosts) {
  for (const wire::Policy policy : {wire::Policy::kReplicate, wire::Policy::kValidator}) {
    for (std::uint32_t replicas = 2; replicas <= 3; ++replicas) {
      Micros roomy = 0;
      for (const std::size_t most_kept : {std::size_t{1000}, std::size_t{1}}) {
        Options o = calm();
        o.lie = 1;
        o.trusted = policy == wire::Policy::kValidator ? 1 : 0;
        o.speed_spread = 2;
        o.most_kept = most_kept;
        World world(5, o);
        for (const auto& host : world.hosts) {
          host->spec.slots = 30;
          host->spec.group = host->node;
          host->spec.memory_bytes = 1u << 30;
        }
        world.hosts.front()->liar = true;  // votes that differ wait for a third
        for (JobPlan& plan : world.labs.front()->plans()) {
          plan.policy = {policy, replicas};
          plan.tasks = 100;
          plan.round = 0;
          plan.memory = 0;
          plan.flops = 1e9;
          plan.abstain = plan.miss = 0;
        }
        ASSERT_TRUE(world.run()) << world.time.violation();
        if (most_kept == 1) {
          EXPECT_LT(world.time.now(), roomy + roomy / 2) << replicas << " replicas";
        } else {
          roomy = world.time.now();
        }
      }
    }
  }
}

/// Backlogged jobs share by weight although their tasks differ in size a hundredfold, hosts crash
/// and change speed, messages are late and the coordinator dies.
TEST(Worlds, SharesFollowWeights) {
  for (const bool faults : {false, true}) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      Options o = calm();
      o.jobs = 3;
      if (faults) {
        o.crash_per_minute = 0.5;
        o.change_per_minute = 2;
        o.duplicate = 0.02;
        o.slow = 0.1;
        o.loose = seed % 2 == 0;
        o.coordinator_stops = 1;
      }
      World world(seed, o);
      double flops = 1e7;
      std::uint32_t weight = 1;
      for (JobPlan& plan : world.labs.front()->plans()) {
        plan.policy = {};
        plan.tasks = 10'000'000;
        plan.round = 0;
        plan.memory = 0;
        plan.flops = flops;
        plan.weight = weight;
        plan.abstain = plan.miss = 0;
        plan.submitted = 0;
        flops *= 10;
        weight *= 2;
      }
      world.stop_at = 60'000'000;
      ASSERT_TRUE(world.run()) << world.time.violation() << " seed " << seed;
      double all = 0;
      for (std::size_t i = 0; i < 3; ++i) all += world.labs.front()->seconds_of(i);
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_NEAR(world.labs.front()->seconds_of(i) / all, double(1u << i) / 7.0,
                    faults ? 0.08 : 0.03)
            << "job " << i << " seed " << seed << (faults ? " with faults" : "");
    }
  }
}

}  // namespace
}  // namespace goblin::sim
