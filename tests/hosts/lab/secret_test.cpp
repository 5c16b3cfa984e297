// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/secret.hpp"

#include <gtest/gtest.h>

#include <set>

namespace goblin::lab {
namespace {

TEST(Secret, EverySeedIsAnother) {
  std::set<std::array<std::uint8_t, 32>> seeds;
  for (int i = 0; i < 100; ++i) {
    seeds.insert(draw_seed());
  }
  EXPECT_EQ(seeds.size(), 100u);
}

TEST(Secret, TheSchedulerChoosesByTheKernelsNumbersAndKeepsItsSettings) {
  scheduler::Config config;
  config.max_attempts = 7;
  std::set<std::uint64_t> numbers;
  for (int i = 0; i < 10; ++i) {
    scheduler::Config made = with_secret_choices(config);
    EXPECT_EQ(made.max_attempts, 7u);
    for (int k = 0; k < 100; ++k) {
      numbers.insert(made.random());
    }
  }
  EXPECT_EQ(numbers.size(), 1000u);
}

/// What hosts see of it: the numbers of their leases.
TEST(Secret, LeasesOfTwoLabNodesHaveOtherNumbers) {
  const auto first_lease = [] {
    const auto pure = scheduler::Scheduler::create(with_secret_choices({}));
    scheduler::HostSpec host;
    host.memory_bytes = 1u << 20;
    pure->add_job(1, {}, 1, 1);
    pure->host_joined(1, host, 1);
    scheduler::ReadyTask task;
    task.job = 1;
    task.memory_bytes = 1000;
    pure->task_ready(task, 1);
    for (const auto& action : pure->take_actions()) {
      if (const auto* lease = std::get_if<scheduler::SendLease>(&action)) {
        return lease->lease;
      }
    }
    return scheduler::LeaseId{0};
  };
  const auto one = first_lease();
  EXPECT_NE(one, 0u);
  EXPECT_NE(one, first_lease());
}

}  // namespace
}  // namespace goblin::lab
