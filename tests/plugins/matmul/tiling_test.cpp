// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "plugins/matmul/tiling.hpp"

#include "goblin/numerics/canonical.hpp"
#include "plugins/matmul/report.hpp"
#include "tests/plugins/matmul/support.hpp"

namespace goblin::matmul::test {
namespace {

using Shape = std::vector<std::int64_t>;

Problem problem_of(goblin_dtype_v1 dtype, const Shape& a, const Shape& b) {
  auto problem = make_problem(Tensor(TensorSpec{dtype, a}), Tensor(TensorSpec{dtype, b}), 0);
  if (!problem) throw std::runtime_error(problem.error().message);
  return *problem;
}

/// One host's threads must not cut the work of all others into dust.
TEST(Tiling, ThreadsTakeNoMemoryFromTasks) {
  const Problem problem = problem_of(GOBLIN_F32, {3000, 500}, {500, 3000});
  for (const std::uint32_t threads : {1U, 64U, 4096U}) {
    Capacity c = capacity(64, 3);
    c.threads = threads;
    auto tiling = choose_tiling(problem, c);
    ASSERT_TRUE(tiling) << tiling.error().message;
    EXPECT_LE(Grid(problem, *tiling).cells(), 24) << threads << " threads";
  }
}

TEST(Tiling, CoversEveryElementOncePerChunkOnRandomProblems) {
  std::mt19937_64 random(20261130);
  for (int round = 0; round < 300; ++round) {
    const auto below = [&](std::uint64_t bound) {
      return static_cast<std::int64_t>(1 + random() % bound);
    };
    Shape lead;
    for (std::size_t i = 0; i < random() % 3; ++i) lead.push_back(below(9));
    Shape a = lead;
    Shape b = lead;
    for (auto& e : a) e = random() % 4 == 0 ? 1 : e;
    const std::int64_t m = below(3000), k = below(20000), n = below(3000);
    a.insert(a.end(), {m, k});
    b.insert(b.end(), {k, n});
    const Problem problem = problem_of(GOBLIN_F32, a, b);
    Capacity c = capacity(45 + random() % 400, 1 + random() % 9);
    auto tiling = choose_tiling(problem, c);
    ASSERT_TRUE(tiling) << tiling.error().message;
    const Grid grid(problem, *tiling);
    std::set<std::pair<std::int64_t, std::int64_t>> steps;
    std::int64_t walked = 0;
    for (std::int64_t r = 0; r < grid.regions(); ++r) {
      for (std::int64_t s = 0; s < grid.steps(r); ++s, ++walked) {
        const Grid::Step step = grid.step(r, s);
        ASSERT_TRUE(steps.insert({step.cell, step.part}).second);
        ASSERT_LT(step.cell, grid.cells());
        ASSERT_LT(step.part, grid.parts());
      }
    }
    ASSERT_EQ(walked, grid.cells() * grid.parts());
    double terms = 0;
    for (const auto& [cell, part] : steps) {
      const Box whole = grid.cell(cell);
      const Box box = tiling->span == 0 ? whole : grid.part(whole, part);
      terms += box.flops(problem) / 2;
      ASSERT_LE(memory_of(problem, box), static_cast<double>(c.memory_bytes));
      ASSERT_EQ(box.terms.begin % numerics::kChunk, 0);
      ASSERT_TRUE(box.terms.begin + box.terms.count == k ||
                  box.terms.count % numerics::kChunk == 0);
      ASSERT_LE(box.rows.begin + box.rows.count, problem.m);
      ASSERT_LE(box.columns.begin + box.columns.count, problem.n);
    }
    // Disjoint by construction of the grid, so equal counts mean: everything, once.
    ASSERT_DOUBLE_EQ(terms, problem.flops() / 2);
  }
}

TEST(Tiling, HalvesAreDisjointAndWhole) {
  const Problem problem = problem_of(GOBLIN_F32, {3, 5, 7, 11}, {3, 5, 11, 13});
  Box box;
  box.batch[0] = {0, 15};
  box.rows = {0, 7};
  box.columns = {0, 13};
  box.terms = {0, 11};
  std::vector<Box> open{box};
  std::set<std::array<std::int64_t, 3>> seen;
  while (!open.empty()) {
    const Box now = open.back();
    open.pop_back();
    if (const auto halves = halve(problem, now)) {
      ASSERT_GT((*halves)[0].flops(problem), 0);
      ASSERT_GT((*halves)[1].flops(problem), 0);
      open.push_back((*halves)[0]);
      open.push_back((*halves)[1]);
    } else {
      ASSERT_TRUE(seen.insert({now.batch[0].begin, now.rows.begin, now.columns.begin}).second);
    }
  }
  EXPECT_EQ(seen.size(), 15U * 7 * 13);
}

/// Bytes that each of `hosts` hosts receives when it works through its region and caches all.
std::vector<double> received(const Problem& problem, const Tiling& tiling) {
  const Grid grid(problem, tiling);
  std::vector<double> bytes;
  for (std::int64_t r = 0; r < grid.regions(); ++r) {
    std::set<std::array<std::int64_t, 4>> a, b;
    double sum = 0;
    for (std::int64_t s = 0; s < grid.steps(r); ++s) {
      const Grid::Step step = grid.step(r, s);
      Box box = grid.cell(step.cell);
      if (tiling.span != 0) box = grid.part(box, step.part);
      if (a.insert({box.rows.begin, box.rows.count, box.terms.begin, 0}).second) {
        sum += a_bytes(problem, box);
      }
      if (b.insert({box.columns.begin, box.columns.count, box.terms.begin, 0}).second) {
        sum += b_bytes(problem, box);
      }
    }
    bytes.push_back(sum);
  }
  return bytes;
}

TEST(Tiling, TwoLargeHostsGetHalfOfAAndAllOfB) {
  const double matrix = 8192.0 * 8192 * 4;
  const Problem problem = problem_of(GOBLIN_F32, {8192, 8192}, {8192, 8192});
  for (const std::uint64_t mib : {512, 4096, 65536}) {
    const Tiling tiling = *choose_tiling(problem, capacity(mib, 2));
    EXPECT_EQ(tiling.span, 0);
    // Cells at the edge are smaller, so a half is not exact.
    double sum = 0;
    for (const double bytes : received(problem, tiling)) {
      EXPECT_NEAR(bytes, 1.5 * matrix, 0.03 * matrix);
      sum += bytes;
    }
    EXPECT_DOUBLE_EQ(sum, 3 * matrix);
    const Grid grid(problem, tiling);
    EXPECT_EQ(grid.regions(), 2);
    EXPECT_GE(grid.cells(), 4);  // each host more than one task
  }
}

TEST(Tiling, SmallJobsGetFewLargeTilesAndLargeOnesEnoughToOverlap) {
  struct Case {
    std::int64_t n;
    std::int64_t fewest, most;
  };
  for (const auto& [n, fewest, most] : {Case{2048, 2, 4}, {4096, 4, 4}, {8192, 8, 16}}) {
    const Problem problem = problem_of(GOBLIN_F32, {n, n}, {n, n});
    for (const std::uint64_t mib : {256, 1024}) {
      const Capacity c = capacity(mib, 2);
      const Tiling tiling = *choose_tiling(problem, c);
      const Grid grid(problem, tiling);
      EXPECT_GE(grid.cells(), fewest) << n;
      EXPECT_LE(grid.cells(), most) << n;
      EXPECT_EQ(grid.cells() % 2, 0) << n;  // as many for each host
      // No plan that keeps k whole moves less: A, twice B (or the reverse), C.
      const Forecast cost = forecast(grid, c);
      const double matrix = static_cast<double>(n * n) * 4;
      EXPECT_DOUBLE_EQ(cost.input_bytes + cost.output_bytes, 4 * matrix);
      // Each operand is read once for every tile beside another: at 4096, 2A + 2B + C.
      if (n == 4096) {
        EXPECT_DOUBLE_EQ(cost.check_bytes, 5 * matrix);
      }
    }
  }
}

/// Whatever hosts can hold: small tasks need not send more, for hosts keep panels on their disks.
TEST(Tiling, PlansMoveLittleMoreThanTheLeast) {
  constexpr std::uint64_t kHosts = 4;
  for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{{8192, 8192, 8192},
                                                                        {32768, 2048, 1024},
                                                                        {1024, 2048, 32768},
                                                                        {1024, 65536, 1024},
                                                                        {8192, 256, 8192},
                                                                        {4096, 8192, 1024}}) {
    const Problem problem = problem_of(GOBLIN_F32, {m, k}, {k, n});
    for (const std::uint64_t mib : {96, 128, 256, 1024}) {
      const Capacity c = capacity(mib, kHosts);
      const Tiling tiling = *choose_tiling(problem, c);
      const Grid grid(problem, tiling);
      EXPECT_GE(grid.cells() * grid.parts(), static_cast<std::int64_t>(kHosts));
      double moved = forecast(grid, c).output_bytes;
      if (grid.regions() == static_cast<std::int64_t>(kHosts)) {
        for (const double bytes : received(problem, tiling)) moved += bytes;
      } else {
        moved += forecast(grid, c).input_bytes;
      }
      EXPECT_LE(moved, 1.10 * share_bound(problem, kHosts))
          << m << " × " << k << " × " << n << ", " << mib << " MiB";
    }
  }
}

TEST(Tiling, ForecastIsWhatRegionsReceive) {
  for (const auto& [m, n, k, mib, hosts] :
       std::vector<std::array<std::int64_t, 5>>{{8192, 8192, 8192, 256, 2},
                                                {16384, 16384, 16384, 256, 3},
                                                {40000, 40000, 192, 256, 3},
                                                {4096, 4096, 65536, 256, 4},
                                                {2000, 100000, 3000, 128, 6}}) {
    const Problem problem = problem_of(GOBLIN_F32, {m, k}, {k, n});
    const Capacity c = capacity(static_cast<std::uint64_t>(mib), static_cast<std::uint64_t>(hosts));
    const Tiling tiling = *choose_tiling(problem, c);
    double sum = 0;
    for (const double bytes : received(problem, tiling)) sum += bytes;
    const PlanReport report = plan_report(problem, tiling, c);
    // The forecast counts what falls out of a 2 GiB cache; regions here see everything once.
    EXPECT_GE(report.input_bytes * 1.05, sum) << m << " " << n << " " << k;
    EXPECT_LE(report.largest_bound, report.input_bytes + report.output_bytes);
    EXPECT_GE(report.distance(), 1);
    EXPECT_LE(report.distance(), 4) << report.text;
    EXPECT_FALSE(report.text.empty());
    std::printf("| %lld × %lld × %lld | %lld | %lld MiB | %s\n", static_cast<long long>(m),
                static_cast<long long>(n), static_cast<long long>(k), static_cast<long long>(hosts),
                static_cast<long long>(mib), report.text.c_str());
  }
}

TEST(Tiling, ManySmallProductsShareATask) {
  const Problem problem = problem_of(GOBLIN_F32, {100000, 16, 16}, {100000, 16, 16});
  const Tiling tiling = *choose_tiling(problem, capacity(256, 2));
  EXPECT_GT(tiling.group, 1000);
  EXPECT_LT(Grid(problem, tiling).cells(), 100);
}

TEST(Tiling, AHugeDotIsGroupedByChunks) {
  const Problem problem = problem_of(GOBLIN_F32, {1000000000}, {1000000000});
  const Tiling tiling = *choose_tiling(problem, capacity(256, 2));
  EXPECT_GT(tiling.span, 50);
  EXPECT_LT(Grid(problem, tiling).parts(), 5000);
}

TEST(Tiling, AllHostsHoldTilesWhenThatIsCheap) {
  const Problem problem = problem_of(GOBLIN_F32, {8192, 4096}, {4096, 8192});
  const Tiling tiling = *choose_tiling(problem, capacity(65536, 2, 200));
  const Grid grid(problem, tiling);
  EXPECT_LE(memory_of(problem, grid.cell(0)), 200.0 * (1 << 20));
}

TEST(Tiling, HostsOfTheLeastMemoryAreEnough) {
  const std::pair<Shape, Shape> products[] = {{{70, 300}, {300, 50}},
                                              {{1, 9000}, {9000, 97}},
                                              {{3, 61, 5000}, {3, 5000, 67}},
                                              {{640, 12}, {12, 640}}};
  for (const auto& [a, b] : products) {
    const Problem problem = problem_of(GOBLIN_F32, a, b);
    Capacity least;
    least.memory_bytes = static_cast<std::uint64_t>(std::ceil(least_memory(problem)));
    least.min_memory_bytes = least.memory_bytes;
    least.hosts = 2;
    const auto tiling = choose_tiling(problem, least);
    ASSERT_TRUE(tiling) << tiling.error().message;
    EXPECT_TRUE(is_possible(problem, *tiling));
  }
}

/// Broadcast operands are large without bytes: cells times parts of k do not fit 64 bits.
TEST(Tiling, TooManyTasksAreRefusedHoweverManyTheyAre) {
  constexpr std::int64_t kRows = std::int64_t{1} << 14;
  constexpr std::int64_t kTerms = std::int64_t{1} << 47;
  std::byte byte{};
  goblin_tensor_v1 raw{};
  raw.data = &byte;
  raw.dtype = GOBLIN_U8;
  raw.rank = 2;
  raw.shape[0] = kRows, raw.shape[1] = kTerms;
  const Tensor a(raw);
  raw.shape[0] = kTerms, raw.shape[1] = kRows;
  const Tensor b(raw);
  const auto problem = make_problem(a, b, 0);
  ASSERT_TRUE(problem) << problem.error().message;
  const auto none = choose_tiling(*problem, capacity(64));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kExhausted);
  // Where all of k fits, single elements of C are looked at, too (UBSan sees the overflow).
  const auto tiling = choose_tiling(*problem, capacity(std::uint64_t{1} << 30));
  ASSERT_TRUE(tiling) << tiling.error().message;
  EXPECT_TRUE(is_possible(*problem, *tiling));
}

TEST(Tiling, OnlyWhatCouldHaveBeenChosenIsPossible) {
  const Problem problem = problem_of(GOBLIN_F32, {3, 70, 9000}, {3, 9000, 50});
  const auto chosen = choose_tiling(problem, capacity(46, 4));
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_TRUE(is_possible(problem, *chosen));
  std::int64_t Tiling::*const fields[] = {
      &Tiling::tile_rows,      &Tiling::tile_columns, &Tiling::group,
      &Tiling::span,           &Tiling::group_axis,   &Tiling::regions_down,
      &Tiling::regions_across, &Tiling::walk_width,   &Tiling::regions_deep};
  for (std::int64_t Tiling::*const field : fields) {
    for (const std::int64_t value : {std::int64_t{-1}, std::int64_t{1} << 40,
                                     std::int64_t{INT64_MAX}, std::int64_t{INT64_MIN}}) {
      Tiling damaged = *chosen;
      damaged.*field = value;
      EXPECT_FALSE(is_possible(problem, damaged)) << value;
    }
  }
}

TEST(Tiling, LowerBoundsOfShares) {
  const Problem square = problem_of(GOBLIN_F32, {4096, 4096}, {4096, 4096});
  const double matrix = 4096.0 * 4096 * 4;
  EXPECT_DOUBLE_EQ(share_bound(square, 1), 3 * matrix);
  // Eight cubes of 2048: each has three faces of a quarter matrix.
  EXPECT_NEAR(share_bound(square, 8), 8 * 3 * matrix / 4, 1);
  EXPECT_NEAR(share_bound(square, 2), 2 * 3 * std::cbrt(0.25) * matrix, 1);
  // A thin product: no face may exceed its operand, so each of two hosts needs half of A and C and
  // all of the one column of B.
  const Problem thin = problem_of(GOBLIN_F64, {10000, 1000}, {1000, 1});
  EXPECT_NEAR(share_bound(thin, 2), 8.0 * (10000.0 * 1000 + 2 * 1000 + 10000), 1);
  EXPECT_GT(memory_bound(square, 1 << 20), memory_bound(square, 1 << 24));
  EXPECT_EQ(memory_bound(square, 1e12), 0);
}

}  // namespace
}  // namespace goblin::matmul::test
