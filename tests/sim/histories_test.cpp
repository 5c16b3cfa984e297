// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Histories from a fixed seed on, or from GOBLIN_TEST_SEED; goblin-sim draws seeds.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <iostream>

#include "tests/sim/histories.hpp"

namespace goblin::sim {
namespace {

constexpr std::uint64_t kHistories = 1'500;

std::uint64_t first_seed() {
  const char* given = std::getenv("GOBLIN_TEST_SEED");
  return given == nullptr ? 1 : std::strtoull(given, nullptr, 0);
}

TEST(Histories, EveryHistoryKeepsTheInvariants) {
  const std::uint64_t first = first_seed();
  const Summary summary = run_histories(first, kHistories, 0);
  ASSERT_EQ(summary.violation, "")
      << "seed " << summary.failed_seed << "\nreplay: " << replay_line(summary.failed_seed);
  std::cout << "seeds " << first << " to " << first + summary.histories - 1 << "\n";
  for (const auto& [what, count] : summary.tally)
    std::cout << "  " << what << ": " << count << "\n";
  // Histories in which nothing happens prove nothing.
  for (const char* what : {"accepted",
                           "job finished",
                           "job failed",
                           "job cancelled",
                           "job forgotten",
                           "job taken up",
                           "quarantine",
                           "recheck",
                           "run again",
                           "lies",
                           "false failures",
                           "forged",
                           "stalls",
                           "late",
                           "slow fetches",
                           "handed back",
                           "host crashes",
                           "host refused",
                           "cut off",
                           "messages dropped",
                           "messages doubled",
                           "messages lost in a cut",
                           "lab node ends",
                           "lab node killed",
                           "lab node loses power",
                           "journal not opened",
                           "disk trouble",
                           "coordinator killed",
                           "settled assignments",
                           "refused by check",
                           "refused by recheck",
                           "refused: a validator computed another result",
                           "refused: independent hosts agree on another result",
                           "refused: its bytes are not what it had committed to"}) {
    EXPECT_TRUE(summary.tally.contains(what)) << what;
  }
}

TEST(Histories, OneSeedIsOneHistory) {
  const std::uint64_t first = first_seed();
  std::array<std::uint64_t, 30> hashes{};
  for (std::size_t i = 0; i < hashes.size(); ++i) hashes[i] = run_history(first + i).hash;
  // Not in the order of the first time: nothing of one history may be left for the next.
  for (std::size_t i = hashes.size(); i-- > 0;)
    EXPECT_EQ(run_history(first + i).hash, hashes[i]) << "seed " << first + i;
}

/// Seeds that have found a fault of the product or of the simulation.
TEST(Histories, WhatWasFoundStaysFound) {
  for (const std::uint64_t seed : {2u, 192u, 1789u, 2175u, 2267u, 3685u, 11292u, 12387u}) {
    const History history = run_history(seed);
    EXPECT_EQ(history.violation, "") << "seed " << seed << "\nreplay: " << replay_line(seed);
  }
}

}  // namespace
}  // namespace goblin::sim
