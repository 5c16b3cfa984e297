// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "plugins/matmul/check.hpp"

#include <cmath>
#include <ctime>
#include <functional>

#include "plugins/matmul/recompute.hpp"
#include "tests/plugins/matmul/work.hpp"

namespace goblin::matmul::test {
namespace {

TEST(Honest, NeverRejectedNorAbstained) {
  std::mt19937_64 random(1);
  const goblin_dtype_v1 types[] = {GOBLIN_F32,  GOBLIN_F64, GOBLIN_F16, GOBLIN_BF16, GOBLIN_C64,
                                   GOBLIN_C128, GOBLIN_I8,  GOBLIN_U8,  GOBLIN_I16,  GOBLIN_U16,
                                   GOBLIN_I32,  GOBLIN_U32, GOBLIN_I64, GOBLIN_U64};
  const Data kinds[] = {Data::kNormal,     Data::kUniform,  Data::kHeavy,
                        Data::kCancelling, Data::kConstant, Data::kSmallIntegers};
  int abstained = 0;
  int checked = 0;
  for (int round = 0; round < 15; ++round) {
    for (const goblin_dtype_v1 type : types) {
      for (const Data data : kinds) {
        if (type >= GOBLIN_I8 && type <= GOBLIN_U64 && data != Data::kNormal) continue;
        // Overflows everywhere: infinities can only be recomputed.
        if (type == GOBLIN_F16 && data == Data::kCancelling) continue;
        const auto extent = [&](std::uint64_t most) {
          return static_cast<std::int64_t>(100 + random() % most);
        };
        const Work work(type, extent(120), extent(300), extent(600), data, random);
        const Verdict verdict = work.check(random);
        ASSERT_NE(verdict, Verdict::kReject)
            << dtype_name(type) << " data " << static_cast<int>(data);
        ++checked;
        abstained += verdict == Verdict::kAbstain ? 1 : 0;
      }
    }
  }
  // Data whose rounding errors all have one sign may exceed every bound; then nobody is accused.
  EXPECT_LE(abstained, checked / 200);
}

TEST(Honest, LongSumsStridedOperandsAndOtherResultTypes) {
  std::mt19937_64 random(2);
  for (const Data data : {Data::kNormal, Data::kUniform, Data::kConstant, Data::kHeavy}) {
    for (const goblin_dtype_v1 type : {GOBLIN_F32, GOBLIN_BF16, GOBLIN_C64, GOBLIN_F64}) {
      Work work(type, 160, 180, 9000, data, random);
      EXPECT_EQ(work.check(random), Verdict::kAccept) << static_cast<int>(data);
      // The same through transposed windows.
      const Array at = filled(type, {9000, 160}, data, random);
      const Array bt = filled(type, {180, 9000}, data, random);
      Lab lab(transposed(at.tensor, {1, 0}), transposed(bt.tensor, {1, 0}), capacity(46));
      std::vector<PlannedTask> tasks;
      ASSERT_TRUE(lab.next(capacity(46), 1000, tasks));
      for (const PlannedTask& task : tasks) {
        EXPECT_EQ(lab.check(lab.compute(task, cpu()), cpu(), 77), Verdict::kAccept);
      }
    }
  }
  for (const auto& [in, out] : {std::pair<goblin_dtype_v1, std::int64_t>{GOBLIN_F16, GOBLIN_F32},
                                {GOBLIN_BF16, GOBLIN_F32},
                                {GOBLIN_I8, GOBLIN_I8}}) {
    const Work work(in, 200, 210, 300, Data::kNormal, random, out);
    EXPECT_EQ(work.check(random), Verdict::kAccept);
  }
}

// From 2048 columns on, blocks of 512 columns and as many lanes: other loops than below.
TEST(Honest, WideProductsOfEveryBlockCount) {
  std::mt19937_64 random(14);
  for (const std::int64_t n : {2047, 2048, 2065, 2700, 4099}) {
    for (const goblin_dtype_v1 type : {GOBLIN_F32, GOBLIN_F64, GOBLIN_C64}) {
      for (const Data data : {Data::kNormal, Data::kUniform, Data::kCancelling, Data::kConstant}) {
        Work work(type, 131, n, 517, data, random);
        EXPECT_EQ(work.check(random), Verdict::kAccept)
            << dtype_name(type) << " n " << n << " data " << static_cast<int>(data);
        if (type != GOBLIN_F32 || data == Data::kConstant) continue;
        // Well above the bound of a block, in any column.
        float& element = work.c32()[random() % static_cast<std::uint64_t>(131 * n)];
        element += data == Data::kCancelling ? 1e5F : 1;
        // One draw misses an error e with a chance of about T / e, T the bound.
        int rejected = 0;
        for (int draw = 0; draw < 8; ++draw) rejected += work.check(random) == Verdict::kReject;
        EXPECT_GE(rejected, 4) << " n " << n << " data " << static_cast<int>(data);
      }
    }
  }
}

TEST(Honest, NonFiniteAndHugeInputs) {
  std::mt19937_64 random(3);
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY, 3e38F, 1e30F, 1e-42F}) {
    for (int where = 0; where < 3; ++where) {
      Work work(GOBLIN_F32, 200, 300, 400, Data::kNormal, random);
      if (where != 1) work.a.tensor.data<float>()[17 * 400 + 5] = bad;
      if (where != 0) work.b.tensor.data<float>()[33 * 300 + 250] = bad;
      work.honest();
      EXPECT_EQ(work.check(random), Verdict::kAccept) << bad << " at " << where;
      // A wrong element in another row and column is found all the same, and so is one in theirs.
      for (const auto& [i, j] : {std::pair{100, 20}, {17, 20}, {100, 250}}) {
        Work wrong = work;
        wrong.honest();
        float& element = wrong.c32()[i * 300 + j];
        element = std::isfinite(element) ? element * 2 + 1e38F : 1;
        EXPECT_NE(wrong.check(random), Verdict::kAccept) << bad << " " << where << " " << i;
      }
    }
  }
  // Everything is NaN: not worth the proof; somebody else computes it.
  Work all(GOBLIN_F32, 300, 300, 400, Data::kNormal, random);
  for (std::int64_t i = 0; i < all.a.tensor.size(); ++i) all.a.tensor.data<float>()[i] = NAN;
  all.honest();
  EXPECT_EQ(all.check(random), Verdict::kAbstain);
  // Results that overflow where inputs do not.
  Work big(GOBLIN_F16, 200, 200, 300, Data::kNormal, random);
  for (std::int64_t i = 0; i < 300; ++i) {
    big.a.tensor.data<std::uint16_t>()[9 * 300 + i] = 0x7800;  // 32768
    big.b.tensor.data<std::uint16_t>()[i * 200 + 11] = 0x4400;
  }
  big.honest();
  EXPECT_NE(big.check(random), Verdict::kReject);
}

struct Attack {
  const char* name;
  std::function<void(Work&, std::mt19937_64&)> apply;
};

const Attack kAttacks[] = {
    {"one element, twice the bound",
     [](Work& w, std::mt19937_64& random) {
       const std::int64_t i = static_cast<std::int64_t>(random() % 220);
       const std::int64_t j = static_cast<std::int64_t>(random() % 260);
       double a = 0, b = 0;
       for (std::int64_t p = 0; p < 700; ++p) {
         a += std::pow(w.a.tensor.data<float>()[i * 700 + p], 2);
         for (std::int64_t q = 0; q < 260; ++q) {
           b += std::pow(w.b.tensor.data<float>()[p * 260 + q], 2);
         }
       }
       // Of the whole B's norm, which is more than any block's.
       w.c32()[i * 260 + j] +=
           static_cast<float>(2 * 32 * 1.53 * 0x1p-24 * std::sqrt(a) * std::sqrt(b));
     }},
    {"one element, hugely",
     [](Work& w, std::mt19937_64& random) { w.c32()[random() % (220 * 260)] += 1e6F; }},
    {"one NaN", [](Work& w, std::mt19937_64& random) { w.c32()[random() % (220 * 260)] = NAN; }},
    {"one infinity",
     [](Work& w, std::mt19937_64& random) { w.c32()[random() % (220 * 260)] = INFINITY; }},
    {"all NaN", [](Work& w, std::mt19937_64&) { std::fill_n(w.c32(), 220 * 260, std::nanf("")); }},
    {"zeros", [](Work& w, std::mt19937_64&) { std::fill_n(w.c32(), 220 * 260, 0.0F); }},
    {"a constant", [](Work& w, std::mt19937_64&) { std::fill_n(w.c32(), 220 * 260, 1.5F); }},
    {"negated",
     [](Work& w, std::mt19937_64&) {
       for (int i = 0; i < 220 * 260; ++i) w.c32()[i] = -w.c32()[i];
     }},
    {"relative 1e-5",
     [](Work& w, std::mt19937_64&) {
       for (int i = 0; i < 220 * 260; ++i) w.c32()[i] *= 1 + 1e-5F;
     }},
    {"every element one ulp",
     [](Work& w, std::mt19937_64&) {
       for (int i = 0; i < 220 * 260; ++i) w.c32()[i] = std::nextafter(w.c32()[i], INFINITY);
     }},
    {"bias just under the bound",
     [](Work& w, std::mt19937_64&) {
       for (int i = 0; i < 220 * 260; ++i) w.c32()[i] += 1e-5F;
     }},
    {"a row swapped with the next",
     [](Work& w, std::mt19937_64&) {
       std::swap_ranges(w.c32() + 50 * 260, w.c32() + 51 * 260, w.c32() + 51 * 260);
     }},
    {"two columns swapped",
     [](Work& w, std::mt19937_64&) {
       for (int i = 0; i < 220; ++i) std::swap(w.c32()[i * 260 + 7], w.c32()[i * 260 + 8]);
     }},
    {"low rank, zero row and column sums",
     [](Work& w, std::mt19937_64& random) {
       const std::size_t i = random() % 219, j = random() % 259;
       w.c32()[i * 260 + j] += 1, w.c32()[i * 260 + j + 1] -= 1;
       w.c32()[(i + 1) * 260 + j] -= 1, w.c32()[(i + 1) * 260 + j + 1] += 1;
     }},
    {"last block of k dropped",
     [](Work& w, std::mt19937_64&) {
       Work part = w;
       part.a = Array({GOBLIN_F32, {220, 700}});
       std::memcpy(part.a.tensor.bytes(), w.a.tensor.bytes(), w.a.tensor.size_bytes());
       for (int i = 0; i < 220; ++i) {
         for (int p = 512; p < 700; ++p) part.a.tensor.data<float>()[i * 700 + p] = 0;
       }
       std::memcpy(w.c.tensor.bytes(),
                   whole_product(part.a.tensor, w.b.tensor, 0, cpu()).tensor.bytes(),
                   w.c.tensor.size_bytes());
     }},
    {"bf16 inputs",
     [](Work& w, std::mt19937_64&) {
       auto rounded = [](const Array& from) {
         Array to(from.tensor.spec());
         for (std::int64_t i = 0; i < from.tensor.size(); ++i) {
           to.tensor.data<float>()[i] =
               numerics::widen(numerics::round_to_bf16(from.tensor.data<float>()[i]));
         }
         return to;
       };
       std::memcpy(w.c.tensor.bytes(),
                   whole_product(rounded(w.a).tensor, rounded(w.b).tensor, 0, cpu()).tensor.bytes(),
                   w.c.tensor.size_bytes());
     }},
    {"TF32 inputs",
     [](Work& w, std::mt19937_64&) {
       auto rounded = [](const Array& from) {
         Array to(from.tensor.spec());
         for (std::int64_t i = 0; i < from.tensor.size(); ++i) {
           std::uint32_t bits = 0;
           std::memcpy(&bits, &from.tensor.data<float>()[i], 4);
           bits = (bits + 0x1000U) & 0xffffe000U;
           std::memcpy(&to.tensor.data<float>()[i], &bits, 4);
         }
         return to;
       };
       std::memcpy(w.c.tensor.bytes(),
                   whole_product(rounded(w.a).tensor, rounded(w.b).tensor, 0, cpu()).tensor.bytes(),
                   w.c.tensor.size_bytes());
     }},
    {"accumulated in another order",
     [](Work& w, std::mt19937_64&) {
       for (int i = 0; i < 220; ++i) {
         for (int j = 0; j < 260; ++j) {
           float sum = 0;
           for (int p = 0; p < 700; ++p) {
             sum += w.a.tensor.data<float>()[i * 700 + p] * w.b.tensor.data<float>()[p * 260 + j];
           }
           w.c32()[i * 260 + j] = sum;
         }
       }
     }},
    {"another task's result",
     [](Work& w, std::mt19937_64& random) {
       const Work other(GOBLIN_F32, 220, 260, 700, Data::kNormal, random);
       std::memcpy(w.c.tensor.bytes(), other.c.tensor.bytes(), w.c.tensor.size_bytes());
     }},
};

TEST(Attacks, AreRejected) {
  std::mt19937_64 random(4);
  for (const Attack& attack : kAttacks) {
    for (const Data data : {Data::kNormal, Data::kUniform}) {
      for (int round = 0; round < 3; ++round) {
        Work work(GOBLIN_F32, 220, 260, 700, data, random);
        attack.apply(work, random);
        EXPECT_EQ(work.check(random), Verdict::kReject)
            << attack.name << ", data " << static_cast<int>(data);
      }
    }
  }
}

TEST(Attacks, MinusZeroAndNanPayloads) {
  std::mt19937_64 random(5);
  Work work(GOBLIN_F32, 220, 260, 700, Data::kNormal, random);
  std::memset(work.a.tensor.bytes(), 0, work.a.tensor.size_bytes());
  work.honest();
  EXPECT_EQ(work.check(random), Verdict::kAccept);
  std::fill_n(work.c32(), 220 * 260, -0.0F);
  EXPECT_EQ(work.check(random), Verdict::kReject);
  for (int p = 0; p < 700; ++p) work.a.tensor.data<float>()[3 * 700 + p] = NAN;
  work.honest();
  EXPECT_EQ(work.check(random), Verdict::kAccept);
  const std::uint32_t payload = 0x7fc00001U;
  std::memcpy(&work.c32()[3 * 260 + 19], &payload, 4);
  EXPECT_EQ(work.check(random), Verdict::kReject);
}

// One ulp in one element of many is below every bound: it is found with probability
// 1 − (1 − 1/mn)^256, and the documents say so.
TEST(Attacks, OneUlpIsFoundAsOftenAsSamplingSays) {
  std::mt19937_64 random(6);
  Work work(GOBLIN_F32, 100, 100, 128, Data::kNormal, random);
  float& element = work.c32()[4321];
  element = std::nextafter(element, INFINITY);
  int found = 0;
  constexpr int kTries = 400;
  for (int i = 0; i < kTries; ++i) found += work.check(random) == Verdict::kReject ? 1 : 0;
  const double expected = kTries * (1 - std::pow(1 - 1e-4, 256));
  EXPECT_NEAR(found, expected, 5 * std::sqrt(expected));
}

TEST(Attacks, InflatedNormsHideOnlyWithinTheirBlock) {
  std::mt19937_64 random(7);
  Work work(GOBLIN_F32, 200, 600, 400, Data::kNormal, random);
  work.b.tensor.data<float>()[100 * 600 + 3] = 1e30F;
  work.honest();
  EXPECT_EQ(work.check(random), Verdict::kAccept);
  work.c32()[50 * 600 + 500] += 1;
  EXPECT_EQ(work.check(random), Verdict::kReject);
}

TEST(Attacks, OtherTypes) {
  std::mt19937_64 random(8);
  for (const goblin_dtype_v1 type : {GOBLIN_F64, GOBLIN_C64, GOBLIN_C128}) {
    Work work(type, 150, 200, 300, Data::kNormal, random);
    const std::size_t part = type == GOBLIN_C64 ? 4 : 8;
    const std::size_t at = part * (random() % (150 * 200));
    if (part == 4) {
      *reinterpret_cast<float*>(work.c.tensor.bytes() + at) += 0.5F;
    } else {
      *reinterpret_cast<double*>(work.c.tensor.bytes() + at) += 1e-6;
    }
    EXPECT_EQ(work.check(random), Verdict::kReject) << dtype_name(type);
  }
  for (const goblin_dtype_v1 type : {GOBLIN_F16, GOBLIN_BF16}) {
    Work work(type, 150, 200, 300, Data::kNormal, random);
    std::memset(work.c.tensor.bytes() + 2 * 5000, 0, 2 * 200);
    EXPECT_EQ(work.check(random), Verdict::kReject);
  }
  for (const goblin_dtype_v1 type : {GOBLIN_I8, GOBLIN_U8, GOBLIN_I16, GOBLIN_U16, GOBLIN_I32,
                                     GOBLIN_U32, GOBLIN_I64, GOBLIN_U64}) {
    for (int round = 0; round < 20; ++round) {
      Work work(type, 150, 200, 300, Data::kNormal, random);
      // The top bit of one element: the hardest to see in a ring.
      const std::size_t item = work.c.tensor.item_size();
      const std::size_t at = random() % (150 * 200);
      work.c.tensor.bytes()[item * at + item - 1] ^= std::byte{0x80};
      EXPECT_EQ(work.check(random), Verdict::kReject) << dtype_name(type);
    }
  }
}

TEST(Check, SmallAndThinProductsAreRecomputedToTheBit) {
  std::mt19937_64 random(9);
  for (const goblin_dtype_v1 type : {GOBLIN_F32, GOBLIN_BOOL, GOBLIN_I8, GOBLIN_C128}) {
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                  {60, 70, 80},
                                  {1, 2000, 3000},
                                  {2000, 1, 3000},
                                  {900, 1000, 3}}) {
      Work work(type, m, n, k, Data::kNormal, random);
      EXPECT_EQ(work.check(random), Verdict::kAccept);
      work.c.tensor.bytes()[work.c.tensor.size_bytes() / 2] ^= std::byte{1};
      EXPECT_EQ(work.check(random), Verdict::kReject);
    }
  }
}

TEST(Check, BoolAbstains) {
  std::mt19937_64 random(10);
  const Work work(GOBLIN_BOOL, 200, 200, 200, Data::kNormal, random);
  EXPECT_EQ(work.check(random), Verdict::kAbstain);
}

TEST(Check, ChaChaIsTheStandardStream) {
  // RFC 8439, appendix A.1, test vector 1: zero key, nonce and counter.
  std::array<std::uint8_t, 32> key{};
  ChaCha zero{std::span<const std::uint8_t, 32>(key)};
  EXPECT_EQ(zero.next(), 0x903df1a0ade0b876U);
  EXPECT_EQ(zero.next(), 0x28bd8653e56a5d40U);
  ChaCha other{std::span<const std::uint8_t, 32>(key), 1};
  EXPECT_NE(other.next(), 0x903df1a0ade0b876U);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LT(zero.below(7), 7U);
    const double r = std::fabs(zero.signed_unit());
    EXPECT_GE(r, 1);
    EXPECT_LT(r, 2);
  }
}

// Not a test of speed, which other work on this machine decides; prints what docs/matmul.md quotes.
TEST(Check, CostBesideTheProduct) {
  std::mt19937_64 random(13);
  // Processor time, best of a few: others may use the machine.
  auto best_of = [](auto&& work) {
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      const std::clock_t start = std::clock();
      work();
      best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    return best;
  };
  for (const goblin_dtype_v1 type : {GOBLIN_F32, GOBLIN_F64, GOBLIN_BF16}) {
    for (const std::int64_t n : {512, 1024, 2048}) {
      Work work(type, n, n, n, Data::kUniform, random);
      const double product = best_of([&] { work.honest(); });
      const double check = best_of([&] { EXPECT_EQ(work.check(random), Verdict::kAccept); });
      EXPECT_LT(check, product);
      std::printf("%s n = %4lld: product %.1f ms, check %.2f ms, %.2f %%\n",
                  std::string(dtype_name(type)).c_str(), static_cast<long long>(n), product * 1e3,
                  check * 1e3, 100 * check / product);
    }
  }
}

}  // namespace
}  // namespace goblin::matmul::test
