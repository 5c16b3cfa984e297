// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Worlds in which one thing is looked at.
#include <gtest/gtest.h>

#include "tests/sim/world.hpp"

namespace goblin::sim {
namespace {

/// Hosts whose memory one result fills do not wait for each other's votes.
TEST(Worlds, ResultsThatWaitForVotesDoNotFillTheHosts) {
  for (const wire::Policy policy : {wire::Policy::kReplicate, wire::Policy::kValidator}) {
    for (std::uint32_t replicas = 2; replicas <= 3; ++replicas) {
      Micros roomy = 0;
      for (const std::size_t most_kept : {std::size_t{1000}, std::size_t{1}}) {
        Options o = Options::calm();
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
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      World world(seed, Options::fair_shares(seed, faults));
      EXPECT_TRUE(world.run()) << world.time.violation() << " seed " << seed
                               << (faults ? " with faults" : "");
    }
  }
}

}  // namespace
}  // namespace goblin::sim
