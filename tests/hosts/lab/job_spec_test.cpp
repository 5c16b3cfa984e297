// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/job_spec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace goblin::lab {
namespace {

using testing::AllOf;
using testing::HasSubstr;

wire::KindDescription kind() {
  wire::KindDescription kind;
  kind.name = "mix";
  kind.version = 3;
  kind.inputs = {
      {"a", "the first", GOBLIN_DTYPE_BIT(GOBLIN_F32) | GOBLIN_DTYPE_BIT(GOBLIN_F64), 1, 3, false},
      {"mask", "where", GOBLIN_DTYPE_BIT(GOBLIN_BOOL), 2, 2, true}};
  kind.params = {
      {"count", "how many", wire::Value::of(std::int64_t{7}), wire::Value::of(std::int64_t{1}),
       wire::Value::of(std::int64_t{9}), false},
      {"scale", "factor", wire::Value::of(0.5), wire::Value::of(0.0), wire::Value::of(2.0), false},
      {"seed", "of the random numbers", wire::Value::of(std::int64_t{0}),
       wire::Value::of(std::int64_t{0}), wire::Value::of(INT64_MAX), true}};
  return kind;
}

wire::JobInput input(std::string name, wire::DType dtype, std::vector<std::int64_t> shape,
                     std::vector<std::int64_t> strides = {}) {
  wire::JobInput in;
  in.name = std::move(name);
  in.dtype = dtype;
  in.shape = std::move(shape);
  in.strides = std::move(strides);
  return in;
}

wire::Submit good() {
  wire::Submit submit;
  submit.kind = "mix";
  submit.inputs = {input("a", GOBLIN_F32, {4, 5})};
  submit.params = {{"seed", wire::Value::of(std::int64_t{3})}};
  return submit;
}

void expect_refused(const wire::Submit& submit, const std::vector<std::string>& words) {
  const auto spec = resolve_spec(kind(), submit);
  ASSERT_FALSE(spec) << "expected a refusal that says " << words[0];
  EXPECT_EQ(spec.error().code, Code::kInvalidArgument);
  EXPECT_THAT(spec.error().message, HasSubstr("mix/3"));
  for (const auto& word : words) {
    EXPECT_THAT(spec.error().message, HasSubstr(word));
  }
}

TEST(JobSpec, FillsInWhatWasLeftOut) {
  const auto spec = resolve_spec(kind(), good());
  ASSERT_TRUE(spec) << spec.error().message;
  ASSERT_EQ(spec->inputs.size(), 2u);
  EXPECT_EQ(spec->inputs[0].strides, (std::vector<std::int64_t>{20, 4}));
  EXPECT_EQ(spec->inputs[1].name, "mask");
  EXPECT_EQ(spec->inputs[1].dtype, 0u);
  EXPECT_EQ(spec->params,
            (std::vector<wire::Value>{wire::Value::of(std::int64_t{7}), wire::Value::of(0.5),
                                      wire::Value::of(std::int64_t{3})}));
}

TEST(JobSpec, OrderIsTheDescriptions) {
  auto submit = good();
  submit.inputs.insert(submit.inputs.begin(), input("mask", GOBLIN_BOOL, {2, 2}));
  submit.params.push_back({"count", wire::Value::of(std::int64_t{9})});
  submit.params.push_back({"scale", wire::Value::of(std::int64_t{2})});  // an integer is a number
  const auto spec = resolve_spec(kind(), submit);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->inputs[0].name, "a");
  EXPECT_EQ(spec->inputs[1].name, "mask");
  EXPECT_EQ(spec->params[0], wire::Value::of(std::int64_t{9}));
  EXPECT_EQ(spec->params[1], wire::Value::of(2.0));
}

TEST(JobSpec, Arrays) {
  auto submit = good();
  submit.inputs.clear();
  expect_refused(submit, {"'a' is missing", "the first"});
  submit = good();
  submit.inputs.push_back(submit.inputs[0]);
  expect_refused(submit, {"'a' is given twice"});
  submit = good();
  submit.inputs.push_back(input("b", GOBLIN_F32, {1}));
  expect_refused(submit, {"no array argument 'b'", "a, mask"});
  submit = good();
  submit.inputs[0].dtype = GOBLIN_I64;
  submit.inputs[0].shape = {4};
  expect_refused(submit, {"'a'", "i64", "f32, f64"});
  for (const wire::DType dtype : {0U, 16U, 63U, 64U, 0xffffffffU}) {
    submit.inputs[0].dtype = dtype;
    expect_refused(submit, {"'a'", "invalid"});
  }
}

TEST(JobSpec, Shapes) {
  auto submit = good();
  submit.inputs[0].shape = {};
  expect_refused(submit, {"'a' has shape ()", "0 dimensions", "1 to 3"});
  submit.inputs[0].shape = {1, 2, 3, 4};
  expect_refused(submit, {"(1, 2, 3, 4)", "4 dimensions"});
  submit.inputs[0].shape = {5, -1};
  expect_refused(submit, {"'a'"});
  submit.inputs[0].shape = {INT64_MAX, INT64_MAX};
  expect_refused(submit, {"'a'"});
  submit.inputs[0].shape = {3};
  submit.inputs[0].strides = {4, 4};
  expect_refused(submit, {"'a'", "rank 1", "2 strides"});
  submit.inputs[0].strides = {INT64_MAX};
  expect_refused(submit, {"'a'"});
  submit.inputs[0].strides = {6};
  expect_refused(submit, {"'a'", "stride of 6", "item size 4", "copy"});
  submit.inputs[0].strides = {-4};
  submit.inputs[0].offset = 8;
  EXPECT_TRUE(resolve_spec(kind(), submit));
  submit.inputs[0].offset = 9;
  expect_refused(submit, {"'a' begins at byte 9", "item size 4"});
}

TEST(JobSpec, ShapesWhoseProductOverflows) {
  for (const std::int64_t huge : {std::int64_t{1} << 40, std::int64_t{1} << 61, INT64_MAX}) {
    for (const auto& shape : {std::vector<std::int64_t>{huge, huge, 2}, {huge, 0, huge}}) {
      auto submit = good();
      submit.inputs[0].shape = shape;
      expect_refused(submit, {"'a'", "2^62"});
    }
  }
  auto submit = good();
  submit.inputs[0].shape = {4, -1};
  expect_refused(submit, {"'a'", "-1"});
}

TEST(JobSpec, Numbers) {
  auto submit = good();
  submit.params.clear();
  expect_refused(submit, {"'seed' is missing", "random"});
  submit = good();
  submit.params.push_back({"alpha", wire::Value::of(1.0)});
  expect_refused(submit, {"no argument 'alpha'", "count, scale, seed", "a, mask"});
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{10}, INT64_MIN, INT64_MAX}) {
    submit = good();
    submit.params.push_back({"count", wire::Value::of(bad)});
    expect_refused(submit, {"'count' is " + std::to_string(bad), "between 1 and 9"});
  }
  submit = good();
  submit.params.push_back({"count", wire::Value::of(2.5)});
  expect_refused(submit, {"'count' is 2.5", "integer"});
  const double inf = std::numeric_limits<double>::infinity();
  for (const double bad : {-0.1, 2.1, inf, -inf, std::numeric_limits<double>::quiet_NaN()}) {
    submit = good();
    submit.params.push_back({"scale", wire::Value::of(bad)});
    expect_refused(submit, {"'scale' is", "between"});
  }
  submit = good();
  submit.params.push_back({"scale", wire::Value::of(-1e-9)});  // is not said to be 0
  expect_refused(submit, {"'scale' is -1e-09", "between 0 and 2"});
  submit = good();
  submit.params.push_back({"seed", wire::Value::of(std::int64_t{4})});
  expect_refused(submit, {"'seed' is given twice"});
}

TEST(JobSpec, ArraysAndNumbersInEachOthersPlace) {
  auto submit = good();
  submit.inputs = {};
  submit.params.push_back({"a", wire::Value::of(2.5)});
  expect_refused(submit, {"'a' is a number, but an array is expected"});
  submit = good();
  submit.inputs.push_back(input("seed", GOBLIN_F32, {1}));
  expect_refused(submit, {"'seed' is an array, but a number is expected"});
}

TEST(JobSpec, KindNames) {
  EXPECT_EQ(parse_kind_name("matmul")->name, "matmul");
  EXPECT_FALSE(parse_kind_name("matmul")->version);
  EXPECT_EQ(parse_kind_name("pi-estimate/12")->name, "pi-estimate");
  EXPECT_EQ(parse_kind_name("pi-estimate/12")->version, 12u);
  for (const std::string& bad :
       {std::string(), std::string("/1"), std::string("a/"), std::string("a/0"),
        std::string("a/-1"), std::string("a/1x"), std::string("a/ 1"), std::string("a/1/2"),
        std::string("a/4294967296"), std::string("A"), std::string("a b"), std::string("../x"),
        std::string("ä"), std::string("a\0b", 3), std::string(64, 'a')}) {
    const auto name = parse_kind_name(bad);
    ASSERT_FALSE(name) << bad;
    EXPECT_EQ(name.error().code, Code::kInvalidArgument);
    EXPECT_THAT(name.error().message, AllOf(HasSubstr("kind '"), HasSubstr("matmul/1")));
  }
}

TEST(JobSpec, ShapeText) {
  EXPECT_EQ(shape_text({}), "()");
  EXPECT_EQ(shape_text({3}), "(3,)");
  EXPECT_EQ(shape_text({3, 4}), "(3, 4)");
}

}  // namespace
}  // namespace goblin::lab
