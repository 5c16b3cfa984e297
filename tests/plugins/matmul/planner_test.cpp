// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "plugins/matmul/planner.hpp"

#include "plugins/matmul/tiling.hpp"
#include "tests/plugins/matmul/support.hpp"

namespace goblin::matmul::test {
namespace {

/// Runs a job on hosts that ask in random order; results come back in random order; the planner
/// restarts now and then. Returns how many tasks ran.
std::size_t run(Lab& lab, const std::vector<Capacity>& hosts, std::mt19937_64& random,
                bool restarts) {
  std::set<std::uint64_t> ids;
  std::vector<PlannedTask> flying;
  bool planned = false;
  std::size_t tasks = 0;
  while (!planned || !flying.empty()) {
    const Capacity& host = hosts[random() % hosts.size()];
    std::vector<PlannedTask> fresh;
    auto progress = lab.next(host, 1 + random() % 4, fresh);
    EXPECT_TRUE(progress) << progress.error().message;
    if (!progress) return tasks;
    planned = *progress == Progress::kDone;
    for (const PlannedTask& task : fresh) {
      EXPECT_TRUE(ids.insert(task.id).second) << "task " << task.id << " came twice";
      EXPECT_LE(task.memory_bytes, host.memory_bytes);
      EXPECT_FALSE(lab.merged.contains(task.id) || lab.kept.contains(task.id));
      flying.push_back(task);
    }
    while (!flying.empty() && (planned || random() % 3 == 0)) {
      std::swap(flying[random() % flying.size()], flying.back());
      lab.accept(lab.compute(flying.back(), cpu()));
      flying.pop_back();
      ++tasks;
    }
    if (restarts && random() % 8 == 0) {
      flying.clear();
      planned = false;
      ids.clear();
      for (const auto& [id, task] : lab.merged) ids.insert(id);
      for (const auto& [id, held] : lab.kept) ids.insert(id);
      lab.restart(host);
    }
  }
  lab.finish();
  return tasks;
}

struct Case {
  goblin_dtype_v1 dtype;
  std::vector<std::int64_t> a, b;
  std::int64_t out_dtype = 0;
};

class PlannerBits : public testing::TestWithParam<Case> {};

TEST_P(PlannerBits, EqualOneWholeProduct) {
  const Case& c = GetParam();
  std::mt19937_64 random(7);
  const Array a = filled(c.dtype, c.a, Data::kNormal, random);
  const Array b = filled(c.dtype, c.b, Data::kNormal, random);
  const std::string expected = whole_product(a.tensor, b.tensor, c.out_dtype, reference()).bytes();
  // Just over the overhead, so that tiles split in every way.
  const std::vector<Capacity> hosts = {capacity(46, 3, 46), capacity(47, 3, 46),
                                       capacity(300, 3, 46)};
  for (int round = 0; round < 6; ++round) {
    Lab lab(a.tensor, b.tensor, hosts[static_cast<std::size_t>(round) % 3], c.out_dtype);
    std::vector<Capacity> some(hosts.begin(), hosts.begin() + 1 + round % 3);
    run(lab, some, random, round >= 3);
    EXPECT_EQ(lab.c.bytes(), expected) << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, PlannerBits,
    testing::Values(
        Case{GOBLIN_F32, {200, 8500}, {8500, 110}}, Case{GOBLIN_F32, {97}, {97, 33}},
        Case{GOBLIN_F16, {130, 12300}, {12300, 70}}, Case{GOBLIN_BF16, {65, 8193}, {8193, 129}},
        Case{GOBLIN_BF16, {65, 8193}, {8193, 129}, GOBLIN_F32},
        Case{GOBLIN_F64, {40, 4096}, {4096, 500}}, Case{GOBLIN_C64, {64, 8200}, {8200, 64}},
        Case{GOBLIN_I8, {200, 20000}, {20000, 30}},
        Case{GOBLIN_I8, {33, 5000}, {5000, 44}, GOBLIN_I8},
        Case{GOBLIN_U64, {90, 9000}, {9000, 91}}, Case{GOBLIN_BOOL, {120, 9000}, {9000, 120}},
        Case{GOBLIN_F32, {500000}, {500000}}, Case{GOBLIN_F32, {5, 1, 60, 70}, {4, 70, 50}},
        Case{GOBLIN_F32, {700, 20, 30}, {700, 30, 10}}, Case{GOBLIN_F32, {7, 300, 400}, {400, 500}},
        Case{GOBLIN_F32, {300, 400}, {6, 400, 50}}));

TEST(Planner, StridedOperandsAndNaturalLayout) {
  std::mt19937_64 random(11);
  const Array a = filled(GOBLIN_F32, {700, 301}, Data::kNormal, random);
  const Array b = filled(GOBLIN_F32, {400, 2, 700}, Data::kNormal, random);
  const Tensor at = transposed(a.tensor, {1, 0});
  Tensor bt = transposed(stepped(b.tensor, 1, -2), {1, 2, 0});  // (1, 700, 400), one column apart
  const std::string expected = whole_product(at, bt, 0, reference()).bytes();
  Lab lab(at, bt, capacity(46, 2));
  std::vector<PlannedTask> tasks;
  ASSERT_TRUE(lab.next(capacity(46, 2), 1000, tasks));
  ASSERT_GT(tasks.size(), 1U);
  for (const PlannedTask& task : tasks) {
    // Both are column-major: viewed transposed, runs are contiguous.
    EXPECT_EQ(task.params[0].i64() & 3, kATransposed | kBTransposed);
    EXPECT_EQ(task.inputs[0].raw.spec.strides[1], 4);
    EXPECT_EQ(task.inputs[1].raw.spec.strides[1], 4);
    lab.accept(lab.compute(task, reference()));
  }
  lab.finish();
  EXPECT_EQ(lab.c.bytes(), expected);
}

TEST(Planner, EmptyProductsNeedNoTask) {
  for (const auto& [a_shape, b_shape] :
       std::vector<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>>{
           {{3, 0}, {0, 4}}, {{0, 5}, {5, 4}}, {{3, 5}, {5, 0}}, {{0}, {0}}, {{0, 2, 3}, {3, 4}}}) {
    const Array a({GOBLIN_F32, a_shape});
    const Array b({GOBLIN_F32, b_shape});
    Lab lab(a.tensor, b.tensor, capacity(256));
    std::vector<PlannedTask> tasks;
    auto progress = lab.next(capacity(256), 10, tasks);
    ASSERT_TRUE(progress);
    EXPECT_EQ(*progress, Progress::kDone);
    EXPECT_TRUE(tasks.empty());
    lab.finish();
    EXPECT_EQ(lab.c.bytes(), std::string(lab.c.tensor.size_bytes(), '\0'));
  }
}

TEST(Planner, TooLittleMemoryIsSaidAndLosesNothing) {
  std::mt19937_64 random(3);
  const Array a = filled(GOBLIN_F32, {100, 100}, Data::kNormal, random);
  Lab lab(a.tensor, a.tensor, capacity(256));
  std::vector<PlannedTask> tasks;
  auto progress = lab.next(capacity(40), 10, tasks);
  ASSERT_FALSE(progress);
  EXPECT_EQ(progress.error().code, Code::kExhausted);
  EXPECT_NE(progress.error().message.find("41943040"), std::string::npos)
      << progress.error().message;
  const std::string expected = whole_product(a.tensor, a.tensor, 0, reference()).bytes();
  run(lab, {capacity(256)}, random, false);
  EXPECT_EQ(lab.c.bytes(), expected);
}

TEST(Planner, RecallGivesBackWhatWasMerged) {
  std::mt19937_64 random(5);
  const Array a = filled(GOBLIN_F32, {2, 1300, 1100}, Data::kNormal, random);
  const Array b = filled(GOBLIN_F32, {2, 1100, 1200}, Data::kNormal, random);
  Lab lab(a.tensor, b.tensor, capacity(47));
  std::vector<PlannedTask> tasks;
  ASSERT_TRUE(lab.next(capacity(47), 1000, tasks));
  std::map<std::uint64_t, std::string> bits;
  for (const PlannedTask& task : tasks) {
    Lab::Held held = lab.compute(task, cpu());
    bits[task.id] = held.output.bytes();
    lab.accept(std::move(held));
  }
  ASSERT_GT(lab.merged.size(), 3U);
  for (const auto& [id, task] : lab.merged) {
    const Array back(task.outputs[0]);
    ASSERT_TRUE(lab.planner->recall(task, std::vector<Tensor>{back.tensor}));
    EXPECT_EQ(back.bytes(), bits[id]);
  }
}

TEST(Planner, ASecondResultReplacesTheFirst) {
  std::mt19937_64 random(9);
  const Array a = filled(GOBLIN_F32, {64, 3 * 4096}, Data::kNormal, random);
  const Array b = filled(GOBLIN_F32, {3 * 4096, 512}, Data::kNormal, random);
  const std::string expected = whole_product(a.tensor, b.tensor, 0, cpu()).bytes();
  Lab lab(a.tensor, b.tensor, capacity(46));
  std::vector<PlannedTask> tasks;
  ASSERT_TRUE(lab.next(capacity(46), 100000, tasks));
  for (const PlannedTask& task : tasks) {
    Lab::Held wrong = lab.compute(task, cpu());
    std::memset(wrong.output.tensor.bytes(), 1, wrong.output.tensor.size_bytes());
    lab.accept(wrong);
  }
  EXPECT_NE(lab.c.bytes(), expected);
  for (const PlannedTask& task : tasks) lab.accept(lab.compute(task, cpu()));
  EXPECT_EQ(lab.c.bytes(), expected);
}

TEST(Planner, RefusesStrangeTasksAndStates) {
  std::mt19937_64 random(2);
  const Array a = filled(GOBLIN_F32, {100, 100}, Data::kNormal, random);
  Lab lab(a.tensor, a.tensor, capacity(256));
  std::vector<PlannedTask> tasks;
  ASSERT_TRUE(lab.next(capacity(256), 10, tasks));
  PlannedTask strange = tasks.at(0);
  Lab::Held held = lab.compute(tasks[0], cpu());
  strange.id += std::uint64_t{1} << 40;
  EXPECT_FALSE(lab.planner->accept(strange, std::vector<Tensor>{held.output.tensor}));
  EXPECT_FALSE(lab.planner->accept(tasks[0], {}));
  const Array small({GOBLIN_F32, {1, 1}});
  auto refused = lab.planner->accept(tasks[0], std::vector<Tensor>{small.tensor});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("f32[1, 1]"), std::string::npos);
  std::vector<std::byte> state = lab.planner->state();
  EXPECT_LE(state.size(), 65536U);
  state[8] = std::byte{0xff};
  state[15] = std::byte{0xff};
  EXPECT_THROW(lab.open(capacity(256), state), std::runtime_error);
  state.resize(3);
  EXPECT_THROW(lab.open(capacity(256), state), std::runtime_error);
}

}  // namespace
}  // namespace goblin::matmul::test
