// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A validator is believed no more than what it says can be confirmed.
#include <gmock/gmock.h>

#include "tests/core/scheduler/crowd.hpp"

namespace goblin::scheduler {
namespace {

using testing::IsEmpty;

constexpr HostId kLiar = 90, kValidator = 91;

std::uint64_t lie(TaskId, std::uint64_t) { return 13; }

Crowd honest_hosts(std::uint64_t seed, HostId hosts) {
  Crowd crowd(seed);
  for (HostId id = 1; id <= hosts; ++id) crowd.host(id, Crowd::honest);
  return crowd;
}

void expect_nobody_else_blamed(const Crowd& crowd) {
  for (const auto& [host, task] : crowd.caught)
    EXPECT_EQ(host, kLiar) << "host " << host << " for task " << task;
  for (const auto& [host, behaviour] : crowd.hosts)
    EXPECT_TRUE(host == kLiar || crowd.d->s->host_counts(host).standing.faults == 0) << host;
}

TEST(Validators, TheCheckConvictsALyingValidatorAndTakesItsRole) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Crowd crowd = honest_hosts(seed, 3);
    crowd.host(kLiar, lie, true);
    crowd.host(kValidator, Crowd::honest, true);
    crowd.play(1, 40, wire::Policy::kValidator);
    EXPECT_TRUE(crowd.finished);
    EXPECT_EQ(crowd.accepted.size(), 40u);
    EXPECT_EQ(crowd.wrong, 0u);
    expect_nobody_else_blamed(crowd);
    EXPECT_TRUE(crowd.caught.contains(kLiar));
    EXPECT_FALSE(crowd.d->s->host_counts(kLiar).trusted);
    EXPECT_TRUE(crowd.d->s->host_counts(kValidator).trusted);
    // In the next job it computes like anybody, and accuses nobody.
    crowd.play(2, 40, wire::Policy::kValidator);
    EXPECT_EQ(crowd.accepted.size(), 40u);
    EXPECT_EQ(crowd.wrong, 0u);
    expect_nobody_else_blamed(crowd);
  }
}

TEST(Validators, WithoutACheckOtherHostsConvictIt) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Crowd crowd = honest_hosts(seed, 6);
    crowd.blind = true;
    crowd.host(kLiar, lie, true);
    crowd.host(kValidator, Crowd::honest, true);
    crowd.play(1, 40, wire::Policy::kValidator);
    EXPECT_TRUE(crowd.finished);
    EXPECT_EQ(crowd.accepted.size(), 40u);
    EXPECT_EQ(crowd.wrong, 0u);
    expect_nobody_else_blamed(crowd);
    EXPECT_FALSE(crowd.d->s->host_counts(kLiar).trusted);
  }
}

TEST(Validators, WithoutASecondOneTheJobWaitsWhenTheOnlyOneIsConvicted) {
  Crowd crowd = honest_hosts(5, 8);
  crowd.host(kLiar, lie, true);
  crowd.play(1, 10, wire::Policy::kValidator);
  EXPECT_FALSE(crowd.finished);
  EXPECT_THAT(crowd.accepted, IsEmpty());
  expect_nobody_else_blamed(crowd);
}

TEST(Validators, WhenNobodyCanTellNobodyIsBlamed) {
  Crowd crowd = honest_hosts(7, 1);
  crowd.blind = true;
  crowd.host(kLiar, lie, true);
  crowd.play(1, 10, wire::Policy::kValidator);
  EXPECT_TRUE(crowd.finished) << "the lab's validator is all there is to go by";
  EXPECT_THAT(crowd.caught, IsEmpty());
  EXPECT_EQ(crowd.d->s->host_counts(1).standing.faults, 0u);
}

TEST(Validators, ALyingHostStillDoesNotGetThrough) {
  for (const bool blind : {false, true}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      Crowd crowd = honest_hosts(seed, 2);
      crowd.blind = blind;
      crowd.host(kLiar, lie);
      crowd.host(kValidator, Crowd::honest, true);
      crowd.play(1, 40, wire::Policy::kValidator);
      EXPECT_TRUE(crowd.finished);
      EXPECT_EQ(crowd.wrong, 0u);
      expect_nobody_else_blamed(crowd);
      EXPECT_TRUE(crowd.caught.contains(kLiar));
    }
  }
}

TEST(Validators, UnderAdaptiveALyingValidatorConvictsNobody) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Crowd crowd = honest_hosts(seed, 4);
    crowd.host(kLiar, lie, true);
    crowd.host(kValidator, Crowd::honest, true);
    crowd.play(1, 60, wire::Policy::kAdaptive);
    EXPECT_TRUE(crowd.finished);
    EXPECT_EQ(crowd.wrong, 0u);
    expect_nobody_else_blamed(crowd);
  }
}

TEST(Validators, TheRoleIsKeptOverARestartAndEarnedAnew) {
  Config config;
  config.forgive_after = 10;
  Driver d(config);
  d.host(1, Driver::spec(1, true));
  d.s->restore_standing(1, {.faults = 1}, d.now);
  EXPECT_FALSE(d.s->host_counts(1).trusted);
  d.s->host_changed(1, Driver::spec(1, true), d.now);
  EXPECT_FALSE(d.s->host_counts(1).trusted) << "saying so does not help";
  d.job(1);
  for (TaskId task = 0; task < 10; ++task) {
    EXPECT_FALSE(d.s->host_counts(1).trusted);
    d.ready(1, task).collect();
    d.complete(1, d.one<SendLease>());
  }
  EXPECT_TRUE(d.s->host_counts(1).trusted);
}

}  // namespace
}  // namespace goblin::scheduler
