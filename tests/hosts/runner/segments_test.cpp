// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Bounds of tensors and segments, up to the ends of 64 bits.
#include "hosts/runner/segments.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>

namespace goblin::runner {
namespace {

using ::testing::HasSubstr;

net::UniqueFd memfd(std::uint64_t size) {
  net::UniqueFd fd(::memfd_create("segment", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  return fd;
}

goblin_tensor_v1 raw(wire::DType dtype, std::vector<std::int64_t> shape,
                     std::vector<std::int64_t> strides) {
  goblin_tensor_v1 tensor{};
  tensor.dtype = dtype;
  tensor.rank = static_cast<std::uint32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), tensor.shape);
  std::copy(strides.begin(), strides.end(), tensor.strides);
  return tensor;
}

TEST(Extent, OfOrdinaryTensors) {
  const auto e = extent(raw(GOBLIN_F64, {3, 4}, {-32, 8}));
  ASSERT_TRUE(e);
  EXPECT_EQ(e->low, -64);
  EXPECT_EQ(e->high, 32);
  const auto broadcast = extent(raw(GOBLIN_F32, {1000, 5}, {0, 4}));
  ASSERT_TRUE(broadcast);
  EXPECT_EQ(broadcast->high, 20);
  const auto scalar = extent(raw(GOBLIN_C128, {}, {}));
  ASSERT_TRUE(scalar);
  EXPECT_EQ(scalar->high, 16);
  const auto empty = extent(raw(GOBLIN_F64, {5, 0}, {-8, 8}));
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->low, 0);
  EXPECT_EQ(empty->high, 0);
}

TEST(Extent, RefusesWhatDoesNotFit) {
  const goblin_tensor_v1 bad[] = {
      raw(0, {1}, {8}),
      raw(16, {1}, {8}),
      raw(0xffffffff, {1}, {8}),
      raw(GOBLIN_F64, {-1}, {8}),
      raw(GOBLIN_F64, {INT64_MIN}, {8}),
      raw(GOBLIN_F64, {2}, {4}),
      raw(GOBLIN_F64, {INT64_MAX}, {8}),
      raw(GOBLIN_F64, {INT64_MAX / 8 + 1}, {0}),
      raw(GOBLIN_F64, {std::int64_t{1} << 32, std::int64_t{1} << 32}, {0, 0}),
      raw(GOBLIN_F64, {3}, {INT64_MIN}),
      raw(GOBLIN_F64, {2, 2}, {INT64_MAX / 8 * 8, INT64_MAX / 8 * 8}),
      raw(GOBLIN_F64, {2, 2}, {INT64_MAX / 8 * 8, -(INT64_MAX / 8 * 8)}),
  };
  for (std::size_t i = 0; i < std::size(bad); ++i) {
    EXPECT_FALSE(extent(bad[i])) << i;
  }
  goblin_tensor_v1 deep = raw(GOBLIN_F64, {1}, {8});
  deep.rank = 17;
  EXPECT_FALSE(extent(deep));
  EXPECT_FALSE(make_tensor(GOBLIN_F64, std::vector<std::int64_t>(17, 1)));
  const std::vector<std::int64_t> two{1, 1}, one{8};
  EXPECT_FALSE(make_tensor(GOBLIN_F64, two, one));
  const std::vector<std::int64_t> huge{0, INT64_MAX, INT64_MAX};
  EXPECT_FALSE(make_tensor(GOBLIN_F64, huge));
}

__extension__ using Wide = __int128;

/// Against arithmetic in 128 bits.
TEST(Extent, AgreesWithWideArithmetic) {
  const unsigned seed = 31337;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  auto number = [&](int bits) {
    return static_cast<std::int64_t>(random() >> (64 - 1 - random() % static_cast<unsigned>(bits)));
  };
  int accepted = 0;
  for (int round = 0; round < 200'000; ++round) {
    const std::size_t rank = random() % 5;
    std::vector<std::int64_t> shape, strides;
    Wide low = 0, high = 4, elements = 4;
    bool fits = true;
    bool empty = false;
    for (std::size_t i = 0; i < rank; ++i) {
      shape.push_back(number(40));
      strides.push_back((random() % 2 == 0 ? 1 : -1) * (number(62) / 4 * 4));
      if (shape.back() == 0) {
        empty = true;
        continue;
      }
      if (!fits) {
        continue;  // before the product leaves 128 bits
      }
      const Wide span = static_cast<Wide>(shape[i] - 1) * strides[i];
      (span < 0 ? low : high) += span;
      elements *= shape[i];
      fits = fits && span <= INT64_MAX && span >= INT64_MIN && elements <= INT64_MAX &&
             high <= INT64_MAX && low >= INT64_MIN;
    }
    fits = fits && high - low <= INT64_MAX;
    const auto e = extent(raw(GOBLIN_F32, shape, strides));
    ASSERT_EQ(e.has_value(), fits) << round;
    if (e) {
      ++accepted;
      ASSERT_EQ(e->low, empty ? 0 : static_cast<std::int64_t>(low)) << round;
      ASSERT_EQ(e->high, empty ? 0 : static_cast<std::int64_t>(high)) << round;
    }
  }
  EXPECT_GT(accepted, 10'000);
}

TEST(Segments, ResolveOnlyWhatLiesInside) {
  Segments segments;
  const net::UniqueFd fd = memfd(4096);
  segments.map({1, 4096, true}, fd);
  segments.map({2, 4096, false}, fd);
  segments.map({3, 4097, false}, fd);
  segments.map({4, UINT64_MAX, false}, fd);
  segments.map({5, 0, false}, fd);
  segments.map({6, 4096, false}, net::UniqueFd());
  auto resolve = [&](wire::TensorAt at, Access access = Access::kRead) {
    const std::vector<wire::TensorAt> list{std::move(at)};
    const auto found = segments.resolve(list, access, "input");
    return found ? std::string("fine") : found.error().message;
  };
  auto at = [](std::uint32_t segment, std::uint64_t offset, std::vector<std::int64_t> shape) {
    wire::TensorAt tensor;
    tensor.dtype = GOBLIN_F32;
    tensor.segment = segment;
    tensor.offset = offset;
    tensor.shape = std::move(shape);
    return tensor;
  };
  EXPECT_EQ(resolve(at(1, 0, {1024})), "fine");
  EXPECT_EQ(resolve(at(1, 4092, {1}), Access::kWrite), "fine");
  EXPECT_EQ(resolve(at(1, 4096, {0})), "fine");
  EXPECT_EQ(resolve(at(5, 0, {0})), "fine");
  EXPECT_THAT(resolve(at(1, 4, {1024})), HasSubstr("input 0: it leaves segment 1 of 4096 bytes"));
  EXPECT_THAT(resolve(at(1, 4100, {0})), HasSubstr("leaves"));
  EXPECT_THAT(resolve(at(1, UINT64_MAX - 3, {1})), HasSubstr("leaves"));
  EXPECT_THAT(resolve(at(5, 0, {})), HasSubstr("leaves"));
  EXPECT_THAT(resolve(at(1, 2, {1})), HasSubstr("no multiple of 4"));
  EXPECT_THAT(resolve(at(2, 0, {1}), Access::kWrite), HasSubstr("read only"));
  EXPECT_THAT(resolve(at(3, 0, {1})), HasSubstr("has 4096 bytes, not 4097"));
  EXPECT_THAT(resolve(at(4, 0, {1})), HasSubstr("could not be mapped"));
  EXPECT_THAT(resolve(at(6, 0, {1})), HasSubstr("descriptor is missing"));
  EXPECT_THAT(resolve(at(7, 0, {1})), HasSubstr("not mapped"));
  wire::TensorAt backwards = at(1, 4092, {1024});
  backwards.strides = {-4};
  EXPECT_EQ(resolve(backwards), "fine");
  backwards.offset = 4088;
  EXPECT_THAT(resolve(backwards), HasSubstr("leaves"));
  EXPECT_THAT(resolve(backwards, Access::kReadRowMajor), HasSubstr("leaves"));
  const std::vector<std::uint32_t> gone{1};
  segments.unmap(gone);
  EXPECT_THAT(resolve(at(1, 0, {1})), HasSubstr("not mapped"));
}

TEST(Segments, AHeldSegmentOutlivesUnmap) {
  Segments segments;
  const net::UniqueFd fd = memfd(4096);
  segments.map({1, 4096, true}, fd);
  wire::TensorAt at;
  at.dtype = GOBLIN_F64;
  at.shape = {8};
  at.segment = 1;
  const std::vector<wire::TensorAt> list{at};
  auto held = segments.resolve(list, Access::kWrite, "output");
  ASSERT_TRUE(held);
  segments.unmap(std::vector<std::uint32_t>{1});
  static_cast<double*>(held->list[0].data)[7] = 3.5;  // still mapped
  double read = 0;
  ASSERT_EQ(::pread(fd.get(), &read, sizeof read, 56), 8);
  EXPECT_EQ(read, 3.5);
}

/// What of this process is in memory, as the system says.
std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

TEST(Segments, KeepWithinABound) {
  constexpr std::int64_t kEach = 2 << 20;
  constexpr std::uint32_t kCount = 64;
  Segments segments;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const net::UniqueFd file = memfd(kEach);
    segments.map({i, kEach, true}, file);
  }
  const std::uint64_t most = resident_bytes() + 16 * kEach;
  std::uint64_t peak = 0;
  for (std::uint32_t round = 0; round < 4; ++round) {
    for (std::uint32_t i = 0; i < kCount; ++i) {
      wire::TensorAt at;
      at.dtype = GOBLIN_U8;
      at.shape = {kEach};
      at.segment = i;
      auto tensors = segments.resolve({&at, 1}, Access::kWrite, "output");
      ASSERT_TRUE(tensors) << tensors.error().message;
      segments.keep_within(most);
      auto* const bytes = static_cast<unsigned char*>(tensors->list[0].data);
      for (std::int64_t byte = 0; byte < kEach; byte += 512) {
        ASSERT_EQ(bytes[byte], round == 0 ? 0 : i + round) << "what was written is lost";
        bytes[byte] = static_cast<unsigned char>(i + round + 1);
      }
      peak = std::max(peak, resident_bytes());
    }
  }
  EXPECT_LE(peak, most + 4 * kEach);
  EXPECT_GE(peak, most - 8 * kEach) << "pages that tasks share have to stay";
}

}  // namespace
}  // namespace goblin::runner
