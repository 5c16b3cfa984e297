// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <algorithm>

#include "goblin/numerics/canonical.hpp"
#include "tiling.hpp"

namespace goblin::matmul {
namespace {

// Most columns of cells that are walked together; choose_tiling() gives no more.
constexpr std::int64_t kMaxWalk = std::int64_t{1} << 30;

constexpr std::int64_t pieces(std::int64_t extent, std::int64_t piece) {
  return (extent + piece - 1) / piece;
}

Range nth(std::int64_t extent, std::int64_t piece, std::int64_t index) {
  const std::int64_t begin = piece * index;
  return {begin, std::min(piece, extent - begin)};
}

/// Part `index` of `count` nearly equal ones.
Range share(std::int64_t extent, std::int64_t count, std::int64_t index) {
  const std::int64_t begin = extent * index / count;
  return {begin, extent * (index + 1) / count - begin};
}

}  // namespace

Grid::Grid(const Problem& problem, const Tiling& tiling) : problem_(&problem), tiling_(tiling) {
  const auto axis = static_cast<std::size_t>(tiling.group_axis);
  if (!problem.batch.empty()) {
    for (std::size_t i = 0; i < axis; ++i) groups_ *= problem.batch[i];
    group_steps_ = pieces(problem.batch[axis], tiling.group);
    groups_ *= group_steps_;
  }
  row_tiles_ = pieces(problem.m, tiling.tile_rows);
  column_tiles_ = pieces(problem.n, tiling.tile_columns);
  const std::int64_t chunks = pieces(problem.k, numerics::kChunk);
  split_parts_ = pieces(chunks, std::max<std::int64_t>(tiling.span, 1));
  parts_ = tiling.span == 0 ? 1 : split_parts_;
}

bool is_possible(const Problem& problem, const Tiling& tiling) {
  auto within = [](std::int64_t value, std::int64_t least, std::int64_t most) {
    return value >= least && value <= most;
  };
  const auto axes = static_cast<std::int64_t>(problem.batch.size());
  if (!within(tiling.tile_rows, 1, problem.m) || !within(tiling.tile_columns, 1, problem.n) ||
      !within(tiling.group_axis, 0, std::max<std::int64_t>(axes - 1, 0)) ||
      !within(tiling.span, 0, pieces(problem.k, numerics::kChunk)) ||
      !within(tiling.walk_width, 1, kMaxWalk)) {
    return false;
  }
  const std::int64_t items =
      axes == 0 ? 1 : problem.batch[static_cast<std::size_t>(tiling.group_axis)];
  if (!within(tiling.group, 1, items)) return false;
  const Grid grid(problem, tiling);
  return grid.cells() <= kMaxCells && grid.cells() <= kMaxTasks / grid.split_parts() &&
         within(tiling.regions_down, 1, std::min(grid.rows(), kMaxRegions)) &&
         within(tiling.regions_across, 1, std::min(grid.columns(), kMaxRegions)) &&
         within(tiling.regions_deep, 1, std::min(grid.parts(), kMaxRegions));
}

Box Grid::cell(std::int64_t index) const {
  Box box;
  const std::int64_t row = index / columns();
  box.columns = nth(problem_->n, tiling_.tile_columns, index % columns());
  box.rows = nth(problem_->m, tiling_.tile_rows, row % row_tiles_);
  box.terms = {0, problem_->k};
  std::int64_t group = row / row_tiles_;
  if (!problem_->batch.empty()) {
    const auto axis = static_cast<std::size_t>(tiling_.group_axis);
    box.batch[axis] = nth(problem_->batch[axis], tiling_.group, group % group_steps_);
    group /= group_steps_;
    for (std::size_t i = axis; i-- > 0;) {
      box.batch[i] = {group % problem_->batch[i], 1};
      group /= problem_->batch[i];
    }
    for (std::size_t i = axis + 1; i < problem_->batch.size(); ++i) {
      box.batch[i] = {0, problem_->batch[i]};
    }
  }
  return box;
}

Box Grid::part(const Box& box, std::int64_t part) const {
  const std::int64_t length = std::max<std::int64_t>(tiling_.span, 1) * numerics::kChunk;
  Box cut = box;
  cut.terms = nth(problem_->k, length, part);
  cut.partial = true;
  return cut;
}

Grid::Region Grid::region(std::int64_t index) const {
  const std::int64_t layer = tiling_.regions_down * tiling_.regions_across;
  const std::int64_t within = index % layer;
  return {share(rows(), tiling_.regions_down, within / tiling_.regions_across),
          share(columns(), tiling_.regions_across, within % tiling_.regions_across),
          share(parts(), tiling_.regions_deep, index / layer)};
}

std::int64_t Grid::steps(std::int64_t index) const {
  const Region at = region(index);
  return at.rows.count * at.columns.count * at.parts.count;
}

Grid::Step Grid::step(std::int64_t index, std::int64_t step) const {
  const Region at = region(index);
  const std::int64_t layer = at.rows.count * at.columns.count;
  const std::int64_t part = at.parts.begin + step / layer;
  step %= layer;
  const std::int64_t strip = step / (at.rows.count * tiling_.walk_width);
  step -= strip * at.rows.count * tiling_.walk_width;
  const Range columns_now =
      Range{strip * tiling_.walk_width,
            std::min(tiling_.walk_width, at.columns.count - strip * tiling_.walk_width)};
  const std::int64_t down = step / columns_now.count;
  const std::int64_t across = step % columns_now.count;
  const std::int64_t row = strip % 2 == 0 ? down : at.rows.count - 1 - down;
  const std::int64_t column = down % 2 == 0 ? across : columns_now.count - 1 - across;
  return {(at.rows.begin + row) * columns() + at.columns.begin + columns_now.begin + column, part};
}

}  // namespace goblin::matmul
