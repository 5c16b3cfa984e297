// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// How often does the check let a wrong result pass? Every lie of tests/testing/lies is told many
// times, each time to a fresh secret seed, and the passes are held against what docs/matmul.md
// states. A right check fails a run of this program with probability 1e-6 at most.
//
//   matmul_attacks_test --trials 100000     the long form; GOBLIN_TEST_SEED=N repeats a run
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <string>

#include "plugins/matmul/chacha.hpp"
#include "tests/plugins/matmul/work.hpp"
#include "tests/testing/binomial.hpp"
#include "tests/testing/lies/bound.hpp"
#include "tests/testing/lies/elements.hpp"
#include "tests/testing/lies/lies.hpp"
#include "tests/testing/seed.hpp"

namespace goblin::matmul::test {
namespace {

using goblin::test::at_least;
using goblin::test::at_most;
using testing::bound_at;
using testing::column_blocks;
using testing::element;
using testing::set_element;

std::int64_t trials = 1000;  // of every case; of those that say little new, a fifth
// Of one run, shared among fewer than 150 comparisons.
constexpr double kFalseAlarm = 1e-6 / 150;

std::mt19937_64& random_numbers() {
  static std::mt19937_64 random = [] {
    std::printf("GOBLIN_TEST_SEED=%llu\n",
                static_cast<unsigned long long>(goblin::test::drawn_seed()));
    return std::mt19937_64(goblin::test::drawn_seed());
  }();
  return random;
}

// What docs/matmul.md says of a lie.
enum class Stated {
  kNever,      ///< it never passes, and the host is refused by proof
  kSampling,   ///< only the exact entries see it: it passes with (1 − φ)^256
  kAtMost,     ///< with (1 − φ)^256 at most
  kCancelling  ///< with that times 2T/|e|, its largest error e and the bound T, at most
};

struct Case {
  std::string name;
  std::function<Work(std::mt19937_64&)> make;
  std::function<void(const Work&, std::mt19937_64&)> tell;
  Stated stated;
  std::int64_t share = 1;  ///< of the trials: one in …
};

double kappa_of_data = testing::kLeastKappa;  // of the honest result, as an attacker may know it

std::function<void(const Work&, std::mt19937_64&)> lie(const char* name) {
  const testing::Lie* const found = testing::find_lie(name);
  if (found == nullptr) throw std::runtime_error(name);
  return [found](const Work& work, std::mt19937_64& random) {
    const Product product = work.product();
    testing::Scene scene{product, random, {}, kappa_of_data};
    found->tell(scene);
  };
}

struct Share {
  std::int64_t wrong = 0, all = 0;
  double widest = 0;  ///< largest error over its bound
};

/// `bound`: of the honest result, by row and block of columns; empty where it is not asked for.
Share share_of(const Work& work, const Work& honest,
               const std::vector<std::vector<double>>& bound) {
  Share share;
  const std::size_t item = work.c.tensor.item_size();
  const std::vector<std::int64_t> begins = column_blocks(honest.product());
  share.all = work.c.tensor.size();
  for (std::int64_t at = 0; at < share.all; ++at) {
    const std::size_t byte = static_cast<std::size_t>(at) * item;
    if (std::memcmp(work.c.tensor.bytes() + byte, honest.c.tensor.bytes() + byte, item) == 0) {
      continue;
    }
    ++share.wrong;
    if (bound.empty()) continue;
    const std::int64_t i = at / work.c.tensor.dim(1);
    const std::int64_t j = at % work.c.tensor.dim(1);
    const double error = std::fabs(element(work.c.tensor, i, j) - element(honest.c.tensor, i, j));
    const double allowed = bound[static_cast<std::size_t>(i)][testing::block_of(begins, j)];
    share.widest = std::max(share.widest, error / allowed);
  }
  return share;
}

void hold(const Case& c) {
  constexpr std::int64_t kPerData = 100;  // drawing the data costs more than a check
  std::mt19937_64& random = random_numbers();
  const std::int64_t count = std::max<std::int64_t>(trials / c.share, 1);
  std::int64_t passed = 0;
  std::int64_t abstained = 0;
  double stated = 0;
  for (std::int64_t done = 0; done < count;) {
    Work work = c.make(random);
    ASSERT_NE(work.check(random), Verdict::kReject) << c.name << ": an honest result is refused";
    const Work honest(work.a, work.b);
    std::vector<std::vector<double>> bound;
    if (c.stated == Stated::kCancelling) bound = testing::bounds(honest.product());
    const bool real = testing::is_float(honest.c.tensor.dtype());
    kappa_of_data = real ? testing::largest_kappa(honest.product()) : testing::kLeastKappa;
    for (std::int64_t i = 0; i < kPerData && done < count; ++i, ++done) {
      std::memcpy(work.c.tensor.bytes(), honest.c.tensor.bytes(), work.c.tensor.size_bytes());
      c.tell(work, random);
      const Share share = share_of(work, honest, bound);
      ASSERT_GT(share.wrong, 0) << c.name << ": no lie";
      const double wrong = static_cast<double>(share.wrong) / static_cast<double>(share.all);
      const double missed = std::pow(1 - wrong, 256);
      const double tolerated = kappa_of_data / testing::kLeastKappa;
      if (c.stated == Stated::kSampling || c.stated == Stated::kAtMost) stated += missed;
      if (c.stated == Stated::kCancelling) {
        stated += missed * std::min(1.0, 2 * tolerated / share.widest);
      }
      const Verdict verdict = work.check(random);
      passed += verdict == Verdict::kAccept ? 1 : 0;
      abstained += verdict == Verdict::kAbstain ? 1 : 0;
    }
  }
  const double p = stated / static_cast<double>(count);
  std::printf("%-32s %6lld of %lld pass, stated %.4g; %lld abstain\n", c.name.c_str(),
              static_cast<long long>(passed), static_cast<long long>(count), p,
              static_cast<long long>(abstained));
  EXPECT_GE(at_least(passed, count, p), kFalseAlarm) << c.name << " passes too often";
  if (c.stated == Stated::kSampling) {
    EXPECT_GE(at_most(passed, count, p), kFalseAlarm) << c.name << ": the page says too little";
  }
  if (c.stated == Stated::kNever) {
    EXPECT_EQ(abstained, 0) << c.name << " is not proven wrong";
  }
}

/// A tile that Freivalds' check takes, not a recomputation: as small as possible, two blocks of k.
constexpr std::int64_t kSide = 96;
constexpr std::int64_t kDepth = 288;

std::function<Work(std::mt19937_64&)> drawn(goblin_dtype_v1 dtype, Data data,
                                            std::int64_t out = 0) {
  return
      [=](std::mt19937_64& random) { return Work(dtype, kSide, kSide, kDepth, data, random, out); };
}

/// f32, normal, changed by `change`.
std::function<Work(std::mt19937_64&)> changed(
    const std::function<void(float* a, float* b, std::mt19937_64&)>& change) {
  return [change](std::mt19937_64& random) {
    Work work(GOBLIN_F32, kSide, kSide, kDepth, Data::kNormal, random);
    change(work.a.tensor.data<float>(), work.b.tensor.data<float>(), random);
    work.honest();
    return work;
  };
}

std::int64_t any(std::mt19937_64& random, std::int64_t below) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(below));
}

// ---- 1 to 15: lies about products of f32

class Lies : public ::testing::TestWithParam<Case> {};
TEST_P(Lies, PassNoOftenerThanThePageSays) { hold(GetParam()); }

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const char* name, Stated stated, std::int64_t share = 1) {
    for (const auto& [data, word] : {std::pair{Data::kNormal, ""}, {Data::kUniform, ", uniform"}}) {
      all.push_back({std::string(name) + word, drawn(GOBLIN_F32, data), lie(name), stated,
                     data == Data::kNormal ? share : 5});
    }
  };
  add("ulp", Stated::kSampling);
  for (const char* name :
       {"twice-bound", "huge", "low-rank", "nan", "infinity", "tf32", "bias", "bias-below-bound"}) {
    add(name, Stated::kNever);
  }
  for (const char* name : {"bf16", "fp8", "other-order", "drop-block", "zero-row", "transposed",
                           "permuted", "zeros", "constant", "noise"}) {
    add(name, Stated::kNever, 5);
  }
  add("corners", Stated::kCancelling);
  add("leaked-r", Stated::kCancelling);
  add("columns-swapped", Stated::kCancelling);
  add("few-below-bound", Stated::kAtMost);
  add("bit-flip", Stated::kAtMost);

  // 7: rows and columns of zeros, small numbers, NaN.
  all.push_back({"minus-zero", changed([](float* a, float*, std::mt19937_64& random) {
                   std::fill_n(a + any(random, kSide) * kDepth, kDepth, 0.0F);
                 }),
                 lie("minus-zero"), Stated::kSampling});
  all.push_back({"flushed", changed([](float* a, float*, std::mt19937_64& random) {
                   float* const row = a + any(random, kSide) * kDepth;
                   for (int p = 0; p < kDepth; ++p) row[p] *= 1e-40F;
                 }),
                 lie("flushed"), Stated::kAtMost});
  all.push_back({"nan-payload, a row", changed([](float* a, float*, std::mt19937_64& random) {
                   a[any(random, kSide * kDepth)] = NAN;
                 }),
                 lie("nan-payload"), Stated::kNever});
  all.push_back({"nan-payload, a column", changed([](float*, float* b, std::mt19937_64& random) {
                   b[any(random, kSide * kDepth)] = NAN;
                 }),
                 lie("nan-payload"), Stated::kNever});

  // 12: one value of 1e30 blinds the sums of its row, or of its block of columns.
  const auto beside = [](const Work& work, std::int64_t i, std::int64_t j) {
    set_element(work.c.tensor, i, j, element(work.c.tensor, i, j) + 3);
  };
  const auto row = changed([](float* a, float*, std::mt19937_64&) { a[17 * kDepth + 5] = 1e30F; });
  const auto block = changed([](float*, float* b, std::mt19937_64&) { b[5 * kSide + 17] = 1e30F; });
  all.push_back({"1e30 in A, another row", row,
                 [=](const Work& w, std::mt19937_64& r) { beside(w, 18, any(r, kSide)); },
                 Stated::kNever});
  all.push_back({"1e30 in B, another block", block,
                 [=](const Work& w, std::mt19937_64& r) { beside(w, any(r, kSide), 24); },
                 Stated::kNever});
  all.push_back({"1e30 in B, the same block", block,
                 [=](const Work& w, std::mt19937_64& r) { beside(w, any(r, kSide), 18); },
                 Stated::kSampling});
  // Rows of subnormal numbers round coarsely; that is no reason to let other rows be wrong.
  all.push_back(
      {"tiny rows, another row", changed([](float* a, float*, std::mt19937_64&) {
         for (int at = 0; at < kSide / 2 * kDepth; ++at) a[at] *= 1e-45F * 3;
       }),
       [=](const Work& w, std::mt19937_64& r) { beside(w, kSide / 2 + 3, any(r, kSide)); },
       Stated::kNever});

  // 13: results that are small beside the terms they are the sum of.
  all.push_back({"cancelling, other-order", drawn(GOBLIN_F32, Data::kCancelling),
                 lie("other-order"), Stated::kNever});
  all.push_back({"cancelling, zero-row",
                 [](std::mt19937_64& random) {
                   Array a = filled(GOBLIN_F32, {kSide, kDepth}, Data::kNormal, random);
                   Array b = filled(GOBLIN_F32, {kDepth, kSide}, Data::kNormal, random);
                   for (int i = 0; i < kSide; ++i) {  // terms come in pairs that all but cancel
                     float* const x = a.tensor.data<float>() + i * kDepth;
                     for (int p = 0; p < kDepth; p += 2) x[p + 1] = -x[p];
                   }
                   for (int p = 0; p < kDepth; p += 2) {
                     float* const y = b.tensor.data<float>() + p * kSide;
                     for (int j = 0; j < kSide; ++j) {
                       y[kSide + j] = std::nextafter(y[j], 4.0F);
                     }
                   }
                   return Work(std::move(a), std::move(b));
                 },
                 lie("zero-row"), Stated::kSampling});

  // 14: what was right for another task, 16: what colluders agree on, whatever it is.
  all.push_back({"another job's output", drawn(GOBLIN_F32, Data::kNormal),
                 [](const Work& w, std::mt19937_64& random) {
                   const Array other = filled(GOBLIN_F32, {kSide, kSide}, Data::kNormal, random);
                   std::memcpy(w.c.tensor.bytes(), other.tensor.bytes(), other.tensor.size_bytes());
                 },
                 Stated::kNever});
  // Wrong elements in every share.
  for (const std::int64_t wrong : {3, 30, 300}) {
    all.push_back({"ulp of " + std::to_string(wrong), drawn(GOBLIN_F32, Data::kNormal),
                   [=](const Work& w, std::mt19937_64& random) {
                     for (std::int64_t i = 0; i < wrong; ++i) {
                       w.c.tensor.bytes()[4 * any(random, kSide * kSide)] ^= std::byte{1};
                     }
                   },
                   Stated::kSampling});
  }
  // The other dtypes.
  for (const goblin_dtype_v1 type :
       {GOBLIN_F64, GOBLIN_F16, GOBLIN_BF16, GOBLIN_C64, GOBLIN_C128}) {
    for (const char* name : {"twice-bound", "huge", "zeros", "permuted"}) {
      all.push_back({std::string(dtype_name(type)) + ", " + name, drawn(type, Data::kNormal),
                     lie(name), Stated::kNever, 5});
    }
    all.push_back({std::string(dtype_name(type)) + ", ulp", drawn(type, Data::kNormal), lie("ulp"),
                   Stated::kSampling, 5});
  }
  for (const goblin_dtype_v1 type : {GOBLIN_I8, GOBLIN_U8, GOBLIN_I16, GOBLIN_U16, GOBLIN_I32,
                                     GOBLIN_U32, GOBLIN_I64, GOBLIN_U64}) {
    all.push_back({std::string(dtype_name(type)) + ", bit-flip", drawn(type, Data::kNormal),
                   lie("bit-flip"), Stated::kNever, 5});
    all.push_back({std::string(dtype_name(type)) + ", top bit", drawn(type, Data::kNormal),
                   [](const Work& w, std::mt19937_64& random) {
                     const auto item = static_cast<std::int64_t>(w.c.tensor.item_size());
                     w.c.tensor.bytes()[any(random, kSide * kSide) * item + item - 1] ^=
                         std::byte{0x80};
                   },
                   Stated::kNever, 5});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Told, Lies, ::testing::ValuesIn(cases()), [](const auto& tested) {
  std::string name = tested.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

// ---- 3 and 4: random vectors that somebody knows

// The control: were a seed known before the result is committed to, the sums would see nothing.
TEST(Seeds, AKnownSeedWouldLetAnErrorPass) {
  std::mt19937_64& random = random_numbers();
  const testing::Lie& leaked = *testing::find_lie("leaked-r");
  std::int64_t passed = 0;
  std::int64_t told = 0;
  while (told < trials) {
    Work work(GOBLIN_F32, kSide, kSide, kDepth, Data::kNormal, random);
    for (int i = 0; i < 40; ++i, ++told) {
      work.honest();
      const Product product = work.product();
      testing::Scene scene{product, random, seed_of(random)};
      leaked.tell(scene);
      passed += work.check(scene.leaked) == Verdict::kAccept ? 1 : 0;
    }
  }
  const double p = std::pow(1 - 2.0 / (kSide * kSide), 256);
  std::printf("known seed: %lld of %lld pass, expected %.4g\n", static_cast<long long>(passed),
              static_cast<long long>(told), p);
  EXPECT_GE(at_most(passed, told, p), kFalseAlarm) << "the test's own r is not the check's";
}

/// An attacker who asks again and again: errors in two columns cancel when their signs of r differ.
/// `reused`: every check draws the same r. Answers how many signs it learns rightly.
std::int64_t signs_recovered(bool reused, std::int64_t& asked) {
  std::mt19937_64& random = random_numbers();
  std::int64_t right = 0;
  asked = 0;
  for (std::int64_t round = 0; round < std::max<std::int64_t>(trials / 30, 20); ++round) {
    Work work(GOBLIN_F32, kSide, kSide, kDepth, Data::kNormal, random);
    const Work honest(work.a, work.b);
    const auto seed = seed_of(random);
    ChaCha stream{std::span<const std::uint8_t, 32>(seed)};
    for (int i = 0; i < 2 * 256; ++i) (void)stream.below(kSide);
    std::vector<double> r(kSide);
    for (double& x : r) x = stream.signed_unit();
    const std::int64_t width = column_blocks(work.product())[1];
    for (std::int64_t j = 1; j < width; ++j) {
      // |e·(r_0 + r_j)| is below e where the signs differ and above 2e where they do not.
      const std::int64_t row = any(random, kSide);
      const double error = bound_at(honest.product(), row, 0) * 0.75;
      std::memcpy(work.c.tensor.bytes(), honest.c.tensor.bytes(), work.c.tensor.size_bytes());
      set_element(work.c.tensor, row, 0, element(honest.c.tensor, row, 0) + error);
      set_element(work.c.tensor, row, j, element(honest.c.tensor, row, j) + error);
      const bool accepted = work.check(reused ? seed : seed_of(random)) == Verdict::kAccept;
      right += accepted == (r[0] * r[static_cast<std::size_t>(j)] < 0) ? 1 : 0;
      ++asked;
    }
  }
  return right;
}

TEST(Seeds, SignsAreRecoveredFromAReusedVectorOnly) {
  std::int64_t asked = 0;
  const std::int64_t reused = signs_recovered(true, asked);
  // All but those where one of the 256 exact entries is one of the two wrong ones.
  const double sampled = 1 - std::pow(1 - 2.0 / (kSide * kSide), 256);
  std::printf("reused r: %lld of %lld signs\n", static_cast<long long>(reused),
              static_cast<long long>(asked));
  EXPECT_GE(at_most(reused, asked, 1 - sampled), kFalseAlarm) << "the control fails";
  const std::int64_t fresh = signs_recovered(false, asked);
  std::printf("fresh r: %lld of %lld signs\n", static_cast<long long>(fresh),
              static_cast<long long>(asked));
  EXPECT_GE(at_least(fresh, asked, 0.5), kFalseAlarm) << "fresh vectors betray one another";
  EXPECT_GE(at_most(fresh, asked, 0.5), kFalseAlarm);
}

}  // namespace
}  // namespace goblin::matmul::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) != "--trials") {
      std::fprintf(stderr, "unknown option %s; --trials N is one\n", argv[i]);
      return 2;
    }
    goblin::matmul::test::trials = std::strtoll(argv[i + 1], nullptr, 10);
  }
  return RUN_ALL_TESTS();
}
