// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Tasks as small as they get, to measure what a task costs besides its work: task i maps i to a
// 64-bit number, 8 bytes. The map can be inverted, and that is the check. With "in_flight" set, a
// task is planned only when an earlier one has been accepted and journalled.
#include <chrono>

#include "goblin/kind.hpp"
#include "tests/testing/plugins/tiny_numbers.hpp"

namespace {

using namespace goblin;

using testing::gather;
using testing::scatter;

constexpr std::uint64_t kTaskBytes = 4096;

class TinyPlanner final : public Planner {
 public:
  explicit TinyPlanner(const Job& job)
      : values_(job.output(0)),
        stamps_(job.output(1)),
        in_flight_(static_cast<std::uint64_t>(job.i64(1))),
        done_(static_cast<std::size_t>(job.i64(0)), false) {}

  Result<Progress> next(const Capacity& capacity, TaskSink& sink) override {
    PlannedTask task;
    task.outputs = {{GOBLIN_I64, {}}};
    task.flops = 1;
    task.memory_bytes = kTaskBytes;
    for (; next_ < done_.size() && sink.room() > 0; ++next_) {
      if (done_[next_]) continue;
      if (capacity.memory_bytes < kTaskBytes) {
        return fail(Code::kExhausted, "a task needs " + std::to_string(kTaskBytes) +
                                          " bytes of memory; the host offers " +
                                          std::to_string(capacity.memory_bytes));
      }
      if (in_flight_ > 0 && waiting_ >= in_flight_) return Progress::kWait;
      task.id = next_;
      task.params = {Value(static_cast<std::int64_t>(next_))};
      if (in_flight_ > 0) stamps_.at<double>(static_cast<std::int64_t>(next_)) = micros();
      GOBLIN_TRY_VOID(sink.emit(task));
      ++waiting_;
    }
    return next_ == done_.size() ? Progress::kDone : Progress::kMore;
  }

  Result<Disposition> accept(const PlannedTask& task, std::span<const Tensor> outputs) override {
    values_.at<std::int64_t>(place(task)) = result_of(outputs).at<std::int64_t>();
    take(task);
    return Disposition::kMerged;
  }
  Result<void> restore(const PlannedTask& task) override {
    (void)place(task);
    take(task);
    return {};
  }
  Result<void> recall(const PlannedTask& task, std::span<const Tensor> outputs) override {
    result_of(outputs).at<std::int64_t>() = values_.at<std::int64_t>(place(task));
    return {};
  }
  Result<void> finish() override { return {}; }

 private:
  static double micros() {
    return std::chrono::duration<double, std::micro>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  [[nodiscard]] std::int64_t place(const PlannedTask& task) const {
    if (task.id >= done_.size()) {
      throw Failure({Code::kNotFound, "task " + std::to_string(task.id) + " is not of this job"});
    }
    return static_cast<std::int64_t>(task.id);
  }
  static const Tensor& result_of(std::span<const Tensor> outputs) {
    if (outputs.size() != 1 || outputs[0].spec() != TensorSpec{GOBLIN_I64, {}}) {
      throw Failure({Code::kInvalidArgument, "a task's result is one i64[]"});
    }
    return outputs[0];
  }
  void take(const PlannedTask& task) {
    // Planned by this planner, and not accepted before (a result may come in twice).
    if (task.id < next_ && !done_[task.id]) --waiting_;
    done_[task.id] = true;
  }

  Tensor values_, stamps_;
  std::uint64_t in_flight_;
  std::vector<bool> done_;     ///< accepted
  std::uint64_t next_ = 0;     ///< the walk is here
  std::uint64_t waiting_ = 0;  ///< planned by the walk and not accepted
};

class TinyTasks final : public Kind {
 public:
  static constexpr const char* kName = "tiny-tasks";
  static constexpr std::uint32_t kVersion = 1;

  Description describe() const override {
    return Description("many tasks that do next to nothing")
        .param("tasks", "how many", 1, 1, 100'000'000)
        .param("in_flight", "tasks at once at most; 0: any number", 0, 0, 1'000'000)
        .output("values", "one number per task, i64[tasks]")
        .output("stamps", "when each was planned in µs, f64[tasks]; f64[0] unless in_flight is set")
        .policy(GOBLIN_POLICY_ALGEBRAIC);
  }

  Result<Validated> validate(const Job& job) override {
    Validated validated;
    validated.outputs = {{GOBLIN_I64, {job.i64(0)}},
                         {GOBLIN_F64, {job.i64(1) > 0 ? job.i64(0) : 0}}};
    validated.flops = static_cast<double>(job.i64(0));
    validated.bytes = 16.0 * static_cast<double>(job.i64(0));
    validated.min_task_bytes = kTaskBytes;
    return validated;
  }

  Result<std::unique_ptr<Planner>> make_planner(
      const Job& job, const Capacity&, const Services&,
      std::optional<std::span<const std::byte>>) override {
    return std::make_unique<TinyPlanner>(job);
  }

  Result<void> execute(const Task& task, const Device&) override {
    GOBLIN_TRY_VOID(expect_types(task));
    task.output(0).at<std::int64_t>() =
        static_cast<std::int64_t>(scatter(static_cast<std::uint64_t>(task.i64(0))));
    return {};
  }

  Result<Verdict> check(const Task& task, const Device&, Seed) override {
    GOBLIN_TRY_VOID(expect_types(task));
    const auto value = static_cast<std::uint64_t>(task.output(0).at<std::int64_t>());
    return gather(value) == static_cast<std::uint64_t>(task.i64(0)) ? Verdict::kAccept
                                                                    : Verdict::kReject;
  }

 private:
  static Result<void> expect_types(const Task& task) {
    if (task.params.size() != 1 || !task.inputs.empty() || task.outputs.size() != 1 ||
        task.outputs[0].spec() != TensorSpec{GOBLIN_I64, {}}) {
      return fail(Code::kInvalidArgument,
                  "a task has one number, no inputs and one output of type i64[]");
    }
    return {};
  }
};

}  // namespace

GOBLIN_PLUGIN(TinyTasks);
