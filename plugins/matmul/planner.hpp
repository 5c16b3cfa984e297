// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Plans one product. One thread.
//
// A cell of the grid is handed out whole, in parts along k, or, to a host that cannot hold it, in
// halves of halves: nodes of a binary tree (1 is the whole, 2n and 2n+1 are its halves). Finished
// tiles go straight to C; sums of parts are kept by the lab node and merged in ascending order
// when the last one of a tile is accepted. Memory grows with what is under way and with the number
// of parts, not with the matrices.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "goblin/planner.hpp"
#include "tiling.hpp"

namespace goblin::matmul {

/// Which task: a node of a cell's tree, and which part along k (0: all of k; p + 1: part p of
/// `root`, the node that was split along k). Orders and packs into the task's id.
struct TaskKey {
  std::int64_t cell = 0;
  std::uint32_t node = 1;
  std::uint32_t root_depth = 0;
  std::int64_t part = 0;
  auto operator<=>(const TaskKey&) const = default;

  [[nodiscard]] std::uint32_t root() const;
  /// ≥ 1. `parts` is Grid::split_parts().
  [[nodiscard]] std::uint64_t id(std::int64_t parts) const;
  static TaskKey from_id(std::uint64_t id, std::int64_t parts);
};

class MatmulPlanner final : public Planner {
 public:
  /// `state`: what state() gave for the same job.
  static Result<std::unique_ptr<Planner>> create(const Job& job, const Capacity& capacity,
                                                 const Services& services,
                                                 std::optional<std::span<const std::byte>> state);

  [[nodiscard]] std::vector<std::byte> state() const override;
  Result<Progress> next(const Capacity& capacity, TaskSink& sink) override;
  Result<Disposition> accept(const PlannedTask& task, std::span<const Tensor> outputs) override;
  Result<void> restore(const PlannedTask& task) override;
  Result<void> recall(const PlannedTask& task, std::span<const Tensor> outputs) override;
  Result<void> finish() override;

 private:
  MatmulPlanner(const Job& job, Services services, Problem problem, const Tiling& tiling);

  [[nodiscard]] Box box_of(const TaskKey& key) const;
  /// The box of a node of a cell, with all of k.
  [[nodiscard]] Box node_box(std::int64_t cell, std::uint32_t node) const;
  Result<TaskKey> known(const PlannedTask& task) const;

  /// The next piece of work that nobody has: a leftover of an earlier cut, else from the walk.
  std::optional<TaskKey> take();
  Result<void> emit(TaskKey key, const Capacity& capacity, TaskSink& sink);
  /// Does cutting this box along k send fewer bytes to such a host than cutting it across?
  [[nodiscard]] bool better_along_k(const Box& box, const Capacity& capacity) const;
  /// Puts what is not accepted of a node (and part) on the leftovers.
  void push_missing(const TaskKey& key);

  void mark(const TaskKey& key);
  [[nodiscard]] bool accepted(const TaskKey& key) const;
  /// Accepted, itself or both halves.
  [[nodiscard]] bool covered(const TaskKey& key) const;
  /// Some task inside was accepted.
  [[nodiscard]] bool touched(const TaskKey& key) const;

  /// Adds the parts of a node that was split along k into C, if all are there.
  Result<void> merge_if_complete(const TaskKey& key, const Tensor& last);
  void leaves(const TaskKey& key, std::vector<TaskKey>& out) const;

  /// C's elements of a box as a tensor shaped like a task's output.
  [[nodiscard]] Tensor c_window(const Box& box) const;

  const Job job_;
  const Services services_;
  const Problem problem_;
  const Grid grid_;
  std::vector<std::int64_t> walked_;  ///< steps done, by region
  std::int64_t turn_ = 0;             ///< region whose turn it is
  std::vector<TaskKey> leftovers_;    ///< last in, first out
  std::vector<bool> passed_;          ///< cells that the walk has taken (not when k is split)
  /// Accepted parts, to be merged; and other accepted tasks of cells that the walk has not reached,
  /// after a restart.
  std::map<std::int64_t, std::set<TaskKey>> accepted_;
};

}  // namespace goblin::matmul
