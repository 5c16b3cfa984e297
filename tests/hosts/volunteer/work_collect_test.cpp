// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Results that a lab node does not collect.
#include "tests/hosts/volunteer/work_fixture.hpp"

namespace goblin::volunteer::test {
namespace {

/// `alone` fills the memory while it is alone; `later` joins. When is its task computed?
TEST_F(WorkTest, WhatALabNodeDoesNotCollectIsGivenUpForOneThatJoinsLater) {
  config_.uncollected = net::Milliseconds(1'500);
  run([&]() -> net::Task<void> {
    open();
    const auto third = [&](std::uint64_t number, FakeLab& lab) {
      wire::Lease made = lease(number, 1 << 20, &lab);  // its result: 8 MiB of 64
      made.memory_bytes = 30u << 20;
      return made;
    };
    give(lab_, {third(1, *lab_), third(2, *lab_), third(3, *lab_), third(4, *lab_), third(5, *lab_),
                third(6, *lab_)});
    auto full = [this] { return lab_->held().bytes() > 34u << 20; };
    EXPECT_TRUE(co_await lab_->until(full));
    const auto begin = loop_->now();
    give(other_, {third(11, *other_)});
    auto served = [this] { return other_->results.contains(11); };
    EXPECT_TRUE(co_await other_->until(served));
    EXPECT_EQ(other_->results[11], GOBLIN_OK);
    EXPECT_GT(loop_->now() - begin, net::Milliseconds(200)) << "what was just computed is kept";
    EXPECT_GE(work_->counters().given_up, 1u);
    EXPECT_FALSE(lab_->held().find(lab_->digests[1])) << "the oldest";
    EXPECT_TRUE(lab_->held().find(lab_->digests[5])) << "no more than was needed";
  });
}

TEST_F(WorkTest, WhatALabNodeCollectsIsKeptForIt) {
  config_.uncollected = net::Milliseconds(1'500);
  run([&]() -> net::Task<void> {
    open();
    wire::Lease large = lease(1, 1 << 20, lab_.get());
    give(lab_, {large});
    auto first = [this] { return lab_->results.contains(1); };
    EXPECT_TRUE(co_await lab_->until(first));
    wire::Lease waits = lease(11, 8, other_.get());
    waits.memory_bytes = config_.memory_bytes;
    give(other_, {waits});
    // Over a slow link: some bytes now and then.
    const auto source = lab_->held().find(lab_->digests[1]);
    EXPECT_TRUE(source);
    wire::Bytes some(16);
    for (int i = 0; i < 10; ++i) {
      EXPECT_TRUE((*source)->read(0, some));
      co_await loop_->sleep(net::Milliseconds(400));
    }
    EXPECT_EQ(work_->counters().given_up, 0u);
    EXPECT_TRUE(lab_->held().find(lab_->digests[1]));
    // Not for ever.
    auto served = [this] { return other_->results.contains(11); };
    EXPECT_TRUE(co_await other_->until(served));
    EXPECT_EQ(work_->counters().given_up, 1u);
  });
}

TEST_F(WorkTest, NothingIsGivenUpWhereNobodyWaits) {
  config_.uncollected = net::Milliseconds(100);
  run([&]() -> net::Task<void> {
    open();
    give(lab_, {lease(1, 1 << 20, lab_.get())});
    auto first = [this] { return lab_->results.contains(1); };
    EXPECT_TRUE(co_await lab_->until(first));
    co_await loop_->sleep(net::Milliseconds(2'000));
    EXPECT_TRUE(lab_->held().find(lab_->digests[1]));
  });
}

}  // namespace
}  // namespace goblin::volunteer::test
