// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "backend_library.hpp"
#include "goblin/numerics/canonical.hpp"
#include "matrices.hpp"
#include "tests/testing/seed.hpp"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace goblin::test {
namespace {

std::uint64_t seed() { return goblin::test::drawn_seed(); }

struct Pair {
  goblin_dtype_v1 in;
  goblin_dtype_v1 out;
  const char* name;
};
constexpr Pair kPairs[] = {
    {GOBLIN_BOOL, GOBLIN_BOOL, "bool"}, {GOBLIN_I8, GOBLIN_I8, "i8"},
    {GOBLIN_I8, GOBLIN_I32, "i8_i32"},  {GOBLIN_I16, GOBLIN_I16, "i16"},
    {GOBLIN_I32, GOBLIN_I32, "i32"},    {GOBLIN_I64, GOBLIN_I64, "i64"},
    {GOBLIN_U8, GOBLIN_U8, "u8"},       {GOBLIN_U16, GOBLIN_U16, "u16"},
    {GOBLIN_U32, GOBLIN_U32, "u32"},    {GOBLIN_U64, GOBLIN_U64, "u64"},
    {GOBLIN_F16, GOBLIN_F16, "f16"},    {GOBLIN_F16, GOBLIN_F32, "f16_f32"},
    {GOBLIN_BF16, GOBLIN_BF16, "bf16"}, {GOBLIN_BF16, GOBLIN_F32, "bf16_f32"},
    {GOBLIN_F32, GOBLIN_F32, "f32"},    {GOBLIN_F64, GOBLIN_F64, "f64"},
    {GOBLIN_C64, GOBLIN_C64, "c64"},    {GOBLIN_C128, GOBLIN_C128, "c128"},
};

struct Case {
  std::int64_t m, n, k;
  Layout a, b, c;
  Values values;
};

std::ostream& operator<<(std::ostream& out, const Case& x) {
  return out << "m=" << x.m << " n=" << x.n << " k=" << x.k << " layouts " << static_cast<int>(x.a)
             << static_cast<int>(x.b) << static_cast<int>(x.c) << " values "
             << static_cast<int>(x.values) << " GOBLIN_TEST_SEED=" << seed();
}

/// The product on one device into a copy of `c`.
Matrix product(const Device& device, std::uint32_t threads, Matrix& a, Matrix& b, Matrix c) {
  const goblin_tensor_v1 inputs[2] = {a.tensor(), b.tensor()};
  const goblin_tensor_v1 output = c.tensor();
  const Outcome outcome =
      run_matmul(device, make_operands(inputs, output), make_exec(device.index, threads));
  EXPECT_EQ(outcome.status, GOBLIN_OK) << device.name << ": " << outcome.message;
  return c;
}

Device reference() { return devices_of(reference_backend()).front(); }

/// One case on every device and number of threads; whole buffers are compared, so a byte written
/// between the elements of C counts too.
void expect_equal(const Pair& pair, const Case& x, Random& random,
                  const std::vector<std::uint32_t>& threads) {
  Matrix a(pair.in, x.m, x.k, x.a);
  Matrix b(pair.in, x.k, x.n, x.b);
  Matrix c(pair.out, x.m, x.n, x.c);
  fill(a, random, x.values);
  fill(b, random, x.values);
  fill(c, random, Values::kPlain);
  const Matrix expected = product(reference(), 1, a, b, c);
  for (const Device& device : devices_under_test()) {
    for (const std::uint32_t count : threads) {
      const Matrix got = product(device, count, a, b, c);
      if (got.bytes() == expected.bytes()) continue;
      for (std::int64_t i = 0; i < x.m; ++i) {
        for (std::int64_t j = 0; j < x.n; ++j) {
          const auto size = static_cast<std::size_t>(item_bytes(pair.out));
          ASSERT_EQ(std::memcmp(got.at(i, j), expected.at(i, j), size), 0)
              << device.name << " threads=" << count << " C[" << i << "," << j << "] " << x;
        }
      }
      FAIL() << device.name << " threads=" << count << " wrote between the elements of C, " << x;
    }
  }
}

template <class T, std::size_t n>
T pick(Random& random, const T (&list)[n]) {
  return list[random() % n];
}

class BackendMatmul : public testing::TestWithParam<Pair> {
 protected:
  void SetUp() override { RecordProperty("seed", std::to_string(seed())); }
  Random random_{seed() ^ (GetParam().in * 977ULL + GetParam().out)};
};

TEST_P(BackendMatmul, EqualsReferenceOnRandomShapesAndLayouts) {
  constexpr std::int64_t kExtents[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  11, 12, 13,
                                       15, 16, 17, 23, 24, 25, 31, 32, 33, 47, 64, 65};
  constexpr std::int64_t kDepths[] = {0,   1,   2,   3,    7,    64,   255,  256,
                                      257, 511, 512, 4095, 4096, 4097, 8192, 8193};
  constexpr std::int64_t kMostTerms = 150'000;
  int done = 0;
  while (done < 40) {
    const Case x{.m = pick(random_, kExtents),
                 .n = pick(random_, kExtents),
                 .k = pick(random_, kDepths),
                 .a = pick(random_, kInputLayouts),
                 .b = pick(random_, kInputLayouts),
                 .c = pick(random_, kOutputLayouts),
                 .values = pick(random_, kAllValues)};
    if (x.m * x.n * x.k > kMostTerms) continue;
    expect_equal(GetParam(), x, random_, {1, 2, 7});
    if (HasFatalFailure()) return;
    ++done;
  }
}

// Every tile edge of every level is crossed by one of these; k is short, so they are cheap.
TEST_P(BackendMatmul, EqualsReferenceAroundTileEdges) {
  for (std::int64_t m = 1; m <= 26; m += 1) {
    for (const std::int64_t n : {1, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 33}) {
      const Case x{m, n, 3, Layout::kRows, Layout::kRows, Layout::kPadded, Values::kSpecial};
      expect_equal(GetParam(), x, random_, {1});
      if (HasFatalFailure()) return;
    }
  }
}

// Large enough for seven threads, several macro tiles and several strips; chunked once.
TEST_P(BackendMatmul, EqualsReferenceOnManyThreads) {
  const Case cases[] = {
      {251, 261, 258, Layout::kRows, Layout::kColumns, Layout::kRows, Values::kPlain},
      {43, 67, 4355, Layout::kColumns, Layout::kRows, Layout::kColumns, Values::kPlain},
  };
  for (const Case& x : cases) {
    expect_equal(GetParam(), x, random_, {2, 7});
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, BackendMatmul, testing::ValuesIn(kPairs),
                         [](const auto& param) { return std::string(param.param.name); });

// Macro tiles are megabytes: only wide, shallow products have several of them on one thread.
TEST(BackendMatmulShapes, SeveralMacroTiles) {
  Random random(seed());
  const Case cases[] = {
      {37, 4500, 3, Layout::kRows, Layout::kRows, Layout::kRows, Values::kPlain},
      {800, 790, 2, Layout::kRows, Layout::kRows, Layout::kSliced, Values::kPlain},
      {1500, 61, 5, Layout::kColumns, Layout::kRows, Layout::kSliced, Values::kPlain},
  };
  for (const Pair& pair : {kPairs[14], kPairs[15], kPairs[16], kPairs[10]}) {
    for (const Case& x : cases) expect_equal(pair, x, random, {1, 2});
  }
}

TEST(BackendMatmulShapes, VectorsOfEveryKind) {
  Random random(seed());
  for (const Layout layout : kInputLayouts) {
    const Case cases[] = {{1, 1, 5000, layout, layout, Layout::kRows, Values::kPlain},
                          {1, 300, 300, layout, layout, Layout::kRows, Values::kPlain},
                          {300, 1, 300, layout, layout, Layout::kRows, Values::kPlain},
                          {300, 300, 1, layout, layout, Layout::kColumns, Values::kPlain}};
    for (const Case& x : cases) expect_equal(kPairs[14], x, random, {1, 2});
  }
}

/// The definition once more, in other words: nothing shared with goblin/numerics.
template <class T>
T by_the_book(const std::vector<T>& a, const std::vector<T>& b) {
  T total = 0;
  for (std::size_t chunk_start = 0; chunk_start < a.size(); chunk_start += 4096) {
    T chunk = 0;
    const std::size_t chunk_end = std::min(a.size(), chunk_start + 4096);
    for (std::size_t start = chunk_start; start < chunk_end; start += 256) {
      T block = 0;
      for (std::size_t p = start; p < std::min(chunk_end, start + 256); ++p) {
        block = std::fma(a[p], b[p], block);
      }
      chunk = start == chunk_start ? block : chunk + block;
    }
    total = chunk_start == 0 ? chunk : total + chunk;
  }
  return std::isnan(total) ? std::numeric_limits<T>::quiet_NaN() : total;
}

template <class T>
void expect_by_the_book(goblin_dtype_v1 dtype) {
  Random random(seed());
  for (const Values values : kAllValues) {
    for (const std::int64_t k : {0, 1, 255, 256, 257, 4096, 4097, 12'800}) {
      Matrix a(dtype, 2, k, Layout::kRows);
      Matrix b(dtype, k, 3, Layout::kColumns);
      fill(a, random, values);
      fill(b, random, values);
      const Matrix c = product(reference(), 1, a, b, Matrix(dtype, 2, 3, Layout::kRows));
      for (std::int64_t i = 0; i < 2; ++i) {
        for (std::int64_t j = 0; j < 3; ++j) {
          std::vector<T> row;
          std::vector<T> column;
          for (std::int64_t p = 0; p < k; ++p) {
            row.push_back(a.value<T>(i, p));
            column.push_back(b.value<T>(p, j));
          }
          const T expected = by_the_book(row, column);
          ASSERT_EQ(std::memcmp(&expected, c.at(i, j), sizeof expected), 0)
              << "k=" << k << " values " << static_cast<int>(values) << ": expected " << expected
              << ", got " << c.value<T>(i, j) << " GOBLIN_TEST_SEED=" << seed();
        }
      }
    }
  }
}

TEST(ReferenceMatmul, IsTheWrittenDefinitionF32) { expect_by_the_book<float>(GOBLIN_F32); }
TEST(ReferenceMatmul, IsTheWrittenDefinitionF64) { expect_by_the_book<double>(GOBLIN_F64); }

TEST(ReferenceMatmul, ComplexTermsComeInTheWrittenOrder) {
  // With these values every other order of the four multiply-adds gives other bits.
  const std::complex<float> a[2] = {{0x1p30F, 1.0F}, {1.0F + 0x1p-12F, 0x1p-30F}};
  const std::complex<float> b[2] = {{1.0F + 0x1p-12F, 0x1p30F}, {1.0F + 0x1p-12F, 3.0F}};
  float re = 0;
  float im = 0;
  for (int p = 0; p < 2; ++p) {
    re = std::fma(a[p].real(), b[p].real(), re);
    re = std::fma(-a[p].imag(), b[p].imag(), re);
    im = std::fma(a[p].real(), b[p].imag(), im);
    im = std::fma(a[p].imag(), b[p].real(), im);
  }
  Matrix left(GOBLIN_C64, 1, 2, Layout::kRows);
  Matrix right(GOBLIN_C64, 2, 1, Layout::kRows);
  std::memcpy(left.bytes().data(), a, sizeof a);
  std::memcpy(right.bytes().data(), b, sizeof b);
  const Matrix c = product(reference(), 1, left, right, Matrix(GOBLIN_C64, 1, 1, Layout::kRows));
  EXPECT_EQ(c.value<float>(0, 0), re);
  EXPECT_EQ(std::memcmp(c.at(0, 0) + 4, &im, 4), 0);
}

TEST(ReferenceMatmul, NanIsTheCanonicalOne) {
  const struct {
    goblin_dtype_v1 dtype;
    std::vector<unsigned char> nan;  // one with sign and payload, little endian
    std::vector<unsigned char> expected;
  } cases[] = {
      {GOBLIN_F16, {0x01, 0xfd}, {0x00, 0x7e}},
      {GOBLIN_BF16, {0x81, 0xff}, {0xc0, 0x7f}},
      {GOBLIN_F32, {1, 0, 0x80, 0xff}, {0, 0, 0xc0, 0x7f}},
      {GOBLIN_F64, {1, 0, 0, 0, 0, 0, 0xf0, 0xff}, {0, 0, 0, 0, 0, 0, 0xf8, 0x7f}},
      // Imaginary part infinite times zero: both parts are NaN.
      {GOBLIN_C64, {1, 0, 0x80, 0xff, 0, 0, 0, 0}, {0, 0, 0xc0, 0x7f, 0, 0, 0xc0, 0x7f}},
  };
  for (const auto& x : cases) {
    Matrix a(x.dtype, 1, 1, Layout::kRows);
    Matrix b(x.dtype, 1, 1, Layout::kRows);
    a.bytes() = x.nan;
    std::vector<Device> devices = devices_under_test();
    devices.push_back(reference());
    for (const Device& device : devices) {
      const Matrix c = product(device, 1, a, b, Matrix(x.dtype, 1, 1, Layout::kRows));
      EXPECT_EQ(c.bytes(), x.expected) << device.name << " dtype " << x.dtype;
    }
  }
}

TEST(BackendMatmulSplit, ChunkSumsAddedInOrderAreTheWhole) {
  Random random(seed());
  constexpr std::int64_t kM = 5;
  constexpr std::int64_t kN = 7;
  constexpr std::int64_t kDepth = 3 * numerics::kChunk + 100;
  for (const goblin_dtype_v1 dtype : {GOBLIN_F32, GOBLIN_BF16}) {
    Matrix a(dtype, kM, kDepth, Layout::kRows);
    Matrix b(dtype, kDepth, kN, Layout::kRows);
    fill(a, random, Values::kPlain);
    fill(b, random, Values::kPlain);
    for (const Device& device : devices_under_test()) {
      const Matrix whole = product(device, 1, a, b, Matrix(GOBLIN_F32, kM, kN, Layout::kRows));
      std::vector<float> sums(kM * kN);
      for (std::int64_t start = 0; start < kDepth; start += numerics::kChunk) {
        const std::int64_t count = std::min(numerics::kChunk, kDepth - start);
        Matrix part(GOBLIN_F32, kM, kN, Layout::kRows);
        goblin_tensor_v1 inputs[2] = {a.tensor(), b.tensor()};
        inputs[0].data = static_cast<char*>(inputs[0].data) + start * inputs[0].strides[1];
        inputs[0].shape[1] = count;
        inputs[1].data = static_cast<char*>(inputs[1].data) + start * inputs[1].strides[0];
        inputs[1].shape[0] = count;
        const goblin_tensor_v1 output = part.tensor();
        ASSERT_EQ(
            run_matmul(device, make_operands(inputs, output), make_exec(device.index, 1)).status,
            GOBLIN_OK);
        for (std::size_t i = 0; i < sums.size(); ++i) {
          const auto row = static_cast<std::int64_t>(i) / kN;
          const float value = part.value<float>(row, static_cast<std::int64_t>(i) % kN);
          sums[i] = start == 0 ? value : sums[i] + value;
        }
      }
      EXPECT_EQ(std::memcmp(sums.data(), whole.bytes().data(), whole.bytes().size()), 0)
          << device.name << " GOBLIN_TEST_SEED=" << seed();
    }
  }
}

#if defined(__SSE__)
// A caller that flushes subnormals and rounds up must get the same bits, on every thread, and its
// own settings back.
TEST(BackendMatmulEnvironment, CallersMxcsrChangesNothingAndComesBack) {
  Random random(seed());
  Matrix a(GOBLIN_F32, 270, 260, Layout::kRows);
  Matrix b(GOBLIN_F32, 260, 250, Layout::kRows);
  fill(a, random, Values::kTiny);
  fill(b, random, Values::kTiny);
  const Matrix c(GOBLIN_F32, 270, 250, Layout::kRows);
  const Matrix expected = product(reference(), 1, a, b, c);
  std::vector<Device> devices = devices_under_test();
  devices.push_back(reference());
  const unsigned before = _mm_getcsr();
  constexpr unsigned kHostile = 0x1f80 | 0x8000 | 0x0040 | 0x4000;  // FTZ, DAZ, toward +∞
  for (const Device& device : devices) {
    for (const std::uint32_t threads : {1U, 7U}) {
      _mm_setcsr(kHostile);
      const Matrix got = product(device, threads, a, b, c);
      const unsigned after = _mm_getcsr();
      _mm_setcsr(before);
      EXPECT_EQ(after & ~0x3fU, kHostile) << device.name;
      EXPECT_EQ(got.bytes(), expected.bytes()) << device.name << " threads=" << threads;
    }
  }
  // The test is worth something only if subnormals were there to be lost.
  int subnormal = 0;
  for (std::int64_t j = 0; j < 250; ++j) {
    subnormal += std::fpclassify(expected.value<float>(0, j)) == FP_SUBNORMAL ? 1 : 0;
  }
  EXPECT_GT(subnormal, 0);
}
#endif

}  // namespace
}  // namespace goblin::test
