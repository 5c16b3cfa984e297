// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// No honest host is ever accused: products of all dtypes and of many kinds of data, computed at
// every instruction level of this processor with one thread and with two, are judged by checks that
// run at every level. All levels must give the same bits, and none of them may be refused.
//
//   matmul_honest_matrix_test --tiles 100000    the long form; GOBLIN_TEST_SEED=N repeats a run
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <map>

#include "plugins/matmul/check_kernels.hpp"
#include "tests/plugins/matmul/work.hpp"
#include "tests/testing/seed.hpp"

// The library's own choice of a level is replaced by the test's: these two stand before its
// archive.
namespace goblin::matmul {
namespace baseline {
extern const CheckKernels kKernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const CheckKernels kKernels;
}
namespace avx512 {
extern const CheckKernels kKernels;
}
#endif

namespace test {
const CheckKernels* chosen_kernels = &baseline::kKernels;
}

CheckLevels check_levels() {
  CheckLevels levels{};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v4")) levels.level[levels.count++] = &avx512::kKernels;
  if (__builtin_cpu_supports("x86-64-v3")) levels.level[levels.count++] = &avx2::kKernels;
#endif
  levels.level[levels.count++] = &baseline::kKernels;
  return levels;
}

const CheckKernels& check_kernels() { return *test::chosen_kernels; }

namespace test {
namespace {

std::int64_t tiles = 2400;

struct Kind {
  goblin_dtype_v1 in;
  std::int64_t out;  ///< 0: the default
};
constexpr Kind kKinds[] = {
    {GOBLIN_F32, 0}, {GOBLIN_F64, 0},  {GOBLIN_F16, 0},          {GOBLIN_BF16, 0},
    {GOBLIN_C64, 0}, {GOBLIN_C128, 0}, {GOBLIN_F16, GOBLIN_F32}, {GOBLIN_BF16, GOBLIN_F32},
    {GOBLIN_F32, 0}, {GOBLIN_F64, 0},  {GOBLIN_I8, 0},           {GOBLIN_U8, 0},
    {GOBLIN_I16, 0}, {GOBLIN_U16, 0},  {GOBLIN_I32, 0},          {GOBLIN_U32, 0},
    {GOBLIN_I64, 0}, {GOBLIN_U64, 0},  {GOBLIN_I8, GOBLIN_I8},   {GOBLIN_BOOL, 0}};

enum class Shape {
  kNormal,
  kUniform,
  kHeavy,
  kCancelling,
  kConstant,
  kIntegers,
  kSubnormal,
  kRowScales,
  kAnyScale,
  kSpecial,
  kZeros
};
constexpr const char* kShapeNames[] = {
    "zero mean", "uniform",     "heavy tails", "cancelling",       "constant",  "integers",
    "subnormal", "scaled rows", "all scales",  "NaN and infinity", "many zeros"};

/// Binary exponents whose numbers a dtype can hold.
int range_of(goblin_dtype_v1 dtype) {
  if (dtype == GOBLIN_F16) return 14;
  return dtype == GOBLIN_F64 || dtype == GOBLIN_C128 ? 1000 : 120;
}

class Source {
 public:
  explicit Source(std::mt19937_64& random) : random_(random) {}

  void fill(const Tensor& t, Shape shape) {
    const std::int64_t columns = t.dim(1);
    const int range = range_of(t.dtype());
    for (std::int64_t i = 0; i < t.dim(0); ++i) {
      const int scale = shape == Shape::kRowScales ? whole(-range / 2, range / 3) : 0;
      for (std::int64_t j = 0; j < columns; ++j) {
        put(t, i * columns + j, std::ldexp(number(shape, j, range), scale));
      }
    }
    // A few are enough: everything NaN says nothing.
    const int specials = shape == Shape::kSpecial ? whole(1, 3) : 0;
    const double list[] = {NAN, INFINITY, -INFINITY, 1e30, -0.0, 65504};
    for (int i = 0; i < specials; ++i) {
      put(t, whole(0, static_cast<int>(t.size()) - 1), list[whole(0, 5)]);
    }
  }

 private:
  int whole(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  double number(Shape shape, std::int64_t at, int range) {
    switch (shape) {
      case Shape::kUniform:
        return draw(Data::kUniform, random_, at);
      case Shape::kHeavy:
        return draw(Data::kHeavy, random_, at);
      case Shape::kCancelling:
        return draw(Data::kCancelling, random_, at) / (range == 14 ? 1000 : 1);
      case Shape::kConstant:
        return draw(Data::kConstant, random_, at);
      case Shape::kIntegers:
        return draw(Data::kSmallIntegers, random_, at);
      case Shape::kSubnormal:  // products that round at the smallest numbers, and below them
        return std::ldexp(draw(Data::kNormal, random_, at), -range / 2 - whole(4, 16));
      case Shape::kAnyScale:
        return std::ldexp(draw(Data::kNormal, random_, at), whole(-range / 3, range / 3));
      case Shape::kZeros:
        return whole(0, 3) == 0 ? draw(Data::kNormal, random_, at) : whole(0, 1) == 0 ? 0.0 : -0.0;
      default:
        return draw(Data::kNormal, random_, at);
    }
  }

  void put(const Tensor& t, std::int64_t at, double x) {
    std::byte* const to = t.bytes() + at * static_cast<std::int64_t>(t.item_size());
    auto store = [&](auto value) { std::memcpy(to, &value, sizeof value); };
    switch (t.dtype()) {
      case GOBLIN_F32:
        return store(static_cast<float>(x));
      case GOBLIN_F64:
        return store(x);
      case GOBLIN_F16:
        return store(numerics::round_to_f16(static_cast<float>(x)));
      case GOBLIN_BF16:
        return store(numerics::round_to_bf16(static_cast<float>(x)));
      case GOBLIN_C64:
        return store(std::complex<float>(static_cast<float>(x), static_cast<float>(other(x))));
      case GOBLIN_C128:
        return store(std::complex<double>(x, other(x)));
      case GOBLIN_BOOL:
        return store(static_cast<unsigned char>(random_() % 16 == 0));
      default: {
        const std::uint64_t bits = random_();
        std::memcpy(to, &bits, t.item_size());
      }
    }
  }
  /// An imaginary part of the same kind.
  double other(double x) { return whole(0, 1) == 0 ? x : -x; }

  std::mt19937_64& random_;
};

goblin_exec_v1 exec_of(std::uint64_t device, std::uint32_t threads) {
  goblin_exec_v1 exec = one_thread();
  exec.device = static_cast<std::uint32_t>(device);
  exec.threads = threads;
  return exec;
}

struct Tally {
  std::int64_t tiles = 0, accepted = 0, abstained = 0, of_bool = 0;
};

TEST(HonestMatrix, NobodyIsEverRefused) {
  std::printf("GOBLIN_TEST_SEED=%llu\n",
              static_cast<unsigned long long>(goblin::test::drawn_seed()));
  std::mt19937_64 random(goblin::test::drawn_seed());
  const CheckLevels levels = check_levels();
  const std::uint64_t devices = cpu().device_count(&cpu());
  std::map<std::string, Tally> by_data;
  Tally all;
  std::int64_t rejected = 0;
  MatmulKind kind;
  Source source(random);
  while (all.tiles < tiles) {
    const Kind& types = kKinds[random() % std::size(kKinds)];
    const auto shape = static_cast<Shape>(random() % std::size(kShapeNames));
    // Mostly just large enough for Freivalds; some that are recomputed whole, some with long sums
    // or wide.
    const std::uint64_t form = random() % 32;
    const auto extent = [&](std::uint64_t least, std::uint64_t more) {
      return static_cast<std::int64_t>(least + random() % more);
    };
    std::int64_t m = extent(96, 24);
    std::int64_t n = extent(96, 40);
    std::int64_t k = extent(96, 60);
    if (form < 3) m = extent(1, 90), n = extent(1, 90);
    if (form == 3) k = extent(257, 600);
    if (form == 4) n = extent(2048, 300), m = extent(97, 4);
    if (form == 5 && random() % 4 == 0) k = extent(4097, 300);
    Array a({types.in, {m, k}});
    Array b({types.in, {k, n}});
    source.fill(a.tensor, shape);
    source.fill(b.tensor, random() % 2 == 0 ? shape : Shape::kNormal);
    auto problem = make_problem(a.tensor, b.tensor, types.out);
    ASSERT_TRUE(problem) << problem.error().message;
    Array first;
    for (std::uint64_t device = 0; device < devices; ++device) {
      for (const std::uint32_t threads : {1U, 2U}) {
        Task task;
        task.params = {0, 0, 0};
        task.inputs = {a.tensor, b.tensor};
        Array c(problem->result);
        task.outputs = {c.tensor};
        const goblin_exec_v1 how = exec_of(device, threads);
        auto done = kind.execute(task, Device(cpu(), how));
        ASSERT_TRUE(done) << done.error().message;
        if (!first.memory) first = c;
        ASSERT_EQ(first.bytes(), c.bytes())
            << dtype_name(types.in) << ", level " << device << ", " << threads << " threads";
        chosen_kernels = levels.level[random() % static_cast<std::uint64_t>(levels.count)];
        const goblin_exec_v1 labs = exec_of(random() % devices, 1);
        const auto seed = seed_of(random);
        auto verdict = kind.check(task, Device(cpu(), labs), Seed(seed));
        ASSERT_TRUE(verdict) << verdict.error().message;
        Tally& tally = by_data[kShapeNames[static_cast<std::size_t>(shape)]];
        for (Tally* one : {&tally, &all}) {
          ++one->tiles;
          one->accepted += *verdict == Verdict::kAccept ? 1 : 0;
          one->abstained += *verdict == Verdict::kAbstain ? 1 : 0;
          one->of_bool += *verdict == Verdict::kAbstain && types.in == GOBLIN_BOOL ? 1 : 0;
        }
        rejected += *verdict == Verdict::kReject ? 1 : 0;
        EXPECT_NE(*verdict, Verdict::kReject)
            << dtype_name(types.in) << " " << m << " × " << n << " × " << k << ", "
            << kShapeNames[static_cast<std::size_t>(shape)] << ", level " << device;
      }
    }
  }
  for (const auto& [name, tally] : by_data) {
    std::printf("%-18s %7lld tiles, %lld abstained, %lld of them bool\n", name.c_str(),
                static_cast<long long>(tally.tiles), static_cast<long long>(tally.abstained),
                static_cast<long long>(tally.of_bool));
  }
  std::printf(
      "%d levels of checks, %llu of hosts: %lld tiles, %lld accepted, %lld abstained, %lld "
      "refused\n",
      levels.count, static_cast<unsigned long long>(devices), static_cast<long long>(all.tiles),
      static_cast<long long>(all.accepted), static_cast<long long>(all.abstained),
      static_cast<long long>(rejected));
  EXPECT_GT(all.accepted, all.tiles / 2) << "a check that abstains from everything proves nothing";
}

}  // namespace
}  // namespace test
}  // namespace goblin::matmul

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) != "--tiles") {
      std::fprintf(stderr, "unknown option %s; --tiles N is one\n", argv[i]);
      return 2;
    }
    goblin::matmul::test::tiles = std::strtoll(argv[i + 1], nullptr, 10);
  }
  return RUN_ALL_TESTS();
}
