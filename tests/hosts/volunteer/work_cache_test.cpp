// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A cache on disk that vanishes, or cannot be used for a while.
#include "tests/hosts/volunteer/work_fixture.hpp"

namespace goblin::volunteer::test {
namespace {

using ::testing::ElementsAre;

TEST_F(WorkTest, ACacheDirectoryThatVanishesIsMadeAgainAndCostsNoTask) {
  run([&]() -> net::Task<void> {
    open();
    int lost = 0;
    watch_->start([] { ADD_FAILURE() << "it can be mended"; }, [&lost] { ++lost; });
    give(lab_, {lease(1, 8, lab_.get())});
    auto first = [this] { return lab_->results.contains(1); };
    EXPECT_TRUE(co_await lab_->until(first));
    std::filesystem::remove_all(dir_ / "cache");
    give(lab_, {lease(2, 8, lab_.get()), lease(3, 8, lab_.get())});
    auto rest = [this] { return lab_->results.contains(2) && lab_->results.contains(3); };
    EXPECT_TRUE(co_await lab_->until(rest));
    EXPECT_EQ(lab_->results[2], GOBLIN_OK);
    EXPECT_EQ(lab_->results[3], GOBLIN_OK);
    EXPECT_TRUE(lab_->back.empty());
    EXPECT_TRUE(std::filesystem::is_directory(dir_ / "cache"));
    EXPECT_EQ(lost, 1) << "lab nodes must hear of it";
    EXPECT_EQ(watch_->trouble(), "");
  });
}

TEST_F(WorkTest, AnIdleHostFindsThatItsCacheDirectoryVanished) {
  config_.cache_pace = {net::Milliseconds(5), net::Milliseconds(5), net::Milliseconds(20)};
  run([&]() -> net::Task<void> {
    open();
    net::Event lost(*loop_);
    watch_->start([] { ADD_FAILURE() << "it can be mended"; }, [&lost] { lost.set(); });
    std::filesystem::remove_all(dir_ / "cache");
    EXPECT_TRUE(co_await lost.wait_for(net::Milliseconds(20'000)));
    EXPECT_TRUE(std::filesystem::is_directory(dir_ / "cache"));
    watch_->stop();
  });
}

TEST_F(WorkTest, WithoutACacheLeasesGoBackUnblamedUntilThereIsOneAgain) {
  config_.cache_pace.retry = config_.cache_pace.most = net::Milliseconds(5);
  run([&]() -> net::Task<void> {
    open();
    net::Event changed(*loop_);
    const auto on_change = [&] {
      if (!watch_->trouble().empty()) {
        work_->hand_back_unfetched();
      }
      changed.set();
    };
    watch_->start(on_change, [] {});
    std::filesystem::remove_all(dir_ / "cache");
    goblin::store::test::spill(dir_ / "cache", "somebody else's");
    // Nobody has the input of the first: it waits, and goes back with the others.
    give(lab_, {lease(1, 8), lease(2, 8, lab_.get()), lease(3, 8, lab_.get())});
    auto all_back = [this] { return lab_->back.size() == 3; };
    EXPECT_TRUE(co_await lab_->until(all_back));
    EXPECT_THAT(lab_->reasons, ElementsAre(Code::kUnavailable)) << "it is no failure of the task";
    EXPECT_TRUE(lab_->results.empty());
    EXPECT_EQ(work_->counters().failed, 0u);
    EXPECT_THAT(work_->idle_reason(), ::testing::HasSubstr("is a file; remove it"));
    give(lab_, {lease(4, 8, lab_.get())});
    EXPECT_THAT(lab_->back, ::testing::Contains(4)) << "at once";

    changed.reset();
    std::filesystem::remove(dir_ / "cache");
    while (!watch_->trouble().empty()) {
      changed.reset();
      const bool came = co_await changed.wait_for(net::Milliseconds(20'000));
      EXPECT_TRUE(came) << watch_->trouble();
      if (!came) {
        co_return;
      }
    }
    EXPECT_EQ(work_->idle_reason(), "no lab node has work for this host now");
    give(lab_, {lease(5, 8, lab_.get())});
    auto done = [this] { return lab_->results.contains(5); };
    EXPECT_TRUE(co_await lab_->until(done));
    EXPECT_EQ(lab_->results[5], GOBLIN_OK);
    watch_->stop();
  });
}

}  // namespace
}  // namespace goblin::volunteer::test
