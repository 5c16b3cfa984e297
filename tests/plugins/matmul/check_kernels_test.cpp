// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "plugins/matmul/check_kernels.hpp"

#include <numeric>

#include "tests/plugins/matmul/support.hpp"

namespace goblin::matmul::test {
namespace {

TEST(CheckKernels, SampledSumsAreCanonicalAtEveryLevel) {
  std::mt19937_64 random(11);
  const CheckLevels levels = check_levels();
  ASSERT_GE(levels.count, 1);
  auto compare = [&](auto in) {
    using In = decltype(in);
    const goblin_dtype_v1 type = [] {
      if constexpr (std::is_same_v<In, numerics::F16>)
        return goblin_dtype_v1{GOBLIN_F16};
      else if constexpr (std::is_same_v<In, numerics::BF16>)
        return goblin_dtype_v1{GOBLIN_BF16};
      else if constexpr (std::is_same_v<In, float>)
        return goblin_dtype_v1{GOBLIN_F32};
      else if constexpr (std::is_same_v<In, double>)
        return goblin_dtype_v1{GOBLIN_F64};
      else if constexpr (sizeof(In) == 8)
        return goblin_dtype_v1{GOBLIN_C64};
      else
        return goblin_dtype_v1{GOBLIN_C128};
    }();
    constexpr std::int64_t kTerms = 2 * numerics::kChunk + 300;
    const Array a = filled(type, {kSampleLanes, kTerms}, Data::kHeavy, random);
    const Array b = filled(type, {kTerms, kSampleLanes}, Data::kHeavy, random);
    const auto item = static_cast<std::int64_t>(sizeof(In));
    for (int level = 0; level < levels.count; ++level) {
      SampleSums sums{};
      for (std::int64_t p = 0; p < kTerms; p += numerics::kBlock) {
        const std::int64_t terms = std::min(numerics::kBlock, kTerms - p);
        const char* rows[kSampleLanes];
        for (std::int64_t l = 0; l < kSampleLanes; ++l) {
          rows[l] = reinterpret_cast<const char*>(a.tensor.bytes()) + (l * kTerms + p) * item;
        }
        levels.level[level]->sample_block(
            type, rows, item,
            reinterpret_cast<const char*>(b.tensor.bytes()) + p * kSampleLanes * item,
            kSampleLanes * item, terms, p % numerics::kChunk == 0, &sums);
        const std::int64_t end = p + terms;
        if (end % numerics::kChunk == 0 || end == kTerms) {
          levels.level[level]->sample_chunk(type, end <= numerics::kChunk, &sums);
        }
      }
      for (std::int64_t l = 0; l < kSampleLanes; ++l) {
        const auto sum = numerics::canonical_sum<In>(
            reinterpret_cast<const char*>(a.tensor.bytes()) + l * kTerms * item, item,
            reinterpret_cast<const char*>(b.tensor.bytes()) + l * item, kSampleLanes * item,
            kTerms);
        EXPECT_EQ(
            std::memcmp(&sum, sums.total + static_cast<std::size_t>(l) * sizeof sum, sizeof sum), 0)
            << dtype_name(type) << " level " << level;
      }
    }
  };
  compare(numerics::F16{});
  compare(numerics::BF16{});
  compare(float{});
  compare(double{});
  compare(numerics::Complex<float>{});
  compare(numerics::Complex<double>{});
}

TEST(CheckKernels, LevelsAgreeOnSums) {
  std::mt19937_64 random(12);
  const CheckLevels levels = check_levels();
  const Array x = filled(GOBLIN_F64, {21, 301}, Data::kSmallIntegers, random);
  const Array y = filled(GOBLIN_F64, {301, 40}, Data::kSmallIntegers, random);
  const Array u = filled(GOBLIN_U64, {21, 301}, Data::kNormal, random);
  const Array v = filled(GOBLIN_U64, {301, 40}, Data::kNormal, random);
  // Small integers: every order of summation is exact.
  std::vector<double> expected(21 * 40, 1);
  std::vector<std::uint64_t> ring(21 * 40, 1);
  for (std::size_t i = 0; i < 21; ++i) {
    for (std::size_t p = 0; p < 301; ++p) {
      for (std::size_t l = 0; l < 40; ++l) {
        expected[i * 40 + l] +=
            x.tensor.data<double>()[i * 301 + p] * y.tensor.data<double>()[p * 40 + l];
        ring[i * 40 + l] += u.tensor.data<std::uint64_t>()[i * 301 + p] *
                            v.tensor.data<std::uint64_t>()[p * 40 + l];
      }
    }
  }
  for (int level = 0; level < levels.count; ++level) {
    std::vector<double> d(21 * 40, 1);
    levels.level[level]->narrow_f64(x.tensor.data<double>(), 301, 21, 301, y.tensor.data<double>(),
                                    40, d.data());
    EXPECT_EQ(d, expected);
    std::vector<std::uint64_t> w(21 * 40, 1);
    levels.level[level]->narrow_u64(u.tensor.data<std::uint64_t>(), 301, 21, 301,
                                    v.tensor.data<std::uint64_t>(), 40, w.data());
    EXPECT_EQ(w, ring);
    std::vector<double> sum(21, 0), squares(21, 0), again(21, 0);
    levels.level[level]->dot_rows(x.tensor.data<double>(), 301, 21, 301, y.tensor.data<double>(),
                                  sum.data(), squares.data(), 1);
    levels.level[level]->square_rows(x.tensor.data<double>(), 301, 21, 301, again.data());
    EXPECT_EQ(squares, again);
    double dot = 0;
    for (std::size_t p = 0; p < 301; ++p) {
      dot += x.tensor.data<double>()[p] * y.tensor.data<double>()[p];
    }
    EXPECT_EQ(sum[0], dot);

    // The same numbers as f32, read where they lie, by blocks and against eight columns.
    std::vector<float> narrow(21 * 301);
    for (std::size_t i = 0; i < narrow.size(); ++i) {
      narrow[i] = static_cast<float>(x.tensor.data<double>()[i]);
    }
    const std::vector<std::int64_t> begin = {0, 7, 150, 301};
    std::vector<double> columns(8 * 301);
    for (std::size_t p = 0; p < 301; ++p) {
      for (std::size_t l = 0; l < 8; ++l) {
        columns[l * 301 + p] = y.tensor.data<double>()[p * 40 + l];
      }
    }
    for (const bool single : {true, false}) {
      const goblin_dtype_v1 type = single ? GOBLIN_F32 : GOBLIN_F64;
      const auto item = static_cast<std::int64_t>(dtype_size(type));
      // Rows that adjoin each other are read in another order than rows apart.
      for (const std::int64_t gap : {0, 5}) {
        const std::int64_t row = (301 + gap) * item;
        std::vector<char> data(static_cast<std::size_t>(21 * row), '\xff');
        for (std::int64_t i = 0; i < 21; ++i) {
          const char* const from = single ? reinterpret_cast<const char*>(narrow.data())
                                          : reinterpret_cast<const char*>(x.tensor.bytes());
          std::memcpy(data.data() + i * row, from + i * 301 * item,
                      static_cast<std::size_t>(301 * item));
        }
        const Block block{data.data(), row, item, 21, 301};
        std::vector<double> blocks(21 * 5, 1), partial(3 * kSquareLanes, 0);
        levels.level[level]->project_blocks(type, block, begin.data(), 3, y.tensor.data<double>(),
                                            blocks.data(), 5, partial.data());
        std::vector<double> unsquared(21 * 5, 1);
        levels.level[level]->project_blocks(type, block, begin.data(), 3, y.tensor.data<double>(),
                                            unsquared.data(), 5, nullptr);
        EXPECT_EQ(blocks, unsquared);
        for (std::size_t i = 0; i < 21; ++i) {
          EXPECT_EQ(blocks[i * 5] + blocks[i * 5 + 1] + blocks[i * 5 + 2], 3 + sum[i]);
          EXPECT_EQ(blocks[i * 5 + 3] + blocks[i * 5 + 4], 2);
        }
        EXPECT_EQ(std::accumulate(partial.begin(), partial.end(), 0.0),
                  std::accumulate(squares.begin(), squares.end(), 0.0));
        for (const std::size_t lanes : {4U, 8U}) {
          std::vector<double> rows(21 * 9, 1), row_squares(21, 0);
          levels.level[level]->project_rows(type, block, columns.data(), 301,
                                            static_cast<std::int64_t>(lanes), rows.data(), 9,
                                            row_squares.data());
          EXPECT_EQ(row_squares, squares);
          for (std::size_t i = 0; i < 21; ++i) {
            for (std::size_t l = 0; l < 9; ++l) {
              EXPECT_EQ(rows[i * 9 + l], l < lanes ? expected[i * 40 + l] : 1);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace goblin::matmul::test
