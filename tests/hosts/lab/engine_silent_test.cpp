// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Hosts that commit to results and keep their bytes back.
#include <gmock/gmock.h>

#include "tests/hosts/lab/engine_fixture.hpp"

namespace goblin::lab::test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kLength = 5000;

class EngineSilentTest : public EngineFixture {
 protected:
  void SetUp() override { scheduler_config_.max_failed_fetches = 1; }
  /// Host "a" commits and sends so many bytes; "b" computes the task, too. What happened.
  void stall(std::size_t sends, std::vector<std::string>& incidents) {
    run([&]() -> net::Task<void> {
      const auto stalls = join("a");
      stalls->loop = loop_.get();
      stalls->sends = sends;
      const auto job = co_await submit_doubling(kLength);
      CO_ASSERT(job);
      CO_ASSERT_UNTIL(stalls->leases.size() == 1);
      commit(*stalls, stalls->leases[0], doubled(kLength));
      const auto other = join("b");
      CO_ASSERT_UNTIL(other->leases.size() == 1);
      EXPECT_EQ(status(*job).tasks_accepted, 0u);
      commit(*other, other->leases[0], doubled(kLength));
      CO_ASSERT_UNTIL(status(*job).state == wire::JobState::kDone);
      const auto told = co_await engine_->explain(*job);
      CO_ASSERT(told);
      for (const auto& incident : told->incidents) {
        incidents.push_back(incident.what);
      }
      stalls->loop = nullptr;
    });
  }
};

TEST_F(EngineSilentTest, SilenceDoesNotHoldTheJobUp) {
  scheduler_config_.fetch_silence = 100'000;
  scheduler_config_.first_fetch = 3'600'000'000;
  std::vector<std::string> incidents;
  stall(0, incidents);
  EXPECT_THAT(incidents, Contains(HasSubstr("took leases and did not deliver")));
}

TEST_F(EngineSilentTest, ASlowLinkIsNotBlamed) {
  scheduler_config_.fetch_silence = 3'600'000'000;
  scheduler_config_.first_fetch = 100'000;
  std::vector<std::string> incidents;
  stall(1000, incidents);
  EXPECT_THAT(incidents, Not(Contains(HasSubstr("did not deliver"))));
}

}  // namespace
}  // namespace goblin::lab::test
