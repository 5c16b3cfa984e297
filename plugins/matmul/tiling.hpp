// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// How a product is cut into tiles, and in which order they are handed out. docs/matmul.md explains
// the model and compares its choices with lower bounds. Pure functions of problem and capacity.
//
// The grid has `rows` × `columns` cells: a cell is a tile of C (all items of a small group of the
// batch, or some rows and columns of one item). A cell is one task, or, when k is split, `parts`
// tasks of `span` chunks each whose sums the planner merges in ascending order.
#pragma once

#include <cstdint>
#include <vector>

#include "box.hpp"
#include "goblin/planner.hpp"

namespace goblin::matmul {

/// Memory of a runner beside a task's tensors: the process, and scratch of the backend for three
/// threads. A host that has more threads offers less memory instead: a task that is planned when
/// one host asks must not grow with that host's threads, for another may compute it.
inline constexpr double kOverheadBytes = 44.0 * (1 << 20);

/// Peak of a host's runner while it computes the box.
double memory_of(const Problem& problem, const Box& box);

/// Bounds of a plan.
inline constexpr std::int64_t kMaxCells = std::int64_t{1} << 28;
inline constexpr std::int64_t kMaxTasks = std::int64_t{1} << 37;
inline constexpr std::int64_t kMaxRegions = 64;

/// The plan; with the problem it determines every task. 64-bit integers, so it is its own state.
struct Tiling {
  std::int64_t tile_rows = 1;
  std::int64_t tile_columns = 1;
  /// Items of the batch in a cell: `group` along batch dimension `group_axis`, all of the later
  /// dimensions, one of the earlier.
  std::int64_t group_axis = 0;
  std::int64_t group = 1;
  std::int64_t span = 0;  ///< chunks of a part; 0: k is not split
  /// Regions of the grid that are walked at the same time, so that each host stays in one.
  std::int64_t regions_down = 1;
  std::int64_t regions_across = 1;
  /// Columns of cells that are walked together: their panels of B should fit a host's cache.
  std::int64_t walk_width = 1;
  std::int64_t regions_deep = 1;  ///< where k is split: regions along it
  bool operator==(const Tiling&) const = default;
};

/// Geometry of a tiling's grid. Cheap to copy; refers to the problem.
class Grid {
 public:
  Grid(const Problem& problem, const Tiling& tiling);

  [[nodiscard]] const Problem& problem() const { return *problem_; }
  [[nodiscard]] const Tiling& tiling() const { return tiling_; }
  [[nodiscard]] std::int64_t rows() const { return groups_ * row_tiles_; }
  [[nodiscard]] std::int64_t columns() const { return column_tiles_; }
  [[nodiscard]] std::int64_t cells() const { return rows() * columns(); }
  /// Tasks of a cell that is not cut further.
  [[nodiscard]] std::int64_t parts() const { return parts_; }
  [[nodiscard]] std::int64_t regions() const {
    return tiling_.regions_down * tiling_.regions_across * tiling_.regions_deep;
  }
  /// Parts of k when a cell is split along it; at least `parts()`.
  [[nodiscard]] std::int64_t split_parts() const { return split_parts_; }

  /// The whole cell: all of k, not partial.
  [[nodiscard]] Box cell(std::int64_t index) const;
  /// Part `part` of a box that has all of k.
  [[nodiscard]] Box part(const Box& box, std::int64_t part) const;

  struct Step {
    std::int64_t cell;
    std::int64_t part;
  };
  [[nodiscard]] std::int64_t steps(std::int64_t region) const;
  /// Step `step` of the walk through a region: parts of k outermost, then strips of `walk_width`
  /// columns, then rows, to and fro.
  [[nodiscard]] Step step(std::int64_t region, std::int64_t step) const;

 private:
  struct Region {
    Range rows, columns, parts;
  };
  [[nodiscard]] Region region(std::int64_t index) const;

  const Problem* problem_;
  Tiling tiling_;
  std::int64_t groups_ = 1;
  std::int64_t group_steps_ = 1;  ///< groups along the group axis
  std::int64_t row_tiles_ = 1;
  std::int64_t column_tiles_ = 1;
  std::int64_t parts_ = 1;
  std::int64_t split_parts_ = 1;
};

/// What a plan costs, by the model of docs/matmul.md.
struct Forecast {
  double tasks = 0;
  double input_bytes = 0;   ///< sent to hosts, each of which caches kCacheBytes
  double output_bytes = 0;  ///< sent back
  double check_bytes = 0;   ///< read by the lab node's checks
  double seconds = 0;       ///< the sum that choose_tiling() makes small
};
/// `least_bytes`: what any plan for as many hosts moves (share_bound()); what is beyond it weighs
/// more.
Forecast forecast(const Grid& grid, const Capacity& capacity, double least_bytes = 0);

/// Is it a tiling that choose_tiling() could have given for this problem? A state from a journal
/// may be damaged; the Grid of any other tiling may overflow. The problem is not trivial.
bool is_possible(const Problem& problem, const Tiling& tiling);

/// The cheapest tiling whose tasks fit capacity.memory_bytes (and min_memory_bytes, where that
/// costs next to nothing). kExhausted names the bytes that the smallest task needs. The problem is
/// not trivial.
Result<Tiling> choose_tiling(const Problem& problem, const Capacity& capacity);

/// Least memory that any task of the problem needs.
double least_memory(const Problem& problem);

}  // namespace goblin::matmul
