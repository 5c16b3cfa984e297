// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstdlib>
#include <random>

#include "goblin/numerics/dot.hpp"
#include "tests/testing/seed.hpp"

namespace goblin::numerics {
namespace {

std::uint64_t seed() { return goblin::test::drawn_seed(); }

template <class T>
auto bits(T x) {
  if constexpr (sizeof(T) == 4) {
    return bits_as<std::uint32_t>(canonical(x));
  } else {
    return bits_as<std::uint64_t>(canonical(x));
  }
}

template <class T>
void expect_fma(T x, T y, T z) {
  // Called through a volatile pointer, the library's function is not replaced by an instruction
  // that the compiler may not use here, nor computed while compiling.
  static T (*volatile library)(T, T, T) = [](T a, T b, T c) { return std::fma(a, b, c); };
  const T expected = library(x, y, z);
  const T got = soft_fma(x, y, z);
  ASSERT_EQ(bits(got), bits(expected))
      << std::hexfloat << "fma(" << x << ", " << y << ", " << z << ") gave " << got << " for "
      << expected << " GOBLIN_TEST_SEED=" << std::dec << seed();
}

template <class T>
class SoftFma : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(SoftFma, Floats);

TYPED_TEST(SoftFma, EveryTripleOfHardValues) {
  using T = TypeParam;
  using Limits = std::numeric_limits<T>;
  const T e = Limits::epsilon();
  std::vector<T> values = {0,
                           Limits::denorm_min(),
                           3 * Limits::denorm_min(),
                           Limits::min() - Limits::denorm_min(),
                           Limits::min(),
                           Limits::min() * (1 + e),
                           std::sqrt(Limits::min()),
                           std::sqrt(Limits::denorm_min()),
                           e / 2,
                           e,
                           e * (1 + e),
                           1 - e / 2,
                           1,
                           1 + e,
                           T{1} / 3,
                           3,
                           1 / e,
                           std::sqrt(Limits::max()),
                           Limits::max() / 2,
                           Limits::max() * (1 - e),
                           Limits::max(),
                           Limits::infinity(),
                           Limits::quiet_NaN()};
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  for (const T x : values) {
    for (const T y : values) {
      for (const T z : values) {
        expect_fma(x, y, z);
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

TYPED_TEST(SoftFma, RandomBits) {
  using T = TypeParam;
  using Word = decltype(bits(T{}));
  std::mt19937_64 random(seed());
  for (int i = 0; i < 300'000; ++i) {
    const T x = bits_as<T>(static_cast<Word>(random()));
    const T y = bits_as<T>(static_cast<Word>(random()));
    expect_fma(x, y, bits_as<T>(static_cast<Word>(random())));
    // Addends within a few rounding units of the product: cancellation and halfway cases.
    const T product = x * y;
    for (const int shift : {0, 1, 2}) {
      const T close = bits_as<T>(static_cast<Word>(bits_as<Word>(-product) + (random() % 5) - 2));
      expect_fma(x, y, std::ldexp(close, -shift * (sizeof(T) == 4 ? 23 : 52)));
    }
    if (this->HasFatalFailure()) return;
  }
}

// Few significant bits: results that lie exactly between two numbers are common.
TYPED_TEST(SoftFma, ShortMantissas) {
  using T = TypeParam;
  constexpr int kDigits = std::numeric_limits<T>::digits;
  constexpr int kLeast = std::numeric_limits<T>::min_exponent - kDigits;
  std::mt19937_64 random(seed());
  const auto make = [&](int low, int high) {
    const T mantissa = static_cast<T>(static_cast<int>(random() % 63) - 31);
    return std::ldexp(mantissa,
                      low + static_cast<int>(random() % static_cast<unsigned>(high - low)));
  };
  for (int i = 0; i < 300'000; ++i) {
    expect_fma(make(-8, 8), make(-8, 8), make(-kDigits - 16, kDigits + 16));
    expect_fma(make(kLeast / 2 - 8, kLeast / 2 + 8), make(kLeast / 2 - 8, kLeast / 2 + 8),
               make(kLeast, kLeast + kDigits + 8));
    if (this->HasFatalFailure()) return;
  }
}

/// Value of a half from its fields, in double: exact.
double half_value(std::uint16_t h) {
  const int exponent = (h >> 10) & 31;
  const double fraction = h & 0x3ff;
  double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) magnitude = fraction == 0 ? HUGE_VAL : std::nan("");
  return (h & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Half, WidensEveryValueExactly) {
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const F16 half{static_cast<std::uint16_t>(h)};
    const double expected = half_value(half.bits);
    const float got = widen(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << std::hex << h;
    } else {
      ASSERT_EQ(bits(static_cast<double>(got)), bits(expected)) << std::hex << h;
    }
  }
}

// Around every boundary between two halves: below, on and above the midpoint.
TEST(Half, RoundsToNearestEven) {
  for (std::uint32_t h = 0; h < 0x7c00; ++h) {
    const auto low = static_cast<std::uint16_t>(h);
    const auto high = static_cast<std::uint16_t>(h + 1);  // 0x7c00, infinity, stands for 2^16 here
    const double above = high == 0x7c00 ? 65536.0 : half_value(high);
    const auto middle = static_cast<float>((half_value(low) + above) / 2);  // exact in float
    const float below_middle = std::nextafter(middle, 0.0F);
    const float above_middle = std::nextafter(middle, HUGE_VALF);
    for (const std::uint16_t sign : {std::uint16_t{0}, std::uint16_t{0x8000}}) {
      const float s = sign != 0 ? -1.0F : 1.0F;
      ASSERT_EQ(round_to_f16(s * widen(F16{low})).bits, sign | low);
      ASSERT_EQ(round_to_f16(s * below_middle).bits, sign | low) << std::hex << h;
      ASSERT_EQ(round_to_f16(s * middle).bits, sign | ((h & 1) == 0 ? low : high)) << std::hex << h;
      ASSERT_EQ(round_to_f16(s * above_middle).bits, sign | high) << std::hex << h;
    }
  }
  EXPECT_EQ(round_to_f16(FLT_MAX).bits, 0x7c00);
  EXPECT_EQ(round_to_f16(-HUGE_VALF).bits, 0xfc00);
  EXPECT_EQ(round_to_f16(-std::nanf("")).bits, kNanF16);
  EXPECT_EQ(round_to_f16(bits_as<float>(0x7f800001U)).bits, kNanF16);
}

TEST(BFloat16, RoundsToNearestEven) {
  for (std::uint32_t h = 0; h < 0x7f80; ++h) {
    const std::uint32_t wide = h << 16;
    ASSERT_EQ(round_to_bf16(bits_as<float>(wide)).bits, h);
    ASSERT_EQ(round_to_bf16(bits_as<float>(wide | 0x7fffU)).bits, h);
    ASSERT_EQ(round_to_bf16(bits_as<float>(wide | 0x8000U)).bits, h + (h & 1U));
    ASSERT_EQ(round_to_bf16(bits_as<float>(wide | 0x80008001U)).bits, 0x8000U | (h + 1U));
  }
  EXPECT_EQ(round_to_bf16(FLT_MAX).bits, 0x7f80);
  EXPECT_EQ(round_to_bf16(bits_as<float>(0xff800001U)).bits, kNanBF16);
  EXPECT_EQ(bits(widen(BF16{0x8001})), 0x80010000U);
}

// Both ways to compute a chunk are in one program: they must agree, or CPUs would differ.
TEST(CanonicalDot, SoftwareAndHardwareGiveTheSameBits) {
#if GOBLIN_NUMERICS_CHOOSES_FMA
  if (!__builtin_cpu_supports("fma")) GTEST_SKIP() << "this CPU has no fma instruction";
  std::mt19937_64 random(seed());
  std::uniform_real_distribution<double> plain(-1, 1);
  for (int round = 0; round < 200; ++round) {
    float a[700];
    float b[700];
    double c[700];
    double d[700];
    const double scale = round % 2 == 0 ? 1 : 0x1p-520;
    for (int i = 0; i < 700; ++i) {
      a[i] = static_cast<float>(plain(random) * (round % 2 == 0 ? 1 : 0x1p-68));
      b[i] = static_cast<float>(plain(random) * (round % 2 == 0 ? 1 : 0x1p-68));
      c[i] = plain(random) * scale;
      d[i] = plain(random) * scale;
    }
    const auto at = [](const void* p) { return static_cast<const char*>(p); };
    EXPECT_EQ(bits(detail::chunk_sum<false, float>(at(a), 4, at(b), 4, 700)),
              bits(canonical_chunk<float>(a, 4, b, 4, 700)));
    EXPECT_EQ(bits(detail::chunk_sum<false, double>(at(c), 8, at(d), 8, 700)),
              bits(canonical_chunk<double>(c, 8, d, 8, 700)));
  }
#else
  GTEST_SKIP() << "this architecture always has the instruction";
#endif
}

TEST(CanonicalDot, BlocksStartFromPlusZeroAndChunksFromTheirFirstBlock) {
  // A block whose only nonzero term underflows to −0 shows where sums start.
  const float tiny[2] = {-0x1p-100F, 0x1p-100F};
  EXPECT_EQ(bits_as<std::uint32_t>(canonical_dot<float>(&tiny[0], 0, &tiny[1], 0, 1)), 0x80000000U);
  EXPECT_EQ(bits_as<std::uint32_t>(canonical_dot<float>(&tiny[0], 0, &tiny[1], 0, 300)),
            0x80000000U);
  EXPECT_EQ(bits_as<std::uint32_t>(canonical_dot<float>(&tiny[0], 0, &tiny[1], 0, 0)), 0U);
}

TEST(CanonicalDot, TypesThatAreNotFloat) {
  const std::int8_t i8[2] = {-128, 127};
  EXPECT_EQ((canonical_dot<std::int8_t, std::int32_t>(i8, 0, i8, 0, 5)), 5 * 16384);
  EXPECT_EQ((canonical_dot<std::int8_t>(i8, 1, i8, 1, 2)), static_cast<std::int8_t>(16384 + 16129));
  const bool truth[3] = {true, false, true};
  EXPECT_FALSE((canonical_dot<bool>(truth, 1, truth + 2, -1, 0)));
  EXPECT_TRUE((canonical_dot<bool>(truth, 1, truth + 2, -1, 3)));
  EXPECT_FALSE((canonical_dot<bool>(truth, 1, truth + 1, 1, 2)));
  // 2048 + 1 + 1 in float, rounded once: adding in halves would stay at 2048.
  const F16 many[3] = {round_to_f16(2048), round_to_f16(1), round_to_f16(1)};
  const F16 one = round_to_f16(1);
  EXPECT_EQ((canonical_dot<F16>(many, 2, &one, 0, 3)).bits, round_to_f16(2050).bits);
  EXPECT_EQ((canonical_dot<F16, float>(many, 2, &one, 0, 2)), 2049.0F);
}

}  // namespace
}  // namespace goblin::numerics
