// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Inputs that are not what their digests say: whose fault it is decides who pays.
#include <gmock/gmock.h>

#include "tests/hosts/lab/engine_fixture.hpp"

namespace goblin::lab::test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kLength = 5000;

class EngineInputsTest : public EngineFixture {
 protected:
  /// Somebody writes to the researcher's array.
  void change_input() const {
    const double other = -1;
    EXPECT_TRUE(write_all(staged_.get(), 8 * 77, std::as_bytes(std::span(&other, 1))));
  }
  void say_corrupt(FakeHost& host, std::uint64_t lease) {
    wire::Results results;
    wire::TaskResult result;
    result.lease = lease;
    result.status = GOBLIN_CORRUPT;
    results.results.push_back(std::move(result));
    EXPECT_TRUE(engine_->results(host.id, results, wire::Bytes{}));
  }
};

TEST_F(EngineInputsTest, AChangedInputFailsTheJobAndCostsTheHostNothing) {
  for (const bool by_result : {false, true}) {
    run([&]() -> net::Task<void> {
      const auto host = join("a");
      const auto job = co_await submit_doubling(kLength);
      CO_ASSERT(job);
      CO_ASSERT_UNTIL(!host->leases.empty());
      change_input();
      if (by_result) {
        say_corrupt(*host, host->leases[0].lease);
      } else {
        hand_back(*host, host->leases[0].lease, Code::kCorrupt);
      }
      CO_ASSERT_UNTIL(status(*job).state == wire::JobState::kFailed);
      EXPECT_THAT(status(*job).message, HasSubstr("array 'x' was changed while the job"));
      EXPECT_EQ(report(*host).failed, 0u);
      EXPECT_EQ(report(*host).reason, "there is no job");
      const auto explained = co_await engine_->explain(*job);
      CO_ASSERT(explained);
      EXPECT_EQ(explained->incident_count, 0u);
      EXPECT_EQ(host->leases.size(), 1u) << "nobody else was asked for it";
    });
  }
}

TEST_F(EngineInputsTest, AHostThatIsWrongAboutAnInputFails) {
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    const auto job = co_await submit_doubling(kLength);
    CO_ASSERT(job);
    CO_ASSERT_UNTIL(!host->leases.empty());
    for (int i = 0; i < 3; ++i) {  // said again and again it is still one failure
      hand_back(*host, host->leases[0].lease, Code::kCorrupt);
    }
    CO_ASSERT_UNTIL(host->leases.size() == 2);
    EXPECT_EQ(report(*host).failed, 1u);
    const auto explained = co_await engine_->explain(*job);
    CO_ASSERT(explained);
    EXPECT_EQ(explained->incident_count, 1u);
    commit(*host, host->leases[1], doubled(kLength));
    CO_ASSERT_UNTIL(status(*job).state == wire::JobState::kDone);
  });
}

TEST_F(EngineInputsTest, AnInputThatWasCutIsNoFaultOfTheCheck) {
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    const auto job = co_await submit_doubling(kLength);
    CO_ASSERT(job);
    CO_ASSERT_UNTIL(!host->leases.empty());
    EXPECT_EQ(::ftruncate(staged_.get(), 0), 0);
    commit(*host, host->leases[0], doubled(kLength));
    CO_ASSERT_UNTIL(status(*job).state == wire::JobState::kFailed);
    EXPECT_THAT(status(*job).message, HasSubstr("array 'x'"));
    EXPECT_THAT(status(*job).message, HasSubstr("became shorter"));
    EXPECT_FALSE(report(*host).quarantined);
    EXPECT_EQ(report(*host).refused, 0u);
  });
}

}  // namespace
}  // namespace goblin::lab::test
