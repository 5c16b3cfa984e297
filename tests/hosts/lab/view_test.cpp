// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <numeric>

#include "tests/hosts/lab/temp_file.hpp"

namespace goblin::lab {
namespace {

using testing::HasSubstr;
constexpr std::int64_t kMax = INT64_MAX;

/// Row-major i32 of the shape, 0, 1, 2, …, after `skip` bytes of something else.
TensorFile counting(std::vector<std::int64_t> shape, std::uint64_t skip = 0) {
  std::int64_t count = 1;
  for (const auto extent : shape) {
    count *= extent;
  }
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  wire::Bytes bytes(skip, std::byte{0xee});
  const auto raw = std::as_bytes(std::span(numbers));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
  TensorFile tensor;
  tensor.fd = test::file_of(bytes);
  tensor.file_bytes = bytes.size();
  tensor.offset = skip;
  tensor.dtype = GOBLIN_I32;
  tensor.strides = TensorFile::row_major(GOBLIN_I32, shape);
  tensor.shape = std::move(shape);
  return tensor;
}

wire::View view_of(std::int64_t offset, std::vector<std::int64_t> shape,
                   std::vector<std::int64_t> strides, wire::DType dtype = GOBLIN_I32) {
  wire::View view;
  view.offset = offset;
  view.dtype = dtype;
  view.shape = std::move(shape);
  view.strides = std::move(strides);
  return view;
}

/// All elements, read in pieces of `piece` bytes.
Result<std::vector<std::int32_t>> read_all(const TensorFile& tensor, std::size_t piece) {
  const auto source = make_view_source(tensor);
  wire::Bytes bytes(source->size());
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const std::size_t n = std::min(piece, bytes.size() - at);
    GOBLIN_TRY_VOID(source->read(at, std::span(bytes).subspan(at, n)));
  }
  std::vector<std::int32_t> numbers(bytes.size() / sizeof(std::int32_t));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

/// What a view holds, element by element, by its definition.
std::vector<std::int32_t> expected(const TensorFile& tensor) {
  std::vector<std::int32_t> numbers;
  std::vector<std::int64_t> index(tensor.shape.size(), 0);
  std::int64_t count = 1;
  for (const auto extent : tensor.shape) {
    count *= extent;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    auto at = static_cast<std::int64_t>(tensor.offset);
    for (std::size_t d = 0; d < index.size(); ++d) {
      at += index[d] * tensor.strides[d];
    }
    std::int32_t value = 0;
    EXPECT_EQ(::pread(tensor.fd->get(), &value, sizeof value, at),
              static_cast<ssize_t>(sizeof value));
    numbers.push_back(value);
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < tensor.shape[d]) {
        break;
      }
      index[d] = 0;
    }
  }
  return numbers;
}

TEST(View, GathersRowMajor) {
  const TensorFile whole = counting({6, 5, 4}, 12);
  const std::vector<wire::View> views = {
      view_of(0, {6, 5, 4}, {80, 16, 4}),            // all of it
      view_of(80 + 16 + 4, {3, 2, 2}, {80, 16, 4}),  // a block
      view_of(0, {4, 5, 6}, {4, 16, 80}),            // transposed
      view_of(0, {5, 4, 6}, {16, 4, 80}),            // another order of dimensions
      view_of(12, {6, 5, 4}, {80, 16, -4}),          // the last dimension backwards
      view_of(400, {6, 5, 4}, {-80, 16, 4}),         // the first
      view_of(476, {6, 5, 4}, {-80, -16, -4}),       // all of them
      view_of(0, {3, 5, 2}, {160, 16, 8}),           // steps
      view_of(8, {6, 5, 1}, {80, 16, 4}),            // a column
      view_of(8, {4, 7}, {16, 0}),                   // one element over and over
      view_of(8, {6, 5, 1}, {80, 16, 1 << 20}),      // the stride of one element means nothing
      view_of(4, {7, 3}, {0, 4}),                    // broadcast along the first
      view_of(4, {3, 7}, {16, 0}),                   // and along the last
      view_of(20, {}, {}),                           // a scalar
      view_of(0, {120}, {4}),                        // flattened
  };
  for (const auto& view : views) {
    const auto part = window(whole, view);
    ASSERT_TRUE(part) << part.error().message;
    const auto wanted = expected(*part);
    for (const std::size_t piece : {4UL, 12UL, 28UL, 1000UL}) {
      const auto read = read_all(*part, piece);
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(*read, wanted) << "offset " << view.offset << ", pieces of " << piece;
    }
  }
}

TEST(View, OffsetsInAnyOrder) {
  const auto part = window(counting({8, 8}), view_of(0, {8, 8}, {4, 32}));
  ASSERT_TRUE(part);
  const auto wanted = expected(*part);
  const auto source = make_view_source(*part);
  for (const std::size_t i : {63UL, 0UL, 17UL, 8UL, 7UL, 40UL}) {
    std::int32_t value = -1;
    ASSERT_TRUE(source->read(i * 4, std::as_writable_bytes(std::span(&value, 1))));
    EXPECT_EQ(value, wanted[i]);
  }
}

TEST(View, TheDigestIsThatOfTheRowMajorBytes) {
  // A transposed view hashes as the transposed matrix stored row-major does.
  const TensorFile whole = counting({300, 200});
  const auto transposed = window(whole, view_of(0, {200, 300}, {4, 800}));
  ASSERT_TRUE(transposed);
  const auto numbers = expected(*transposed);
  TensorFile copy = counting({200, 300});
  copy.fd = test::file_of(std::as_bytes(std::span(numbers)));
  const auto digest = hash_source(*make_view_source(*transposed));
  const auto of_copy = hash_source(*make_view_source(copy));
  const auto of_whole = hash_source(*make_view_source(whole));
  ASSERT_TRUE(digest && of_copy && of_whole);
  EXPECT_EQ(*digest, *of_copy);
  EXPECT_NE(*digest, *of_whole);
}

TEST(View, NothingIsEmpty) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{0}, {0, 5}, {5, 0}, {0, 0}}) {
    const auto part =
        window(counting({5, 5}), view_of(1 << 20, shape, TensorFile::row_major(GOBLIN_I32, shape)));
    ASSERT_TRUE(part) << part.error().message;
    const auto source = make_view_source(*part);
    EXPECT_EQ(source->size(), 0u);
    EXPECT_TRUE(hash_source(*source));
  }
}

TEST(View, LeavesItsSource) {
  const TensorFile whole = counting({6, 5}, 40);
  const std::vector<wire::View> views = {
      view_of(-4, {1}, {4}),            // before it: other bytes of the same file
      view_of(120, {1}, {4}),           // behind it
      view_of(0, {31}, {4}),            // one too many
      view_of(4, {30}, {4}),            // one too far
      view_of(0, {2}, {-4}),            // backwards out of it
      view_of(118, {1}, {4}),           // half an element
      view_of(0, {7, 5}, {20, 4}),      // one row too many
      view_of(0, {2}, {kMax / 4 * 4}),  // a stride that only fits without its offset
      view_of(0, {3}, {kMax / 4 * 4}),  // one that overflows
      view_of(0, {3}, {INT64_MIN}),     //
      view_of(kMax, {1}, {4}),          //
      view_of(INT64_MIN, {2}, {-4}),    //
      view_of(0, {2, 2}, {kMax / 2 + 1, kMax / 2 + 1}),
  };
  for (const auto& view : views) {
    const auto part = window(whole, view);
    ASSERT_FALSE(part) << "offset " << view.offset;
    EXPECT_EQ(part.error().code, Code::kInvalidArgument);
  }
}

TEST(View, IsMalformed) {
  const TensorFile whole = counting({6, 5});
  const std::vector<wire::View> views = {
      view_of(0, {6, 5}, {20, 4}, GOBLIN_F32),  // another dtype of the same size
      view_of(0, {6, 5}, {20, 4}, 99),
      view_of(0, {6, 5}, {4}),
      view_of(0, {-1}, {4}),
      view_of(0, {kMax, kMax}, {0, 0}),
      view_of(0, std::vector<std::int64_t>(17, 1), std::vector<std::int64_t>(17, 4)),
  };
  for (const auto& view : views) {
    const auto part = window(whole, view);
    ASSERT_FALSE(part);
    EXPECT_EQ(part.error().code, Code::kInvalidArgument);
  }
}

TEST(View, ATensorBeyondItsFileIsRefused) {
  TensorFile tensor = counting({6, 5}, 8);
  EXPECT_TRUE(check_tensor_file(tensor, "array 'a'"));
  TensorFile bad = tensor;
  bad.shape[0] = 7;
  auto refused = check_tensor_file(bad, "array 'a'");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("array 'a'"));
  EXPECT_THAT(refused.error().message, HasSubstr("128 bytes"));
  bad = tensor;
  bad.offset = 12;
  EXPECT_FALSE(check_tensor_file(bad, "a"));
  bad = tensor;
  bad.offset = UINT64_MAX - 4;
  EXPECT_FALSE(check_tensor_file(bad, "a"));
  bad = tensor;
  bad.strides[1] = -4;
  EXPECT_FALSE(check_tensor_file(bad, "a"));
  bad.offset = 24;
  EXPECT_TRUE(check_tensor_file(bad, "a"));
}

TEST(View, AFileThatShrankIsCorrupt) {
  for (const bool transposed : {false, true}) {
    const TensorFile whole = counting({100, 100});
    const auto part = window(
        whole, transposed ? view_of(0, {100, 100}, {4, 400}) : view_of(0, {100, 100}, {400, 4}));
    ASSERT_TRUE(part);
    ASSERT_EQ(::ftruncate(whole.fd->get(), 20'000), 0);
    const auto digest = hash_source(*make_view_source(*part));
    ASSERT_FALSE(digest);
    EXPECT_EQ(digest.error().code, Code::kCorrupt);
    EXPECT_THAT(digest.error().message, HasSubstr("shorter"));
  }
}

TEST(View, RowMajorStrides) {
  using Strides = std::vector<std::int64_t>;
  EXPECT_EQ(TensorFile::row_major(GOBLIN_F64, {2, 3, 4}), (Strides{96, 32, 8}));
  EXPECT_EQ(TensorFile::row_major(GOBLIN_C128, {}), Strides{});
  EXPECT_EQ(TensorFile::row_major(GOBLIN_I8, {3, 0, 2}), (Strides{2, 2, 1}));
}

}  // namespace
}  // namespace goblin::lab
