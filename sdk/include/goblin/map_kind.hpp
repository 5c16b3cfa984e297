// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A base for kinds whose work falls into independent chunks: the range of items [0, n) is cut into
// chunks whose length depends on the job alone, each chunk gives one small partial result, and the
// partial results are folded in ascending order. So the answer has the same bits however many hosts
// took part. An author writes describe, plan, compute and fold; all else is done here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "goblin/kind.hpp"

namespace goblin {

/// How a job is cut. A pure function of the job's parameters and the types of its inputs.
struct MapPlan {
  std::uint64_t items = 0;          ///< the range is [0, items)
  std::uint64_t chunk = 1;          ///< items of a task; the last one may have fewer
  std::vector<TensorSpec> partial;  ///< result of one chunk: keep it small
  std::vector<TensorSpec> outputs;  ///< of the job
  double flops_per_item = 1;
  std::uint64_t scratch_bytes = 0;  ///< that compute() takes beside inputs and partial result

  [[nodiscard]] std::uint64_t chunks() const { return items / chunk + (items % chunk != 0); }
};

/// One chunk on a host.
struct Chunk {
  const Job& job;  ///< parameters and inputs; no outputs
  std::uint64_t index = 0, begin = 0, end = 0;
  std::span<const Tensor> partial;  ///< to be written, row-major, zero at first
};

class MapKind : public Kind {
 public:
  /// May refuse, naming the argument. Runs on the lab side and again on hosts.
  [[nodiscard]] virtual Result<MapPlan> plan(const Job& job) const = 0;
  /// Host side: items [chunk.begin, chunk.end) into chunk.partial. Poll device.cancelled().
  virtual Result<void> compute(const Chunk& chunk, const Device& device) const = 0;
  /// Lab side: adds a partial result to job.outputs, which are zero at first. Ascending `chunk`.
  virtual Result<void> fold(const Job& job, std::uint64_t chunk,
                            std::span<const Tensor> partial) const = 0;
  /// Lab side: after the last fold.
  virtual Result<void> complete(const Job& /*job*/) const { return {}; }

  Result<Validated> validate(const Job& job) final {
    GOBLIN_TRY(const MapPlan plan, checked_plan(job));
    double bytes = 0;
    for (const TensorSpec& spec : plan.partial) {
      bytes += static_cast<double>(Tensor(spec).size_bytes()) * static_cast<double>(plan.chunks());
    }
    for (const Tensor& input : job.inputs) {
      if (input.present()) bytes += static_cast<double>(input.size_bytes());
    }
    return Validated{plan.outputs, plan.flops_per_item * static_cast<double>(plan.items), bytes,
                     task_bytes(job, plan)};
  }

  Result<std::unique_ptr<Planner>> make_planner(
      const Job& job, const Capacity& /*capacity*/, const Services& services,
      std::optional<std::span<const std::byte>> /*state*/) final {
    GOBLIN_TRY(MapPlan plan, checked_plan(job));
    return std::make_unique<MapPlanner>(*this, job, services, std::move(plan));
  }

  Result<void> execute(const Task& task, const Device& device) final {
    if (task.params.empty()) return fail(Code::kInvalidArgument, "the chunk's index is missing");
    Job job;
    job.params.assign(task.params.begin(), task.params.end() - 1);
    job.inputs = task.inputs;
    GOBLIN_TRY(const MapPlan plan, checked_plan(job));
    const auto index = static_cast<std::uint64_t>(task.params.back().i64());
    if (index >= plan.chunks()) {
      return fail(Code::kInvalidArgument, "chunk " + std::to_string(index) + " of " +
                                              std::to_string(plan.chunks()) + " does not exist");
    }
    bool fits = task.outputs.size() == plan.partial.size();
    for (std::size_t i = 0; fits && i < plan.partial.size(); ++i) {
      fits = task.outputs[i].spec() == plan.partial[i] && task.outputs[i].is_row_major();
    }
    if (!fits) return fail(Code::kInvalidArgument, "the task's outputs are not a chunk's result");
    for (const Tensor& out : task.outputs) {
      if (out.size() != 0) std::memset(out.bytes(), 0, out.size_bytes());
    }
    const std::uint64_t begin = index * plan.chunk;
    const std::uint64_t end = begin + std::min(plan.chunk, plan.items - begin);
    return compute({job, index, begin, end, task.outputs}, device);
  }

 private:
  [[nodiscard]] Result<MapPlan> checked_plan(const Job& job) const {
    GOBLIN_TRY(MapPlan plan, this->plan(job));
    if (plan.chunk == 0) return fail(Code::kInternal, "the plan's chunks have no items");
    return plan;
  }
  static std::uint64_t task_bytes(const Job& job, const MapPlan& plan) {
    std::uint64_t bytes = plan.scratch_bytes;
    for (const TensorSpec& spec : plan.partial) bytes += Tensor(spec).size_bytes();
    for (const Tensor& input : job.inputs) {
      if (input.present()) bytes += input.size_bytes();
    }
    return bytes;
  }

  class MapPlanner final : public Planner {
   public:
    MapPlanner(const MapKind& kind, Job job, Services services, MapPlan plan)
        : kind_(kind), job_(std::move(job)), services_(services), plan_(std::move(plan)) {
      task_.params = job_.params;
      task_.params.emplace_back(0);
      for (std::uint32_t i = 0; i < job_.inputs.size(); ++i) {
        task_.inputs.push_back(View::whole(job_, i));
      }
      task_.outputs = plan_.partial;
      task_.memory_bytes = task_bytes(job_, plan_);
    }

    Result<Progress> next(const Capacity& capacity, TaskSink& sink) override {
      if (task_.memory_bytes > capacity.memory_bytes && next_ < plan_.chunks()) {
        return fail(Code::kExhausted, "a chunk needs " + std::to_string(task_.memory_bytes) +
                                          " bytes of memory; the host offers " +
                                          std::to_string(capacity.memory_bytes));
      }
      for (; next_ < plan_.chunks() && sink.room() > 0; ++next_) {
        task_.id = next_;
        task_.params.back() = Value(next_);
        const std::uint64_t begin = next_ * plan_.chunk;
        task_.flops =
            plan_.flops_per_item * static_cast<double>(std::min(plan_.chunk, plan_.items - begin));
        GOBLIN_TRY_VOID(sink.emit(task_));
      }
      return next_ == plan_.chunks() ? Progress::kDone : Progress::kMore;
    }
    Result<Disposition> accept(const PlannedTask& /*task*/,
                               std::span<const Tensor> /*outputs*/) override {
      return Disposition::kKeep;
    }
    Result<void> finish() override {
      for (const Tensor& out : job_.outputs) {
        if (out.size() != 0) std::memset(out.bytes(), 0, out.size_bytes());
      }
      std::vector<Tensor> partial(plan_.partial.size());
      for (std::uint64_t chunk = 0; chunk < plan_.chunks(); ++chunk) {
        for (std::uint32_t i = 0; i < partial.size(); ++i) {
          GOBLIN_TRY(partial[i], services_.read_result(chunk, i));
        }
        GOBLIN_TRY_VOID(kind_.fold(job_, chunk, partial));
      }
      return kind_.complete(job_);
    }

   private:
    const MapKind& kind_;
    Job job_;
    Services services_;
    MapPlan plan_;
    PlannedTask task_;
    std::uint64_t next_ = 0;
  };
};

}  // namespace goblin
