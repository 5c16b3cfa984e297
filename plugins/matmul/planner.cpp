// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "planner.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "goblin/numerics/canonical.hpp"
#include "merge.hpp"
#include "task.hpp"

namespace goblin::matmul {
namespace {

constexpr int kNodeBits = 20;
constexpr int kDepthBits = 5;
constexpr std::uint64_t kStateVersion = 2;

std::uint32_t depth(std::uint32_t node) {
  return static_cast<std::uint32_t>(std::bit_width(node)) - 1;
}

bool inside(std::uint32_t node, std::uint32_t ancestor) {
  const std::uint32_t down = depth(node);
  const std::uint32_t up = depth(ancestor);
  return down >= up && node >> (down - up) == ancestor;
}

TaskKey child(TaskKey key, std::uint32_t which) {
  key.node = 2 * key.node + which;
  return key;
}

TaskKey part_of(TaskKey key, std::int64_t part) {
  key.root_depth = depth(key.node);
  key.part = part + 1;
  return key;
}

}  // namespace

std::uint32_t TaskKey::root() const { return node >> (depth(node) - root_depth); }

std::uint64_t TaskKey::id(std::int64_t parts) const {
  std::uint64_t id = static_cast<std::uint64_t>(cell) << kNodeBits | node;
  id = id << kDepthBits | root_depth;
  return 1 + id * (static_cast<std::uint64_t>(parts) + 1) + static_cast<std::uint64_t>(part);
}

TaskKey TaskKey::from_id(std::uint64_t id, std::int64_t parts) {
  const std::uint64_t radix = static_cast<std::uint64_t>(parts) + 1;
  id -= 1;
  TaskKey key;
  key.part = static_cast<std::int64_t>(id % radix);
  id /= radix;
  key.root_depth = static_cast<std::uint32_t>(id & ((1U << kDepthBits) - 1));
  id >>= kDepthBits;
  key.node = static_cast<std::uint32_t>(id & ((1U << kNodeBits) - 1));
  key.cell = static_cast<std::int64_t>(id >> kNodeBits);
  return key;
}

Result<std::unique_ptr<Planner>> MatmulPlanner::create(
    const Job& job, const Capacity& capacity, const Services& services,
    std::optional<std::span<const std::byte>> state) {
  GOBLIN_TRY(Problem problem, make_problem(job.input(0), job.input(1), job.i64(0)));
  if (job.output(0).spec() != problem.result || !job.output(0).is_row_major()) {
    return fail(Code::kInvalidArgument, "output c is " + job.output(0).type() +
                                            "; the product is a row-major " +
                                            Tensor(problem.result).type());
  }
  Tiling tiling;
  if (state) {
    std::uint64_t version = 0;
    if (state->size() != sizeof version + sizeof tiling) {
      return fail(Code::kCorrupt, "the saved plan has " + std::to_string(state->size()) +
                                      " bytes; submit the job again");
    }
    std::memcpy(&version, state->data(), sizeof version);
    std::memcpy(&tiling, state->data() + sizeof version, sizeof tiling);
    if (version != kStateVersion || (!problem.trivial() && !is_possible(problem, tiling))) {
      return fail(Code::kCorrupt,
                  "the saved plan is not one of this version of matmul; submit the job again");
    }
    if (problem.trivial()) tiling = {};  // nothing is cut, whatever the state says
  } else if (!problem.trivial()) {
    GOBLIN_TRY(tiling, choose_tiling(problem, capacity));
  }
  return std::unique_ptr<Planner>(new MatmulPlanner(job, services, std::move(problem), tiling));
}

MatmulPlanner::MatmulPlanner(const Job& job, Services services, Problem problem,
                             const Tiling& tiling)
    : job_(job), services_(services), problem_(std::move(problem)), grid_(problem_, tiling) {
  if (problem_.trivial()) return;
  walked_.assign(static_cast<std::size_t>(grid_.regions()), 0);
  if (grid_.tiling().span == 0) passed_.assign(static_cast<std::size_t>(grid_.cells()), false);
}

std::vector<std::byte> MatmulPlanner::state() const {
  const Tiling& tiling = grid_.tiling();
  std::vector<std::byte> bytes(sizeof kStateVersion + sizeof tiling);
  std::memcpy(bytes.data(), &kStateVersion, sizeof kStateVersion);
  std::memcpy(bytes.data() + sizeof kStateVersion, &tiling, sizeof tiling);
  return bytes;
}

Box MatmulPlanner::node_box(std::int64_t cell, std::uint32_t node) const {
  Box box = grid_.cell(cell);
  for (std::uint32_t level = depth(node); level-- > 0;) {
    const auto halves = halve(problem_, box);
    if (!halves)
      throw Failure({Code::kInvalidArgument, "node " + std::to_string(node) + " of cell " +
                                                 std::to_string(cell) + " is none of this plan"});
    box = (*halves)[node >> level & 1U];
  }
  return box;
}

Box MatmulPlanner::box_of(const TaskKey& key) const {
  const Box box = node_box(key.cell, key.node);
  return key.part == 0 ? box : grid_.part(box, key.part - 1);
}

Result<TaskKey> MatmulPlanner::known(const PlannedTask& task) const {
  const TaskKey key = TaskKey::from_id(task.id, grid_.split_parts());
  if (problem_.trivial() || task.id == 0 || key.cell < 0 || key.cell >= grid_.cells() ||
      key.node == 0 || key.root_depth > depth(key.node) || (key.part == 0 && key.root_depth != 0)) {
    return fail(Code::kInvalidArgument,
                "task " + std::to_string(task.id) + " is none of this plan");
  }
  return key;
}

std::optional<TaskKey> MatmulPlanner::take() {
  for (;;) {
    if (!leftovers_.empty()) {
      const TaskKey key = leftovers_.back();
      leftovers_.pop_back();
      return key;
    }
    const auto regions = static_cast<std::int64_t>(walked_.size());
    std::int64_t tried = 0;
    for (; tried < regions; ++tried, turn_ = (turn_ + 1) % regions) {
      if (walked_[static_cast<std::size_t>(turn_)] < grid_.steps(turn_)) break;
    }
    if (tried == regions) return std::nullopt;
    const Grid::Step step = grid_.step(turn_, walked_[static_cast<std::size_t>(turn_)]++);
    turn_ = (turn_ + 1) % regions;
    TaskKey key;
    key.cell = step.cell;
    if (grid_.tiling().span != 0) key = part_of(key, step.part);
    const bool fresh = !touched(key);
    if (!fresh) push_missing(key);
    if (key.part == 0) {
      passed_[static_cast<std::size_t>(key.cell)] = true;
      // From here on only sums to be merged need to be remembered.
      if (auto found = accepted_.find(key.cell); found != accepted_.end()) {
        std::erase_if(found->second, [](const TaskKey& k) { return k.part == 0; });
        if (found->second.empty()) accepted_.erase(found);
      }
    }
    if (fresh) return key;
  }
}

void MatmulPlanner::push_missing(const TaskKey& key) {
  if (covered(key)) return;
  if (!touched(key)) {
    leftovers_.push_back(key);
    return;
  }
  const auto& tasks = accepted_.at(key.cell);
  const bool along_k =
      key.part == 0 && std::any_of(tasks.begin(), tasks.end(), [&](const TaskKey& k) {
        return k.part != 0 && k.root() == key.node;
      });
  if (along_k) {
    for (std::int64_t part = grid_.split_parts(); part-- > 0;) push_missing(part_of(key, part));
    return;
  }
  push_missing(child(key, 1));
  push_missing(child(key, 0));
}

bool MatmulPlanner::better_along_k(const Box& box, const Capacity& capacity) const {
  if (problem_.k <= numerics::kChunk || box.items(problem_) != 1) return false;
  const auto memory = static_cast<double>(capacity.memory_bytes);
  auto shrink = [&](Box part) -> std::optional<Box> {
    while (memory_of(problem_, part) > memory) {
      const auto halves = halve(problem_, part);
      if (!halves) return std::nullopt;
      part = (*halves)[0];
    }
    return part;
  };
  const auto across = shrink(box);
  const auto along = shrink(grid_.part(box, 0));
  if (!across || !along) return !across;
  // Bytes for each element of C.
  auto input = [&](const Box& part) {
    return static_cast<double>(problem_.k * problem_.in_bytes()) *
           (1.0 / static_cast<double>(part.rows.count) +
            1.0 / static_cast<double>(part.columns.count));
  };
  const double sums = static_cast<double>(box.chunks() * problem_.sum_bytes());
  return input(*along) + sums < input(*across) + static_cast<double>(problem_.out_bytes());
}

Result<void> MatmulPlanner::emit(TaskKey key, const Capacity& capacity, TaskSink& sink) {
  for (;;) {
    const Box box = box_of(key);
    const double need = memory_of(problem_, box);
    if (need <= static_cast<double>(capacity.memory_bytes)) {
      PlannedTask task = make_task(job_, problem_, box);
      task.id = key.id(grid_.split_parts());
      task.memory_bytes = static_cast<std::uint64_t>(need);
      auto done = sink.emit(task);
      if (!done) leftovers_.push_back(key);
      return done;
    }
    if (key.part == 0 && better_along_k(box, capacity)) {
      for (std::int64_t part = grid_.split_parts() - 1; part > 0; --part) {
        leftovers_.push_back(part_of(key, part));
      }
      key = part_of(key, 0);
      continue;
    }
    if (!halve(problem_, box) || key.node >= 1U << (kNodeBits - 1)) {
      leftovers_.push_back(key);
      return fail(Code::kExhausted, "the smallest task needs " +
                                        std::to_string(static_cast<std::uint64_t>(need)) +
                                        " bytes of memory; the host offers " +
                                        std::to_string(capacity.memory_bytes) + ": give it more");
    }
    leftovers_.push_back(child(key, 1));
    key = child(key, 0);
  }
}

Result<Progress> MatmulPlanner::next(const Capacity& capacity, TaskSink& sink) {
  const std::uint64_t room = sink.room();
  while (sink.room() > 0) {
    const auto key = take();
    if (!key) return Progress::kDone;
    if (auto done = emit(*key, capacity, sink); !done) {
      // What was emitted before stands; the error comes again with the next call.
      if (done.error().code == Code::kExhausted && sink.room() < room) return Progress::kMore;
      return fail(std::move(done).error());
    }
  }
  if (!leftovers_.empty()) return Progress::kMore;
  for (std::size_t region = 0; region < walked_.size(); ++region) {
    if (walked_[region] < grid_.steps(static_cast<std::int64_t>(region))) return Progress::kMore;
  }
  return Progress::kDone;
}

void MatmulPlanner::mark(const TaskKey& key) {
  if (key.part == 0 && !passed_.empty() && passed_[static_cast<std::size_t>(key.cell)]) return;
  accepted_[key.cell].insert(key);
}

bool MatmulPlanner::accepted(const TaskKey& key) const {
  const auto found = accepted_.find(key.cell);
  return found != accepted_.end() && found->second.contains(key);
}

bool MatmulPlanner::touched(const TaskKey& key) const {
  const auto found = accepted_.find(key.cell);
  if (found == accepted_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [&](const TaskKey& k) {
    return inside(k.node, key.node) &&
           (key.part == 0 || (k.part == key.part && k.root_depth == key.root_depth));
  });
}

bool MatmulPlanner::covered(const TaskKey& key) const {
  if (accepted(key)) return true;
  if (!touched(key)) return false;
  if (key.part == 0) {
    bool all = true;
    for (std::int64_t part = 0; all && part < grid_.split_parts(); ++part) {
      all = covered(part_of(key, part));
    }
    if (all) return true;
  }
  return covered(child(key, 0)) && covered(child(key, 1));
}

void MatmulPlanner::leaves(const TaskKey& key, std::vector<TaskKey>& out) const {
  if (accepted(key)) {
    out.push_back(key);
    return;
  }
  leaves(child(key, 0), out);
  leaves(child(key, 1), out);
}

Tensor MatmulPlanner::c_window(const Box& box) const {
  goblin_tensor_v1 raw{};
  raw.dtype = problem_.out;
  std::int64_t offset = box.rows.begin * problem_.c.row + box.columns.begin * problem_.c.column;
  auto push = [&](std::int64_t extent, std::int64_t stride) {
    raw.shape[raw.rank] = extent;
    raw.strides[raw.rank++] = stride;
  };
  for (std::size_t i = 0; i < problem_.batch.size(); ++i) {
    offset += box.batch[i].begin * problem_.c.batch[i];
    if (box.batch[i].count != 1) push(box.batch[i].count, problem_.c.batch[i]);
  }
  push(box.rows.count, problem_.c.row);
  push(box.columns.count, problem_.c.column);
  raw.data = job_.output(0).bytes() + offset;
  return Tensor(raw);
}

Result<void> MatmulPlanner::merge_if_complete(const TaskKey& key, const Tensor& last) {
  const auto& tasks = accepted_.at(key.cell);
  const auto parts = grid_.split_parts();
  if (static_cast<std::int64_t>(tasks.size()) < parts) return {};
  TaskKey root{key.cell, key.root(), 0, 0};
  std::vector<TaskKey> found;
  for (std::int64_t part = 0; part < parts; ++part) {
    if (!covered(part_of(root, part))) return {};
  }
  for (std::int64_t part = 0; part < parts; ++part) leaves(part_of(root, part), found);
  const Box whole = node_box(key.cell, key.root());
  std::vector<PartialSums> sums;
  sums.reserve(found.size());
  for (const TaskKey& leaf : found) {
    const Box box = box_of(leaf);
    PartialSums part{last, box.rows.begin - whole.rows.begin,
                     box.columns.begin - whole.columns.begin};
    if (leaf != key) {
      GOBLIN_TRY(part.sums, services_.read_result(leaf.id(parts), 0));
      if (part.sums.spec() != make_task(job_, problem_, box).outputs[0]) {
        return fail(Code::kCorrupt, "the kept result of task " + std::to_string(leaf.id(parts)) +
                                        " is " + part.sums.type());
      }
    }
    sums.push_back(part);
  }
  return merge_sums(c_window(whole), sums);
}

Result<Disposition> MatmulPlanner::accept(const PlannedTask& task,
                                          std::span<const Tensor> outputs) {
  GOBLIN_TRY(const TaskKey key, known(task));
  const Box box = box_of(key);
  const TensorSpec expected = make_task(job_, problem_, box).outputs[0];
  if (outputs.size() != 1 || outputs[0].spec() != expected) {
    return fail(Code::kInvalidArgument,
                "the result of task " + std::to_string(task.id) + " is " +
                    (outputs.size() == 1 ? outputs[0].type()
                                         : std::to_string(outputs.size()) + " tensors") +
                    "; expected " + Tensor(expected).type());
  }
  mark(key);
  if (key.part == 0) {
    copy_elements(c_window(box), outputs[0]);
    return Disposition::kMerged;
  }
  GOBLIN_TRY_VOID(merge_if_complete(key, outputs[0]));
  return Disposition::kKeep;
}

Result<void> MatmulPlanner::restore(const PlannedTask& task) {
  GOBLIN_TRY(const TaskKey key, known(task));
  if (key.part != 0) {
    return fail(Code::kInvalidArgument, "task " + std::to_string(task.id) +
                                            " was not merged: its result must be given again");
  }
  mark(key);
  return {};
}

Result<void> MatmulPlanner::recall(const PlannedTask& task, std::span<const Tensor> outputs) {
  GOBLIN_TRY(const TaskKey key, known(task));
  const Box box = box_of(key);
  if (key.part != 0 || outputs.size() != 1 ||
      outputs[0].spec() != make_task(job_, problem_, box).outputs[0]) {
    return fail(Code::kInvalidArgument,
                "task " + std::to_string(task.id) + " has no merged result of that type");
  }
  copy_elements(outputs[0], c_window(box));
  return {};
}

Result<void> MatmulPlanner::finish() {
  if (problem_.trivial()) zero_elements(job_.output(0));
  return {};
}

}  // namespace goblin::matmul
