// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "plugins/matmul/problem.hpp"

#include <gmock/gmock.h>

#include "tests/plugins/matmul/support.hpp"

namespace goblin::matmul::test {
namespace {

using Shape = std::vector<std::int64_t>;
using testing::HasSubstr;

Tensor type(goblin_dtype_v1 dtype, const Shape& shape) { return Tensor(TensorSpec{dtype, shape}); }

TEST(Problem, ShapesAsNumpySaysThem) {
  struct Row {
    Shape a, b, c;
  };
  // numpy.matmul(np.empty(a), np.empty(b)).shape
  const std::vector<Row> table = {
      {{3, 4}, {4, 5}, {3, 5}},
      {{4}, {4, 5}, {5}},
      {{3, 4}, {4}, {3}},
      {{4}, {4}, {}},
      {{0}, {0}, {}},
      {{2, 3, 4}, {4}, {2, 3}},
      {{4}, {2, 4, 5}, {2, 5}},
      {{2, 3, 4}, {4, 5}, {2, 3, 5}},
      {{3, 4}, {2, 4, 5}, {2, 3, 5}},
      {{2, 1, 3, 4}, {6, 4, 5}, {2, 6, 3, 5}},
      {{2, 1, 3, 4}, {1, 6, 4, 5}, {2, 6, 3, 5}},
      {{1, 1, 1}, {1, 1}, {1, 1, 1}},
      {{0, 3, 4}, {4, 5}, {0, 3, 5}},
      {{0, 3, 4}, {1, 4, 5}, {0, 3, 5}},
      {{1, 3, 4}, {0, 4, 5}, {0, 3, 5}},
      {{3, 0}, {0, 5}, {3, 5}},
      {{0, 4}, {4, 0}, {0, 0}},
      {{7, 2, 0, 4}, {2, 4, 3}, {7, 2, 0, 3}},
  };
  for (const Row& row : table) {
    auto problem = make_problem(type(GOBLIN_F32, row.a), type(GOBLIN_F32, row.b), 0);
    ASSERT_TRUE(problem) << problem.error().message;
    EXPECT_EQ(problem->result.shape, row.c);
  }
}

TEST(Problem, RefusalsNameArgumentShapesAndRemedy) {
  struct Row {
    Tensor a, b;
    std::int64_t out;
    std::vector<std::string> says;
  };
  const std::vector<Row> table = {
      {type(GOBLIN_F32, {3, 4}),
       type(GOBLIN_F32, {5, 6}),
       0,
       {"b has shape (5, 6)", "a (3, 4)", "5", "must equal a's last, 4", "transpose"}},
      {type(GOBLIN_F32, {4}), type(GOBLIN_F32, {5}), 0, {"(5,)", "(4,)", "length"}},
      {type(GOBLIN_F32, {2, 3, 4}),
       type(GOBLIN_F32, {3, 4, 5}),
       0,
       {"leading dimensions 3 and 2", "do not broadcast"}},
      {type(GOBLIN_F32, {0, 3, 4}), type(GOBLIN_F32, {3, 4, 5}), 0, {"do not broadcast"}},
      {type(GOBLIN_F32, {3, 4}),
       type(GOBLIN_F64, {4, 5}),
       0,
       {"a is f32", "b is f64",
        "convert a with a.astype(np.float64), or b with b.astype(np.float32)"}},
      {type(GOBLIN_F32, {}), type(GOBLIN_F32, {4}), 0, {"a is a scalar", "*"}},
      {type(GOBLIN_F32, {4}), type(GOBLIN_F32, {}), 0, {"b is a scalar"}},
      {type(GOBLIN_F32, {4}),
       type(GOBLIN_F32, {4}),
       GOBLIN_F64,
       {"out_dtype is f64", "product of f32 gives f32"}},
      {type(GOBLIN_I8, {4}), type(GOBLIN_I8, {4}), GOBLIN_I64, {"out_dtype is i64", "i32 or i8"}},
      {type(GOBLIN_F16, {4}), type(GOBLIN_F16, {4}), GOBLIN_F64, {"f16 or f32"}},
      {type(GOBLIN_F32, {4}), type(GOBLIN_F32, {4}), 77, {"out_dtype is number 77"}},
      {type(GOBLIN_F32, {std::int64_t{1} << 40, 1}),
       type(GOBLIN_F32, {1, std::int64_t{1} << 40}),
       0,
       {"2^63"}},
      // Also where it has no elements.
      {type(GOBLIN_F32, {std::int64_t{1} << 40, 0, 1}),
       type(GOBLIN_F32, {1, std::int64_t{1} << 40}),
       0,
       {"2^63"}},
  };
  for (const Row& row : table) {
    auto problem = make_problem(row.a, row.b, row.out);
    ASSERT_FALSE(problem);
    EXPECT_EQ(problem.error().code, Code::kInvalidArgument);
    for (const std::string& text : row.says) {
      EXPECT_THAT(problem.error().message, HasSubstr(text));
    }
  }
}

TEST(Problem, TypesOfResults) {
  EXPECT_EQ(*output_type(GOBLIN_I8, 0), GOBLIN_I32);
  EXPECT_EQ(*output_type(GOBLIN_I8, GOBLIN_I32), GOBLIN_I32);
  EXPECT_EQ(*output_type(GOBLIN_I8, GOBLIN_I8), GOBLIN_I8);
  EXPECT_EQ(*output_type(GOBLIN_F16, 0), GOBLIN_F16);
  EXPECT_EQ(*output_type(GOBLIN_BF16, GOBLIN_F32), GOBLIN_F32);
  for (const goblin_dtype_v1 same :
       {GOBLIN_BOOL, GOBLIN_U8, GOBLIN_I16, GOBLIN_U16, GOBLIN_I32, GOBLIN_U32, GOBLIN_I64,
        GOBLIN_U64, GOBLIN_F32, GOBLIN_F64, GOBLIN_C64, GOBLIN_C128}) {
    EXPECT_EQ(*output_type(same, 0), same);
    EXPECT_FALSE(output_type(same, GOBLIN_F16));
  }
}

TEST(Problem, BatchDimensionsMergeWhereStridesAllow) {
  auto plain = make_problem(type(GOBLIN_F32, {2, 3, 4, 5}), type(GOBLIN_F32, {2, 3, 5, 6}), 0);
  EXPECT_EQ(plain->batch, (Shape{6}));
  // The same B for all: one tall product.
  auto tall = make_problem(type(GOBLIN_F32, {2, 3, 4, 5}), type(GOBLIN_F32, {5, 6}), 0);
  EXPECT_EQ(tall->batch, Shape{});
  EXPECT_EQ(tall->m, 24);
  auto vectors = make_problem(type(GOBLIN_F32, {5}), type(GOBLIN_F32, {3, 5, 6}), 0);
  EXPECT_EQ(vectors->batch, (Shape{3}));
  EXPECT_EQ(vectors->a.batch, (Shape{0}));
  auto mixed = make_problem(type(GOBLIN_F32, {2, 1, 4, 5}), type(GOBLIN_F32, {3, 5, 6}), 0);
  EXPECT_EQ(mixed->batch, (Shape{2, 3}));
  EXPECT_EQ(mixed->a.batch, (Shape{80, 0}));
  EXPECT_EQ(mixed->b.batch, (Shape{0, 120}));
  EXPECT_EQ(mixed->items(), 6);
  EXPECT_DOUBLE_EQ(mixed->flops(), 2.0 * 6 * 4 * 5 * 6);
}

TEST(Problem, HugeEmptyShapesAreFine) {
  const std::int64_t big = std::int64_t{1} << 57;
  auto problem = make_problem(type(GOBLIN_F32, {big, 0, 3}), type(GOBLIN_F32, {3, 4}), 0);
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_TRUE(problem->trivial());
  EXPECT_EQ(problem->flops(), 0);
}

// Elements by NumPy's rules, one index at a time, against what strided problems compute.
TEST(Problem, ElementsOfStridedBroadcastProducts) {
  std::mt19937_64 random(21);
  for (int round = 0; round < 200; ++round) {
    const auto extent = [&] { return static_cast<std::int64_t>(1 + random() % 4); };
    const std::int64_t m = extent(), k = extent(), n = extent();
    Shape lead;
    for (std::size_t i = 0; i < random() % 4; ++i) lead.push_back(extent());
    auto operand = [&](std::int64_t r, std::int64_t c) {
      Shape shape(lead.begin() + static_cast<std::ptrdiff_t>(random() % (lead.size() + 1)),
                  lead.end());
      for (auto& e : shape) e = random() % 3 == 0 ? 1 : e;
      shape.push_back(2 * r);
      shape.push_back(c);
      Array made = filled(GOBLIN_I64, shape, Data::kNormal, random);
      made.tensor = stepped(made.tensor, shape.size() - 2, random() % 2 == 0 ? 2 : -2);
      if (random() % 2 == 0) made.tensor = stepped(made.tensor, shape.size() - 1, -1);
      return made;
    };
    const Array a = operand(m, k);
    const Array b = operand(k, n);
    const Array c = whole_product(a.tensor, b.tensor, 0, reference());
    std::vector<std::int64_t> index(c.tensor.rank(), 0);
    auto element = [&](const Tensor& t, std::int64_t i, std::int64_t j) {
      const std::size_t own = t.rank() - 2;
      std::int64_t at = i * t.stride(own) + j * t.stride(own + 1);
      for (std::size_t d = 0; d < own; ++d) {
        const std::size_t from = d + c.tensor.rank() - t.rank();
        at += (t.dim(d) == 1 ? 0 : index[from]) * t.stride(d);
      }
      std::uint64_t value = 0;
      std::memcpy(&value, t.bytes() + at, 8);
      return value;
    };
    for (std::int64_t flat = 0; flat < c.tensor.size(); ++flat) {
      std::int64_t rest = flat;
      for (std::size_t d = c.tensor.rank(); d-- > 0;) {
        index[d] = rest % c.tensor.dim(d);
        rest /= c.tensor.dim(d);
      }
      std::uint64_t sum = 0;
      for (std::int64_t p = 0; p < k; ++p) {
        sum += element(a.tensor, index[index.size() - 2], p) *
               element(b.tensor, p, index[index.size() - 1]);
      }
      ASSERT_EQ(static_cast<std::uint64_t>(c.tensor.data<std::int64_t>()[flat]), sum)
          << a.tensor.type() << " · " << b.tensor.type();
    }
  }
}

TEST(Kind, ValidateEstimates) {
  MatmulKind kind;
  Job job;
  job.params = {Value(0)};
  job.inputs = {type(GOBLIN_F32, {1000, 2000}), type(GOBLIN_F32, {2000, 3000})};
  auto said = kind.validate(job);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->outputs.at(0), (TensorSpec{GOBLIN_F32, {1000, 3000}}));
  EXPECT_DOUBLE_EQ(said->flops, 2.0 * 1000 * 2000 * 3000);
  EXPECT_DOUBLE_EQ(said->bytes, 4.0 * (1000 * 2000 + 2000 * 3000 + 1000 * 3000));
  EXPECT_GT(said->min_task_bytes, 20U << 20);
  EXPECT_LT(said->min_task_bytes, 64U << 20);
  const Description description = kind.describe();
  EXPECT_EQ(description.table().input_count, 2U);
  EXPECT_EQ(description.table().default_policy,
            static_cast<std::uint32_t>(GOBLIN_POLICY_ALGEBRAIC));
}

TEST(Task, HostileTasksAreRefused) {
  MatmulKind kind;
  const goblin_exec_v1 exec = one_thread();
  const Device device(reference(), exec);
  const Array a({GOBLIN_F32, {2, 3, 4}});
  const Array b({GOBLIN_F32, {4, 5}});
  const Array c({GOBLIN_F32, {2, 3, 5}});
  auto attempt = [&](std::vector<Value> params, std::vector<Tensor> in, std::vector<Tensor> out) {
    Task task;
    task.params = std::move(params);
    task.inputs = std::move(in);
    task.outputs = std::move(out);
    return kind.execute(task, device);
  };
  ASSERT_TRUE(attempt({0, 1, 0}, {a.tensor, b.tensor}, {c.tensor}));
  EXPECT_FALSE(attempt({0, 1}, {a.tensor, b.tensor}, {c.tensor}));
  EXPECT_FALSE(attempt({8, 1, 0}, {a.tensor, b.tensor}, {c.tensor}));
  EXPECT_FALSE(attempt({0, 0, 0}, {a.tensor, b.tensor}, {c.tensor}));
  EXPECT_FALSE(attempt({0, 2, 0}, {a.tensor, b.tensor}, {c.tensor}));
  EXPECT_FALSE(attempt({0, -1, 0}, {a.tensor, b.tensor}, {c.tensor}));
  EXPECT_FALSE(attempt({0, 1, 1}, {a.tensor, b.tensor}, {c.tensor}));
  EXPECT_FALSE(attempt({1, 1, 0}, {a.tensor, b.tensor}, {c.tensor}));
  EXPECT_FALSE(attempt({4, 0, 0}, {b.tensor, b.tensor}, {c.tensor}));
  EXPECT_FALSE(attempt({0, 1, 0}, {a.tensor}, {c.tensor}));
  EXPECT_FALSE(attempt({0, 1, 0}, {a.tensor, b.tensor}, {}));
  EXPECT_FALSE(attempt({0, 1, 0}, {a.tensor, type(GOBLIN_F64, {4, 5})}, {c.tensor}));
  EXPECT_FALSE(attempt({0, 1, 0}, {a.tensor, b.tensor}, {type(GOBLIN_I32, {2, 3, 5})}));
  EXPECT_FALSE(attempt({0, 1, 0}, {type(GOBLIN_F32, {4}), b.tensor}, {c.tensor}));
}

}  // namespace
}  // namespace goblin::matmul::test
