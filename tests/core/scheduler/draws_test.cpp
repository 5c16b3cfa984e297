// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Who computes a replica.
#include <gmock/gmock.h>

#include "tests/core/scheduler/crowd.hpp"

namespace goblin::scheduler {
namespace {

using testing::SizeIs;

Config seeded(std::uint64_t seed) {
  Config config;
  config.seed = seed;
  return config;
}

/// Two colluders are idle at the moment when the first of them gets a task; all others are busy.
/// First come, first served would give them the whole quorum each time.
TEST(Draws, WhoIsIdleAtTheRightMomentDoesNotGetTheQuorum) {
  std::uint64_t both = 0;
  constexpr std::uint64_t kTrials = 400;
  constexpr HostId kHosts = 20;
  for (std::uint64_t seed = 1; seed <= kTrials; ++seed) {
    Driver d(seeded(seed));
    HostSpec one_slot = Driver::spec(0);
    for (HostId id = 1; id <= kHosts; ++id) {
      one_slot.slots = 1;
      one_slot.group = id;
      d.host(id, one_slot);
    }
    d.job(1, wire::Policy::kReplicate);
    // The honest eighteen are busy with another job; 19 and 20 are not.
    d.job(2);
    one_slot.accepting = false;
    for (HostId id = 19; id <= kHosts; ++id) {
      one_slot.group = id;
      d.s->host_changed(id, one_slot, d.now);
    }
    for (TaskId t = 0; t < 18; ++t) d.ready(2, t);
    d.collect();
    const auto busy = d.take<SendLease>();
    ASSERT_THAT(busy, SizeIs(18));
    one_slot.accepting = true;
    for (HostId id = 19; id <= kHosts; ++id) {
      one_slot.group = id;
      d.s->host_changed(id, one_slot, d.now);
    }
    d.ready(1, 0).collect();
    std::vector<HostId> got;
    for (const SendLease& l : d.take<SendLease>()) got.push_back(l.host);
    // The honest hosts end what they do within a second and take what was drawn for them.
    for (const SendLease& l : busy) {
      d.wait(20'000);
      d.complete(l.host, l);
      for (const SendLease& more : d.take<SendLease>()) got.push_back(more.host);
    }
    for (int i = 0; i < 100 && got.size() < 2; ++i) {
      d.wait(100'000);
      for (const SendLease& more : d.take<SendLease>()) got.push_back(more.host);
    }
    ASSERT_THAT(got, SizeIs(2)) << seed;
    both += got[0] >= 19 && got[1] >= 19 ? 1 : 0;
  }
  // One of 19 by chance. A binomial of 400 with p = 1/19 exceeds 60 once in 10^12.
  EXPECT_LE(both, 60u);
}

TEST(Draws, WhoIsDrawnAndDoesNotComeIsReplaced) {
  Driver d(seeded(4));
  HostSpec spec = Driver::spec(0);
  spec.slots = 1;
  for (HostId id = 1; id <= 5; ++id) {
    spec.group = id;
    d.host(id, spec);
  }
  d.job(1, wire::Policy::kReplicate).ready(1, 0).collect();
  auto sent = d.take<SendLease>();
  ASSERT_THAT(sent, SizeIs(2));
  // The second one hands it back, each time: another is drawn.
  std::set<HostId> asked{sent[1].host};
  for (int i = 0; i < 40 && asked.size() < 4; ++i) {
    d.s->handed_back(sent.back().host, sent.back().lease, Code::kUnavailable, d.now);
    d.collect();
    std::vector<SendLease> more;
    for (int k = 0; k < 100 && (more = d.take<SendLease>()).empty(); ++k) d.wait(100'000);
    ASSERT_THAT(more, SizeIs(1));
    EXPECT_NE(more[0].host, sent[0].host);
    asked.insert(more[0].host);
    sent.push_back(more[0]);
  }
  EXPECT_THAT(asked, SizeIs(4));
}

TEST(Draws, WhereThereIsNoChoiceNobodyWaits) {
  Driver d;
  d.host(1).host(2).job(1, wire::Policy::kReplicate).ready(1, 0).collect();
  EXPECT_THAT(d.take<SendLease>(), SizeIs(2));
}

/// Keys cost nothing: a crowd of new ones does not make up a quorum among itself while hosts are
/// here that have shown what they do.
TEST(Draws, EveryQuorumHasAHostThatIsKnown) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Crowd crowd(seed);
    for (HostId id = 1; id <= 4; ++id) crowd.host(id, Crowd::honest);
    crowd.play(1, 100, wire::Policy::kAlgebraic);
    ASSERT_TRUE(crowd.finished);
    for (HostId id = 50; id < 90; ++id)
      crowd.host(id, [](TaskId, std::uint64_t) { return std::uint64_t{13}; });
    crowd.play(2, 60, wire::Policy::kReplicate);
    EXPECT_EQ(crowd.wrong, 0u) << "seed " << seed;
  }
}

TEST(Draws, ReplicasOfOneJobGoToAllHostsAlike) {
  Crowd crowd(7);
  for (HostId id = 1; id <= 6; ++id) crowd.host(id, Crowd::honest);
  crowd.play(1, 3000, wire::Policy::kReplicate);
  ASSERT_TRUE(crowd.finished);
  std::map<std::pair<HostId, HostId>, int> pairs;
  for (auto& [task, hosts] : crowd.starts) {
    ASSERT_GE(hosts.size(), 2u);
    ++pairs[std::minmax(hosts[0], hosts[1])];
  }
  EXPECT_EQ(pairs.size(), 15u) << "every pair occurs";
  for (const auto& [pair, count] : pairs)
    EXPECT_GT(count, 100) << pair.first << " and " << pair.second;
}

}  // namespace
}  // namespace goblin::scheduler
