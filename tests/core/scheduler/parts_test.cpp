// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <gtest/gtest.h>

#include "core/scheduler/blob_cache.hpp"
#include "core/scheduler/capacity.hpp"
#include "core/scheduler/speed.hpp"
#include "tests/core/scheduler/driver.hpp"

namespace goblin::scheduler {
namespace {

TEST(SpeedModel, KnowsNothingBeforeTheFirstObservation) {
  EXPECT_FALSE(SpeedModel{}.predict(1).has_value());
  EXPECT_EQ(SpeedModel{}.rate(), 0);
}

TEST(SpeedModel, TellsOverheadFromRate) {
  SpeedModel m;
  for (int i = 0; i < 40; ++i) {
    const double size = 1e6 * (1 + i % 5);
    m.add(size, 0.5 + size / 1e7);
  }
  EXPECT_NEAR(*m.predict(0), 0.5, 1e-6);
  EXPECT_NEAR(*m.predict(2e7), 2.5, 1e-5);
}

TEST(SpeedModel, FollowsAChangeOfSpeed) {
  SpeedModel m;
  for (int i = 0; i < 50; ++i) m.add(1e6, 1);
  for (int i = 0; i < 20; ++i) m.add(1e6, 10);
  EXPECT_NEAR(*m.predict(1e6), 10, 1);
}

TEST(SpeedModel, NeverPredictsLessThanNothing) {
  SpeedModel m;  // larger was faster: noise
  m.add(1e6, 2);
  m.add(2e6, 1);
  EXPECT_GE(*m.predict(1e9), 0);
  EXPECT_GE(*m.predict(0), 0);
}

TEST(HostCache, DropsTheLongestUnusedWhenFull) {
  BlobTable table;
  HostCache cache(table);
  BlobId blob[4];
  for (std::uint64_t i = 0; i < 4; ++i) blob[i] = table.acquire(named(i), 10);
  cache.use(blob[0], 30);
  cache.use(blob[1], 30);
  cache.use(blob[2], 30);
  cache.use(blob[0], 30);
  cache.use(blob[3], 30);
  EXPECT_TRUE(cache.holds(blob[0]));
  EXPECT_FALSE(cache.holds(blob[1]));
  EXPECT_TRUE(cache.holds(blob[3]));
  EXPECT_EQ(cache.bytes(), 30u);
  EXPECT_EQ(table[blob[1]].holders, 0u);
  cache.use(blob[1], 5);
  EXPECT_FALSE(cache.holds(blob[1])) << "larger than the whole cache";
  cache.clear();
  EXPECT_EQ(cache.bytes(), 0u);
  for (const BlobId b : blob) table.release(b);
  EXPECT_EQ(table.size(), 0u) << "nobody names them any more";
}

TEST(BlobTable, OneNumberPerDigestWhileSomebodyNamesIt) {
  BlobTable table;
  const BlobId a = table.acquire(named(7), 10);
  EXPECT_EQ(table.acquire(named(7), 10), a);
  EXPECT_NE(table.acquire(named(8), 10), a);
  table.release(a);
  EXPECT_EQ(table.size(), 2u);
  table.release(a);
  EXPECT_EQ(table.size(), 1u);
}

TEST(WorthwhileMemory, WeighsWhoIsLeftOutAgainstSmallerTasks) {
  const auto hosts = [](std::size_t count, std::uint64_t memory, std::uint32_t threads = 1) {
    return std::vector<Lent>(count, Lent{memory, threads});
  };
  const auto with = [](std::vector<Lent> some, const std::vector<Lent>& more) {
    some.insert(some.end(), more.begin(), more.end());
    return some;
  };
  EXPECT_EQ(worthwhile_memory({}), 0u);
  EXPECT_EQ(worthwhile_memory(hosts(1, 5)), 5u);
  EXPECT_EQ(worthwhile_memory(hosts(7, 256)), 256u);
  EXPECT_EQ(worthwhile_memory(with(hosts(9, 256), hosts(1, 128))), 256u) << "one of ten";
  EXPECT_EQ(worthwhile_memory(with(hosts(1, 256), hosts(1, 128))), 128u) << "half of them";
  EXPECT_EQ(worthwhile_memory(with(hosts(1, 256), hosts(1, 16))), 16u) << "a sixteenth: as good";
  EXPECT_EQ(worthwhile_memory(with(hosts(1, 256), hosts(1, 15))), 256u);
  EXPECT_EQ(worthwhile_memory(with(hosts(1, 256), hosts(30, 16))), 16u) << "most are small";
  EXPECT_EQ(worthwhile_memory(with(hosts(3, 256), hosts(1, 128, 32))), 128u) << "it has threads";
  EXPECT_EQ(worthwhile_memory(with(hosts(2, 0, 0), hosts(1, 64))), 64u);
}

TEST(CutFor, WhoMustDecideCanHoldATask) {
  const auto lent = [](std::uint64_t memory, std::uint64_t group, bool trusted = false) {
    return Lent{memory, 2, trusted, group};
  };
  const validation::PolicySpec algebraic{wire::Policy::kAlgebraic, 0};
  const validation::PolicySpec validator{wire::Policy::kValidator, 0};
  const validation::PolicySpec two{wire::Policy::kReplicate, 2};
  const validation::PolicySpec three{wire::Policy::kReplicate, 3};
  EXPECT_EQ(cut_for(validator, {}).hosts, 0u);
  EXPECT_EQ(cut_for(validator, {}).memory_bytes, 0u);

  const std::vector<Lent> hosts = {lent(256, 1), lent(512, 2), lent(64, 3, true),
                                   lent(32, 4, true)};
  const Cut free = cut_for(algebraic, hosts);
  EXPECT_EQ(free.hosts, 2u) << "validators are kept for validation";
  EXPECT_EQ(free.memory_bytes, 512u);
  EXPECT_EQ(free.min_memory_bytes, 256u);
  EXPECT_EQ(free.threads, 2u);
  EXPECT_EQ(cut_for(validator, hosts).memory_bytes, 64u) << "the larger one of them";
  EXPECT_EQ(cut_for(validator, hosts).min_memory_bytes, 64u);
  EXPECT_EQ(cut_for(validator, hosts).hosts, 2u);
  EXPECT_EQ(cut_for(validator, {lent(16, 1), lent(64, 2, true)}).memory_bytes, 16u);
  EXPECT_EQ(cut_for(validator, {lent(16, 1)}).memory_bytes, 16u) << "there is none yet";
  EXPECT_EQ(cut_for(validator, {lent(64, 1, true), lent(16, 2, true)}).memory_bytes, 64u);

  EXPECT_EQ(cut_for(two, hosts).memory_bytes, 256u);
  EXPECT_EQ(cut_for(two, hosts).hosts, 2u);
  EXPECT_EQ(cut_for(three, hosts).memory_bytes, 64u) << "validators help where they must";
  EXPECT_EQ(cut_for(three, hosts).hosts, 4u);
  EXPECT_EQ(cut_for(two, {lent(512, 1), lent(256, 1), lent(64, 2)}).memory_bytes, 64u);
  EXPECT_EQ(cut_for(two, {lent(512, 1), lent(256, 1)}).memory_bytes, 512u) << "too few: all wait";
}

}  // namespace
}  // namespace goblin::scheduler
