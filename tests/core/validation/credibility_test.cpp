// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/validation/credibility.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace goblin::validation {
namespace {

TEST(Credibility, ANewHostIsDoubtedAsMuchAsHostsAre) {
  EXPECT_DOUBLE_EQ(doubt(0, {}), 0.1);
  EXPECT_DOUBLE_EQ(doubt(0, {.faulty = 0.3}), 0.3);
}

TEST(Credibility, DoubtFallsAsChecksPassAndNeverRises) {
  const Trust trust;
  EXPECT_NEAR(doubt(10, trust), 0.1 / (0.9 * 10 * std::numbers::e), 1e-12);
  EXPECT_LE(doubt(41, trust), 1e-3);
  EXPECT_GT(doubt(40, trust), 1e-3);
  double before = 1;
  for (std::uint64_t passed = 0; passed < 10'000; ++passed) {
    const double now = doubt(passed, {.faulty = 0.45});
    ASSERT_LE(now, before) << passed;
    ASSERT_GT(now, 0);
    before = now;
  }
}

/// The bound holds for every constant share of lies: f / (1 - f) times the largest s (1 - s)^k.
TEST(Credibility, NoConstantShareOfLiesDoesBetterThanTheBound) {
  for (const double f : {0.05, 0.1, 0.3}) {
    for (std::uint64_t k = 1; k < 300; k += 7) {
      double worst = 0;
      for (double s = 0.0005; s < 1; s += 0.0005) {
        // Chance that the host lies, given that it passed, and lies in this result.
        const double passes = std::pow(1 - s, double(k));
        worst = std::max(worst, f * passes * s / (f * passes + (1 - f)));
      }
      ASSERT_LE(worst, doubt(k, {.faulty = f})) << "f " << f << " k " << k;
    }
  }
}

TEST(Credibility, EqualResultsOfIndependentHostsMultiply) {
  const std::array<double, 2> two{0.1, 0.1};
  EXPECT_NEAR(doubt_of_equal(two), 0.01 / (0.01 + 0.81), 1e-12);
  const std::array<double, 1> one{0.25};
  EXPECT_DOUBLE_EQ(doubt_of_equal(one), 0.25);
  EXPECT_DOUBLE_EQ(doubt_of_equal({}), 1);
}

TEST(Credibility, ReplicasArePointlessAmongNewHosts) {
  EXPECT_TRUE(too_new(doubt(0, {}), {}));
  EXPECT_TRUE(too_new(doubt(1, {}), {}));
  EXPECT_FALSE(too_new(doubt(2, {}), {}));
  EXPECT_TRUE(too_new(std::nan(""), {}));
}

TEST(Credibility, BatchesGrowFromOneToWhatTheFloorAllows) {
  EXPECT_EQ(batch_size(0, {}), 1u);
  EXPECT_EQ(batch_size(10, {}), 6u);
  EXPECT_EQ(batch_size(98, {}), 50u);
  EXPECT_EQ(batch_size(UINT64_MAX, {}), 50u);
  EXPECT_EQ(batch_size(1000, {.floor = 0.1}), 10u);
  EXPECT_EQ(batch_size(1000, {.floor = 1}), 1u);
}

}  // namespace
}  // namespace goblin::validation
