// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Random histories. GOBLIN_TEST_SEED replays one history (the number that a failure prints) and
// says its actions on stderr; GOBLIN_TEST_HISTORIES says how many to run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "tests/core/scheduler/world.hpp"

namespace goblin::scheduler::sim {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(Simulation, EveryHistoryKeepsTheInvariants) {
  const bool one = std::getenv("GOBLIN_TEST_SEED") != nullptr;
  const std::uint64_t first = number_from("GOBLIN_TEST_SEED", 1);
  const std::uint64_t histories = one ? 1 : number_from("GOBLIN_TEST_HISTORIES", 400);
  std::map<std::string, std::uint64_t> tally;
  for (std::uint64_t seed = first; seed < first + histories; ++seed) {
    Random random(seed);
    World world(seed, Options::draw(random));
    world.trace = one;
    ASSERT_TRUE(world.run()) << world.violation() << "\nreplay with GOBLIN_TEST_SEED=" << seed;
    for (const auto& [what, count] : world.tally) tally[what] += count;
  }
  std::cout << "seeds " << first << " to " << first + histories - 1 << "\n";
  for (const auto& [what, count] : tally) std::cout << "  " << what << ": " << count << "\n";
  if (one) return;
  // A history in which nothing happens proves nothing.
  for (const char* what : {"finished", "quarantined", "rechecks", "reruns", "restarts", "crashes",
                           "stalls", "late", "lies", "cancelled", "handed back"})
    EXPECT_GT(tally[what], 0u) << what;
}

TEST(Simulation, OneSeedIsOneHistory) {
  const auto trace = [](std::uint64_t seed) {
    Random random(seed);
    World world(seed, Options::draw(random));
    world.run();
    return std::tuple(world.now(), world.steps(), world.tally);
  };
  for (std::uint64_t seed = 1; seed < 20; ++seed) EXPECT_EQ(trace(seed), trace(seed)) << seed;
}

/// Hosts whose memory one result fills do not wait for each other's votes.
TEST(Simulation, ResultsThatWaitForVotesDoNotFillTheHosts) {
  for (const wire::Policy policy : {wire::Policy::kReplicate, wire::Policy::kValidator}) {
    for (std::uint32_t replicas = 2; replicas <= 3; ++replicas) {
      Micros roomy = 0;
      for (const std::size_t most_kept : {std::size_t{1000}, std::size_t{1}}) {
        Options o;
        o.hosts = 4;
        o.lie = 1;
        o.trusted = policy == wire::Policy::kValidator ? 1 : 0;
        o.liars = o.stall = o.status = o.hand_back = o.lost_fetch = o.abstain = 0;
        o.duplicate = o.forged = o.crash_per_minute = o.change_per_minute = 0;
        o.restart = o.cancel = 0;
        o.late_hosts = 0;
        o.speed_spread = 2;
        o.most_kept = most_kept;
        World world(5, o);
        for (auto& [id, host] : world.hosts()) {
          host.spec.slots = 30;
          host.spec.group = id;
        }
        world.hosts().begin()->second.temper = Temper::kLiar;  // votes that differ wait for a third
        for (auto& [id, job] : world.jobs()) {
          job.policy = {policy, replicas};
          job.tasks = 100;
          job.round = 0;
          job.memory = 0;
          job.flops = 1e9;
        }
        ASSERT_TRUE(world.run()) << world.violation();
        if (most_kept == 1) {
          EXPECT_LT(world.now(), roomy + roomy / 2) << replicas << " replicas";
        } else {
          roomy = world.now();
        }
      }
    }
  }
}

/// Two backlogged jobs share by weight although their tasks differ in size a hundredfold.
TEST(Simulation, SharesFollowWeights) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Options o;
    o.jobs = 3;
    o.hosts = 4;
    o.liars = o.stall = o.status = o.hand_back = o.lost_fetch = o.abstain = 0;
    o.duplicate = o.forged = o.crash_per_minute = o.change_per_minute = o.restart = o.cancel = 0;
    o.late_hosts = 0;
    World world(seed, o);
    double flops = 1e7;
    std::uint32_t weight = 1;
    for (auto& [id, job] : world.jobs()) {
      job.policy = {};
      job.tasks = 10'000'000;
      job.round = 0;
      job.memory = 0;
      job.flops = flops;
      job.weight = weight;
      flops *= 10;
      weight *= 2;
    }
    world.stop_at = 60'000'000;
    ASSERT_TRUE(world.run()) << world.violation() << " seed " << seed;
    double all = 0;
    for (const auto& [id, job] : world.jobs()) all += job.seconds;
    for (const auto& [id, job] : world.jobs())
      EXPECT_NEAR(job.seconds / all, job.weight / 7.0, 0.03) << "job " << id << " seed " << seed;
  }
}

}  // namespace
}  // namespace goblin::scheduler::sim
