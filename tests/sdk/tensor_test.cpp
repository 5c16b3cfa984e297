// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "goblin/tensor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "goblin/description.hpp"
#include "goblin/device.hpp"
#include "goblin/planner.hpp"

namespace goblin {
namespace {

using ::testing::HasSubstr;

template <typename Body>
std::string failure_of(Body&& body) {
  try {
    body();
  } catch (const Failure& failure) {
    EXPECT_FALSE(failure.error().message.empty());
    return failure.error().message;
  }
  return "nothing was thrown";
}

TEST(Tensor, RowMajorFromSpec) {
  std::vector<float> data(24);
  const Tensor t({GOBLIN_F32, {2, 3, 4}}, data.data());
  EXPECT_EQ(t.stride(0), 48);
  EXPECT_EQ(t.stride(2), 4);
  EXPECT_EQ(t.size(), 24);
  EXPECT_EQ(t.size_bytes(), 96u);
  EXPECT_TRUE(t.is_row_major());
  EXPECT_EQ(t.type(), "f32[2, 3, 4]");
  t.at<float>(1, 2, 3) = 5;
  EXPECT_EQ(data[23], 5);
  const Tensor scalar({GOBLIN_F64, {}});
  EXPECT_EQ(scalar.size(), 1);
  EXPECT_TRUE(scalar.is_row_major());
  const Tensor empty({GOBLIN_F64, {0, 7}});
  EXPECT_EQ(empty.size(), 0);
  EXPECT_TRUE(empty.is_row_major());
}

TEST(Tensor, WrongAccessThrowsAnErrorThatNamesIt) {
  double value = 0;
  const Tensor t({GOBLIN_F64, {1}}, &value);
  EXPECT_THAT(failure_of([&] { (void)t.data<float>(); }), HasSubstr("f64; f32 was expected"));
  EXPECT_THAT(failure_of([&] { (void)t.dim(1); }), HasSubstr("no dimension 1"));
  const Tensor too_many(TensorSpec{GOBLIN_F64, std::vector<std::int64_t>(16, 1)});
  EXPECT_EQ(too_many.rank(), 16u);
  EXPECT_THAT(failure_of([] {
                Tensor(TensorSpec{GOBLIN_F64, std::vector<std::int64_t>(17, 1)});
              }),
              HasSubstr("17 dimensions"));
  const Task task;
  EXPECT_THAT(failure_of([&] { (void)task.i64(0); }), HasSubstr("parameter 0 is missing"));
  EXPECT_THAT(failure_of([&] { (void)task.input(3); }), HasSubstr("input 3 is missing"));
  Task with;
  with.params = {1.5};
  EXPECT_THAT(failure_of([&] { (void)with.i64(0); }), HasSubstr("integer"));
  EXPECT_EQ(with.f64(0), 1.5);
}

TEST(Tensor, HalfFloatsAndBoolsHaveStorageTypes) {
  std::uint16_t half = 0x3c00;
  EXPECT_EQ(*Tensor({GOBLIN_F16, {1}}, &half).data<std::uint16_t>(), 0x3c00);
  EXPECT_EQ(*Tensor({GOBLIN_BF16, {1}}, &half).data<std::uint16_t>(), 0x3c00);
  std::uint8_t truth = 1;
  EXPECT_EQ(*Tensor({GOBLIN_BOOL, {1}}, &truth).data<std::uint8_t>(), 1);
}

/// A transposed view of a row-major matrix.
Tensor transposed(const Tensor& t) {
  goblin_tensor_v1 raw = t.raw();
  std::swap(raw.shape[0], raw.shape[1]);
  std::swap(raw.strides[0], raw.strides[1]);
  return Tensor(raw);
}

TEST(Tensor, BitsEqualLooksAtBitsAndIgnoresStrides) {
  std::vector<double> a{1, 2, 3, 4, 5, 6};
  std::vector<double> b{1, 3, 5, 2, 4, 6};
  const Tensor ta({GOBLIN_F64, {3, 2}}, a.data());
  const Tensor tb = transposed(Tensor({GOBLIN_F64, {2, 3}}, b.data()));
  EXPECT_FALSE(tb.is_row_major());
  EXPECT_TRUE(bits_equal(ta, tb));
  EXPECT_TRUE(bits_equal(tb, ta));
  b[5] = std::nextafter(6.0, 7.0);
  EXPECT_FALSE(bits_equal(ta, tb));
  // Other types, other shapes.
  EXPECT_FALSE(bits_equal(ta, Tensor({GOBLIN_I64, {3, 2}}, a.data())));
  EXPECT_FALSE(bits_equal(ta, Tensor({GOBLIN_F64, {6}}, a.data())));
  // NaN equals itself by bits, zero does not equal minus zero.
  std::vector<double> x{std::numeric_limits<double>::quiet_NaN(), 0.0};
  std::vector<double> y = x;
  const Tensor tx({GOBLIN_F64, {2}}, x.data());
  const Tensor ty({GOBLIN_F64, {2}}, y.data());
  EXPECT_TRUE(bits_equal(tx, ty));
  y[1] = -0.0;
  EXPECT_FALSE(bits_equal(tx, ty));
  EXPECT_TRUE(bits_equal(Tensor({GOBLIN_F64, {0}}), Tensor({GOBLIN_F64, {0}})));
}

TEST(View, SlicesMoveTheOffsetByStrides) {
  Job job;
  job.inputs = {Tensor({GOBLIN_F32, {10, 20}})};
  const View view = View::whole(job, 0).slice(0, 2, 3).slice(1, 5, 7);
  EXPECT_EQ(view.raw.offset, 2 * 80 + 5 * 4);
  EXPECT_EQ(view.raw.spec.shape[0], 3);
  EXPECT_EQ(view.raw.spec.shape[1], 7);
  EXPECT_EQ(view.raw.spec.strides[0], 80);
  EXPECT_EQ(View::whole(job, 0).slice(0, 10, 0).raw.offset, 0);
  EXPECT_THAT(failure_of([&] { (void)View::whole(job, 1); }), HasSubstr("input 1 is missing"));
}

TEST(Description, KeepsItsTextsWhenItMoves) {
  Description first = Description("doc")
                          .input("a", "x", dtypes({GOBLIN_F32, GOBLIN_F64}), 0, 2)
                          .param("n", "y", 5, 1, 10)
                          .output("c", "z");
  const Description second = std::move(first);
  const goblin_description_v1 table = second.table();
  EXPECT_STREQ(table.doc, "doc");
  EXPECT_STREQ(table.inputs[0].name, "a");
  EXPECT_EQ(table.inputs[0].dtypes, GOBLIN_DTYPE_BIT(GOBLIN_F32) | GOBLIN_DTYPE_BIT(GOBLIN_F64));
  EXPECT_EQ(table.params[0].default_value.as.i, 5);
  EXPECT_STREQ(table.outputs[0].doc, "z");
  EXPECT_THAT(failure_of([] { Description("d").param("n", "y", 5, 1.0, 10.0); }), HasSubstr("'n'"));
}

TEST(Device, ParallelForCoversEveryIndexOnceAndRethrows) {
  const goblin_backend_v1 backend{};
  goblin_exec_v1 exec{};
  for (const std::uint32_t threads : {1u, 2u, 7u}) {
    exec.threads = threads;
    const Device device(backend, exec);
    std::vector<int> hits(1000);
    device.parallel_for(hits.size(), 13, [&](std::uint64_t begin, std::uint64_t end) {
      EXPECT_EQ(begin % 13, 0u);
      for (std::uint64_t i = begin; i < end; ++i) ++hits[i];
    });
    EXPECT_THAT(hits, ::testing::Each(1)) << threads;
    EXPECT_THAT(failure_of([&] {
                  device.parallel_for(100, 1, [](std::uint64_t begin, std::uint64_t) {
                    if (begin == 50) throw Failure({Code::kInternal, "part 50"});
                  });
                }),
                "part 50");
    device.parallel_for(0, 1, [](std::uint64_t, std::uint64_t) { ADD_FAILURE(); });
  }
}

}  // namespace
}  // namespace goblin
