// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/wire/values.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace goblin::wire {
namespace {

TEST(Digest, HexAndBack) {
  Digest digest;
  for (std::size_t i = 0; i < 32; ++i) digest.bytes[i] = static_cast<std::uint8_t>(i * 8 + 7);
  EXPECT_EQ(digest.hex(), "070f171f272f373f474f575f676f777f878f979fa7afb7bfc7cfd7dfe7eff7ff");
  EXPECT_EQ(Digest::from_hex(digest.hex()).value(), digest);
  EXPECT_EQ(
      Digest::from_hex("070F171F272F373F474F575F676F777F878F979FA7AFB7BFC7CFD7DFE7EFF7FF").value(),
      digest);
}

TEST(Digest, RefusesWhatIsNoDigest) {
  const std::string good(64, 'a');
  ASSERT_TRUE(Digest::from_hex(good));
  for (const std::string& bad :
       {std::string(), good.substr(1), good + "a", good.substr(1) + "g", " " + good.substr(1),
        good.substr(2) + "0x", good.substr(1) + '\0', std::string(100000, 'a')}) {
    const auto digest = Digest::from_hex(bad);
    ASSERT_FALSE(digest) << bad.substr(0, 100);
    EXPECT_EQ(digest.error().code, Code::kInvalidArgument);
    EXPECT_NE(digest.error().message.find("64 hexadecimal digits"), std::string::npos);
    EXPECT_LT(digest.error().message.size(), 300u);
  }
}

TEST(DType, SizesAndNames) {
  const std::pair<std::string_view, std::uint64_t> expected[] = {
      {"bool", 1}, {"i8", 1},  {"i16", 2}, {"i32", 4}, {"i64", 8},
      {"u8", 1},   {"u16", 2}, {"u32", 4}, {"u64", 8}, {"f16", 2},
      {"bf16", 2}, {"f32", 4}, {"f64", 8}, {"c64", 8}, {"c128", 16}};
  for (DType dtype = GOBLIN_BOOL; dtype <= GOBLIN_C128; ++dtype) {
    EXPECT_EQ(dtype_name(dtype), expected[dtype - 1].first);
    EXPECT_EQ(dtype_size(dtype), expected[dtype - 1].second);
  }
  for (const DType dtype : {DType{0}, DType{16}, DType{0xffffffff}}) {
    EXPECT_EQ(dtype_name(dtype), "invalid");
    EXPECT_EQ(dtype_size(dtype), 0u);
  }
}

TEST(DType, NamesOfASet) {
  EXPECT_EQ(dtype_names(0), "");
  EXPECT_EQ(dtype_names(GOBLIN_DTYPE_BIT(GOBLIN_F32)), "f32");
  EXPECT_EQ(dtype_names(GOBLIN_DTYPE_BIT(GOBLIN_F64) | GOBLIN_DTYPE_BIT(GOBLIN_BOOL)), "bool, f64");
  EXPECT_EQ(dtype_names(std::uint64_t{1} << 63 | GOBLIN_DTYPE_BIT(GOBLIN_C128)), "c128");
}

TEST(Value, TextTellsSmallNumbersApart) {
  EXPECT_EQ(Value::of(std::int64_t{-7}).text(), "-7");
  EXPECT_EQ(Value::of(INT64_MIN).text(), "-9223372036854775808");
  EXPECT_EQ(Value::of(0.5).text(), "0.5");
  EXPECT_EQ(Value::of(1e-9).text(), "1e-09");
  EXPECT_EQ(Value::of(-1.7976931348623157e308).text(), "-1.7976931348623157e+308");
  EXPECT_EQ(Value::of(5e-324).text(), "5e-324");
  EXPECT_EQ(Value::of(std::numeric_limits<double>::infinity()).text(), "inf");
}

TEST(TensorSpec, SizeInBytes) {
  EXPECT_EQ((TensorSpec{GOBLIN_F64, {}}.size_bytes().value()), 8u);
  EXPECT_EQ((TensorSpec{GOBLIN_F32, {3, 5}}.size_bytes().value()), 60u);
  EXPECT_EQ((TensorSpec{GOBLIN_F32, {3, 0, 5}}.size_bytes().value()), 0u);
  EXPECT_EQ((TensorSpec{GOBLIN_C128, {std::int64_t{1} << 58}}.size_bytes().value()),
            std::uint64_t{1} << 62);
  EXPECT_EQ(
      (TensorSpec{GOBLIN_U8, std::vector<std::int64_t>(GOBLIN_MAX_RANK, 2)}.size_bytes().value()),
      65536u);
}

TEST(TensorSpec, RefusesWhatCannotBe) {
  constexpr std::int64_t kHuge = INT64_MAX;
  const TensorSpec bad[] = {
      {0, {1}},
      {16, {1}},
      {GOBLIN_U8, std::vector<std::int64_t>(GOBLIN_MAX_RANK + 1, 1)},
      {GOBLIN_U8, {-1}},
      {GOBLIN_U8, {INT64_MIN}},
      {GOBLIN_U8, {kHuge}},
      {GOBLIN_U8, {(std::int64_t{1} << 62) + 1}},
      {GOBLIN_C128, {(std::int64_t{1} << 58) + 1}},
      {GOBLIN_U8, {kHuge, kHuge}},
      {GOBLIN_F32, {std::int64_t{1} << 32, std::int64_t{1} << 32}},  // 2^66 wraps to 0
      {GOBLIN_F32, {0, kHuge, kHuge}},                               // strides would overflow
      {GOBLIN_F32, {kHuge, kHuge, 0}},
  };
  for (const TensorSpec& spec : bad) {
    const auto size = spec.size_bytes();
    EXPECT_FALSE(size) << *size;
    if (!size) {
      EXPECT_EQ(size.error().code, Code::kInvalidArgument);
    }
  }
}

TEST(Value, KeepsItsType) {
  EXPECT_EQ(Value::of(std::int64_t{3}), (Value{GOBLIN_VALUE_I64, 3, 0}));
  EXPECT_EQ(Value::of(3.5), (Value{GOBLIN_VALUE_F64, 0, 3.5}));
  EXPECT_NE(Value::of(std::int64_t{0}), Value::of(0.0));
}

}  // namespace
}  // namespace goblin::wire
