// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "backends/common/tensor.hpp"

#include <gtest/gtest.h>

#include <set>

namespace goblin::backends {
namespace {

goblin_tensor_v1 matrix(std::int64_t rows, std::int64_t columns, std::int64_t row,
                        std::int64_t column) {
  return {nullptr, GOBLIN_U8, 2, {rows, columns}, {row, column}};
}

// Against counting, over all small shapes and strides.
TEST(OverlapsItself, AgreesWithCountingAddresses) {
  for (std::int64_t rows = 0; rows <= 4; ++rows) {
    for (std::int64_t columns = 0; columns <= 4; ++columns) {
      for (std::int64_t row = -9; row <= 9; ++row) {
        for (std::int64_t column = -9; column <= 9; ++column) {
          std::set<std::int64_t> addresses;
          for (std::int64_t i = 0; i < rows; ++i) {
            for (std::int64_t j = 0; j < columns; ++j) addresses.insert(i * row + j * column);
          }
          ASSERT_EQ(overlaps_itself(matrix(rows, columns, row, column)),
                    addresses.size() != static_cast<std::size_t>(rows * columns))
              << rows << "x" << columns << " strides " << row << ", " << column;
        }
      }
    }
  }
}

TEST(RangesMeet, KnowsFirstAndLastByte) {
  char room[64];
  auto one = matrix(2, 3, 8, 1);  // bytes 0 … 10
  auto other = matrix(2, 3, -8, -1);
  one.data = room;
  for (int at = 10; at < 54; ++at) {
    other.data = room + at;  // bytes at − 10 … at
    EXPECT_EQ(ranges_meet(one, other), at - 10 <= 10) << at;
    EXPECT_EQ(ranges_meet(other, one), at - 10 <= 10) << at;
  }
  other.data = room + 10;
  other.shape[1] = 0;
  EXPECT_FALSE(ranges_meet(one, other)) << "an empty tensor overlaps nothing";
}

TEST(Refuse, CutsTheMessageToItsRoom) {
  char words[8] = "unset";
  goblin_text_v1 text{words, sizeof words};
  EXPECT_EQ(refuse(&text, GOBLIN_CORRUPT, "%s", "a long message"), GOBLIN_CORRUPT);
  EXPECT_STREQ(words, "a long ");
  EXPECT_EQ(refuse(nullptr, GOBLIN_INTERNAL, "nobody listens"), GOBLIN_INTERNAL);
  text = {nullptr, 0};
  EXPECT_EQ(refuse(&text, GOBLIN_INTERNAL, "no room"), GOBLIN_INTERNAL);
}

}  // namespace
}  // namespace goblin::backends
