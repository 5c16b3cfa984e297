// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "goblin/random.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace goblin {
namespace {

// Known answers of Random123 1.14 (kat_vectors, philox4x32-10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(PhiloxCounter{0, 0, 0, 0}, PhiloxKey{0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox(PhiloxCounter{kOnes, kOnes, kOnes, kOnes}, PhiloxKey{kOnes, kOnes}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(PhiloxCounter{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   PhiloxKey{0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, SeedIndexAndStreamArePlacedLowWordFirst) {
  EXPECT_EQ(philox(0x0000000200000001u, 0x0000000400000003u, 0x0000000600000005u),
            philox(PhiloxCounter{3, 4, 5, 6}, PhiloxKey{1, 2}));
  static_assert(philox(1, 2) == philox(PhiloxCounter{2, 0, 0, 0}, PhiloxKey{1, 0}));
}

TEST(Philox, UniformsStayBelowOneAndAreExact) {
  EXPECT_EQ(uniform_f32(0xffffffff), std::nextafter(1.0f, 0.0f));
  EXPECT_EQ(uniform_f64(0xffffffff, 0xffffffff), std::nextafter(1.0, 0.0));
  EXPECT_EQ(uniform_f32(0), 0.0f);
  EXPECT_EQ(uniform_f64(0x80000000, 0), 0.5);
  double sum = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const auto bits = philox(42, static_cast<std::uint64_t>(i));
    sum += uniform_f64(bits[0], bits[1]);
  }
  // Standard deviation of the mean is 0.0009.
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
}

}  // namespace
}  // namespace goblin
