// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "task.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "goblin/numerics/canonical.hpp"

namespace goblin::matmul {
namespace {

/// The window that a box has on an operand, and whether it is viewed transposed.
View window(const Job& job, std::uint32_t index, const Problem& problem, const Layout& layout,
            const Box& box, Range rows, Range columns, std::int64_t& mask, bool& transposed) {
  View view;
  view.raw.source = GOBLIN_SOURCE_JOB_INPUT;
  view.raw.index = index;
  view.raw.spec.dtype = job.input(index).dtype();
  std::int64_t offset = rows.begin * layout.row + columns.begin * layout.column;
  std::uint32_t rank = 0;
  auto push = [&](std::int64_t extent, std::int64_t stride) {
    view.raw.spec.shape[rank] = extent;
    view.raw.spec.strides[rank] = stride;
    ++rank;
  };
  std::size_t dimension = 0;
  for (std::size_t i = 0; i < problem.batch.size(); ++i) {
    offset += box.batch[i].begin * layout.batch[i];
    if (box.batch[i].count == 1) continue;
    if (layout.batch[i] != 0) {
      push(box.batch[i].count, layout.batch[i]);
      mask |= std::int64_t{1} << dimension;
    }
    ++dimension;
  }
  const std::int64_t item = problem.in_bytes();
  transposed =
      columns.count > 1 && layout.column != item && (layout.row == item || rows.count == 1);
  if (transposed) {
    push(columns.count, layout.column);
    push(rows.count, layout.row);
  } else {
    push(rows.count, layout.row);
    push(columns.count, layout.column);
  }
  view.raw.spec.rank = rank;
  view.raw.offset = offset;
  return view;
}

Error misfit(const std::string& what) {
  return {Code::kInvalidArgument, "the task is no matmul: " + what};
}

Tensor matrix(const Tensor& from, std::int64_t offset, std::int64_t rows, std::int64_t row_stride,
              std::int64_t columns, std::int64_t column_stride) {
  goblin_tensor_v1 raw{};
  raw.data = from.bytes() == nullptr ? nullptr : from.bytes() + offset;
  raw.dtype = from.dtype();
  raw.rank = 2;
  raw.shape[0] = rows;
  raw.shape[1] = columns;
  raw.strides[0] = row_stride;
  raw.strides[1] = column_stride;
  return Tensor(raw);
}

}  // namespace

PlannedTask make_task(const Job& job, const Problem& problem, const Box& box) {
  PlannedTask task;
  std::int64_t a_mask = 0;
  std::int64_t b_mask = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  task.inputs.push_back(
      window(job, 0, problem, problem.a, box, box.rows, box.terms, a_mask, a_transposed));
  task.inputs.push_back(
      window(job, 1, problem, problem.b, box, box.terms, box.columns, b_mask, b_transposed));
  task.params = {Value((a_transposed ? kATransposed : 0) | (b_transposed ? kBTransposed : 0) |
                       (box.partial ? kPartial : 0)),
                 Value(a_mask), Value(b_mask)};
  TensorSpec c{box.partial ? problem.sum : problem.out, {}};
  if (box.partial) c.shape.push_back(box.chunks());
  for (std::size_t i = 0; i < problem.batch.size(); ++i) {
    if (box.batch[i].count != 1) c.shape.push_back(box.batch[i].count);
  }
  c.shape.push_back(box.rows.count);
  c.shape.push_back(box.columns.count);
  task.outputs.push_back(std::move(c));
  task.flops = box.flops(problem);
  return task;
}

Result<TaskView> TaskView::read(const Task& task) {
  if (task.params.size() != 3 || task.inputs.size() != 2 || task.outputs.size() != 1) {
    return fail(misfit("it has " + std::to_string(task.params.size()) + " parameters, " +
                       std::to_string(task.inputs.size()) + " inputs and " +
                       std::to_string(task.outputs.size()) + " outputs; 3, 2 and 1 are right"));
  }
  const std::int64_t flags = task.i64(0);
  if ((flags & ~(kATransposed | kBTransposed | kPartial)) != 0) {
    return fail(misfit("unknown flags " + std::to_string(flags)));
  }
  TaskView view;
  view.a_ = task.inputs[0];
  view.b_ = task.inputs[1];
  view.c_ = task.outputs[0];
  view.a_transposed_ = (flags & kATransposed) != 0;
  view.b_transposed_ = (flags & kBTransposed) != 0;
  view.partial_ = (flags & kPartial) != 0;
  const std::size_t fixed = view.partial_ ? 3 : 2;
  if (view.a_.rank() < 2 || view.b_.rank() < 2 || view.c_.rank() < fixed) {
    return fail(
        misfit("a is " + view.a_.type() + ", b " + view.b_.type() + ", c " + view.c_.type()));
  }
  // Whether the pair of dtypes is one that is computed: the operator says.
  if (view.a_.dtype() != view.b_.dtype()) {
    return fail(misfit("a is " + view.a_.type() + " and b " + view.b_.type()));
  }
  const std::size_t lead = view.partial_ ? 1 : 0;
  const std::size_t batch = view.c_.rank() - fixed;
  const std::int64_t masks[2] = {task.i64(1), task.i64(2)};
  std::vector<std::int64_t>* steps[2] = {&view.a_step_, &view.b_step_};
  const Tensor* operands[2] = {&view.a_, &view.b_};
  for (std::size_t side = 0; side < 2; ++side) {
    if (masks[side] < 0 || (masks[side] >> batch) != 0) {
      return fail(misfit("batch mask " + std::to_string(masks[side]) + " for " +
                         std::to_string(batch) + " batch dimensions"));
    }
    std::size_t own = 0;
    const Tensor& operand = *operands[side];
    for (std::size_t i = 0; i < batch; ++i) {
      if ((masks[side] >> i & 1) == 0) {
        steps[side]->push_back(0);
        continue;
      }
      if (own + 2 >= operand.rank() || operand.dim(own) != view.c_.dim(lead + i)) {
        return fail(misfit("batch dimensions of " + operand.type() + " for " + view.c_.type()));
      }
      steps[side]->push_back(operand.stride(own++));
    }
    if (own + 2 != operand.rank()) {
      return fail(misfit("batch dimensions of " + operand.type() + " for " + view.c_.type()));
    }
  }
  for (std::size_t i = 0; i < batch; ++i) {
    view.batch_.push_back(view.c_.dim(lead + i));
    view.c_step_.push_back(view.c_.stride(lead + i));
    view.items_ *= view.c_.dim(lead + i);
  }
  const std::size_t ar = view.a_.rank();
  const std::size_t br = view.b_.rank();
  view.m_ = view.a_.dim(view.a_transposed_ ? ar - 1 : ar - 2);
  view.k_ = view.a_.dim(view.a_transposed_ ? ar - 2 : ar - 1);
  view.n_ = view.b_.dim(view.b_transposed_ ? br - 2 : br - 1);
  const std::int64_t terms = view.b_.dim(view.b_transposed_ ? br - 1 : br - 2);
  if (view.partial_) view.chunks_ = view.c_.dim(0);
  const std::int64_t chunks = (view.k_ + numerics::kChunk - 1) / numerics::kChunk;
  if (terms != view.k_ || view.c_.dim(view.c_.rank() - 2) != view.m_ ||
      view.c_.dim(view.c_.rank() - 1) != view.n_ || (view.partial_ && view.chunks_ != chunks)) {
    return fail(misfit("a is " + view.a_.type() + ", b " + view.b_.type() + ", c " +
                       view.c_.type() + ", flags " + std::to_string(flags)));
  }
  return view;
}

Product TaskView::product(std::int64_t index) const {
  const std::int64_t chunk = index / items_;
  std::int64_t item = index % items_;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = partial_ ? chunk * c_.stride(0) : 0;
  for (std::size_t i = batch_.size(); i-- > 0;) {
    const std::int64_t at = item % batch_[i];
    item /= batch_[i];
    a += at * a_step_[i];
    b += at * b_step_[i];
    c += at * c_step_[i];
  }
  const std::int64_t first = partial_ ? chunk * numerics::kChunk : 0;
  const std::int64_t terms = partial_ ? std::min(numerics::kChunk, k_ - first) : k_;
  const std::size_t ar = a_.rank();
  const std::size_t br = b_.rank();
  const std::size_t cr = c_.rank();
  const std::int64_t a_row = a_.stride(a_transposed_ ? ar - 1 : ar - 2);
  const std::int64_t a_column = a_.stride(a_transposed_ ? ar - 2 : ar - 1);
  const std::int64_t b_row = b_.stride(b_transposed_ ? br - 1 : br - 2);
  const std::int64_t b_column = b_.stride(b_transposed_ ? br - 2 : br - 1);
  return {matrix(a_, a + first * a_column, m_, a_row, terms, a_column),
          matrix(b_, b + first * b_row, terms, b_row, n_, b_column),
          matrix(c_, c, m_, c_.stride(cr - 2), n_, c_.stride(cr - 1))};
}

}  // namespace goblin::matmul
