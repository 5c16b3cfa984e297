// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Policy adaptive: what it costs, and what liars get through.
#include <gmock/gmock.h>

#include "tests/core/scheduler/crowd.hpp"

namespace goblin::scheduler {
namespace {

using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

constexpr HostId kTrusted = 100;

/// `n` honest hosts and a trusted one that counts what it recomputes.
void populate(Crowd& crowd, HostId n, std::uint64_t& recomputed) {
  for (HostId id = 1; id <= n; ++id) crowd.host(id, Crowd::honest);
  crowd.host(
      kTrusted,
      [&recomputed](TaskId, std::uint64_t) {
        ++recomputed;
        return Crowd::kRight;
      },
      true);
}

TEST(Adaptive, CostFallsWithCredibilityToTheFloorAndNeverBelow) {
  Crowd crowd(1);
  std::uint64_t recomputed = 0;
  populate(crowd, 5, recomputed);
  crowd.play(1, 2000, wire::Policy::kAdaptive);
  ASSERT_TRUE(crowd.finished);
  EXPECT_EQ(crowd.accepted.size(), 2000u);
  const std::uint64_t first = recomputed;
  EXPECT_GT(first, 5u * 30);
  crowd.play(2, 4000, wire::Policy::kAdaptive);
  recomputed = 0;
  crowd.play(3, 5000, wire::Policy::kAdaptive);
  ASSERT_TRUE(crowd.finished);
  EXPECT_EQ(crowd.wrong, 0u);
  EXPECT_THAT(recomputed, Ge(100u)) << "one of each 50, for ever";
  EXPECT_THAT(recomputed, Le(125u));
  EXPECT_EQ(crowd.results, 5000 + recomputed) << "no replicas among hosts that are known";
}

TEST(Adaptive, SmallJobsEndThoughNoBatchIsFull) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Crowd crowd(seed);
    std::uint64_t recomputed = 0;
    populate(crowd, 3, recomputed);
    for (JobId job = 1; job <= 30; ++job) {
      crowd.play(job, 1 + job % 7, wire::Policy::kAdaptive);
      ASSERT_TRUE(crowd.finished) << "seed " << seed << " job " << job;
    }
  }
}

TEST(Adaptive, OneHostAndATrustedOneGetAlong) {
  Crowd crowd(3);
  std::uint64_t recomputed = 0;
  populate(crowd, 1, recomputed);
  crowd.play(1, 300, wire::Policy::kAdaptive);
  EXPECT_TRUE(crowd.finished);
  EXPECT_LT(recomputed, 100u);
}

/// Nothing would fill the batch: its host may begin no task while so many of its results wait.
TEST(Adaptive, TheBatchOfAHostThatIsFullIsClosed) {
  Driver d({.max_unjudged = 2});
  d.host(1).host(kTrusted, Driver::spec(kTrusted, true));
  d.s->restore_standing(1, {.passed = 1000}, d.now);
  d.job(1, wire::Policy::kAdaptive);
  for (TaskId task = 0; task < 10; ++task) d.ready(1, task);
  const auto leases = d.take<SendLease>();
  ASSERT_THAT(leases.size(), Ge(2u));
  for (std::size_t i = 0; i < leases.size(); ++i) {
    ASSERT_EQ(leases[i].host, 1u);
    d.say(1, leases[i].lease, leases[i].task);
    d.s->fetched(leases[i].lease, d.now);
  }
  std::size_t audits = 0;
  for (const auto& lease : d.take<SendLease>()) {
    if (lease.host != kTrusted) continue;
    ++audits;
    d.say(kTrusted, lease.lease, lease.task);
  }
  EXPECT_THAT(audits, Ge(1u));
  EXPECT_THAT(d.take<AcceptResult>(), SizeIs(Ge(2u)));
}

TEST(Adaptive, WithoutATrustedHostItWaitsAndSaysSo) {
  Driver d;
  d.job(1, wire::Policy::kAdaptive).host(1).host(2).ready(1, 0).collect();
  EXPECT_THAT(d.take<SendLease>(), IsEmpty());
  EXPECT_THAT(d.s->waiting_reason(1), HasSubstr("policy adaptive needs a trusted host"));
}

/// Honest to n = 100, then lies in everything: it loses the batch that follows, and no more.
TEST(Adaptive, ASleeperIsCaughtInItsFirstBatchOfLies) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Crowd crowd(seed);
    std::uint64_t recomputed = 0;
    populate(crowd, 4, recomputed);
    crowd.host(9, [](TaskId, std::uint64_t n) { return n < 1000 ? Crowd::kRight : 666; });
    crowd.play(1, 6000, wire::Policy::kAdaptive);
    ASSERT_TRUE(crowd.finished) << seed;
    EXPECT_EQ(crowd.wrong, 0u) << "seed " << seed;
    EXPECT_TRUE(crowd.caught.contains(9)) << "seed " << seed;
    EXPECT_THAT(crowd.given[9], Le(1000u + 2 * 50 + 2)) << "seed " << seed;
  }
}

/// Lies in one of 100 results for ever. Each audit finds one with 1 %; until then its lies stand.
/// Being caught takes back what stands of it in the job.
TEST(Adaptive, RareLiesAreTakenBackWhenTheirHostIsCaught) {
  std::uint64_t wrong = 0;
  std::uint64_t accepted = 0;
  std::uint64_t caught = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Crowd crowd(seed);
    std::uint64_t recomputed = 0;
    populate(crowd, 4, recomputed);
    std::mt19937_64 when(seed);
    crowd.host(9, [&when](TaskId, std::uint64_t) {
      return when() % 100 == 0 ? std::uint64_t{666} : Crowd::kRight;
    });
    crowd.play(1, 4000, wire::Policy::kAdaptive);
    ASSERT_TRUE(crowd.finished) << seed;
    wrong += crowd.wrong;
    accepted += crowd.accepted.size();
    if (crowd.caught.contains(9)) {
      ++caught;
      EXPECT_EQ(crowd.wrong, 0u) << "seed " << seed;
    }
  }
  EXPECT_GT(caught, 0u);
  // The stated bound: at most 1e-3 of what is accepted.
  EXPECT_LE(double(wrong), 1e-3 * double(accepted)) << wrong << " of " << accepted;
}

/// Colluders that give the same wrong digest for the tasks that they draw by chance.
TEST(Adaptive, ColludersDoNotOutvoteTheTrustedHost) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Crowd crowd(seed);
    std::uint64_t recomputed = 0;
    populate(crowd, 6, recomputed);
    const auto collude = [](TaskId task, std::uint64_t n) {
      return n > 20 && task % 3 == 0 ? std::uint64_t{13} : Crowd::kRight;
    };
    for (HostId id = 20; id < 24; ++id) crowd.host(id, collude);
    crowd.play(1, 3000, wire::Policy::kAdaptive);
    ASSERT_TRUE(crowd.finished) << seed;
    EXPECT_EQ(crowd.wrong, 0u) << "seed " << seed;
    EXPECT_EQ(crowd.caught.size(), 4u) << "seed " << seed;
    for (const auto& [host, task] : crowd.caught) EXPECT_GE(host, 20u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace goblin::scheduler
