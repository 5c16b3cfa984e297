// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A plugin that works for honest jobs and is careless in the way that its parameter "mode" says:
// what the conformance kit must find. It doubles a vector, some elements a task, as many as the
// first hosts can hold; that length is its state.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

#include "goblin/kind.hpp"
#include "tests/testing/plugins/sloppy_modes.hpp"

namespace {

using namespace goblin;
using namespace goblin::testing;

constexpr std::uint64_t kLeast = 1 << 12;
constexpr std::int64_t kMostLength = 1 << 24;

[[gnu::noinline, gnu::no_sanitize("undefined")]] void crash() {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
}

struct State {
  std::int64_t step = 1;
  std::int64_t first = 0;
};

std::uint64_t task_bytes(std::int64_t length) {
  return kLeast + 16 * static_cast<std::uint64_t>(length);
}

class SloppyPlanner final : public Planner {
 public:
  SloppyPlanner(const Job& job, const Capacity& capacity, State state, bool restarted)
      : job_(job),
        mode_(job.i64(0)),
        length_(job.input(0).dim(0)),
        state_(state),
        restarted_(restarted),
        bit_(mode_ == kBitsOfCapacity && capacity.memory_bytes > (1 << 20) ? 1 : 0) {
    done_.assign(static_cast<std::size_t>(length_ / state_.step + 1), false);
  }

  std::vector<std::byte> state() const override {
    std::vector<std::byte> bytes(sizeof state_);
    std::memcpy(bytes.data(), &state_, sizeof state_);
    return bytes;
  }

  Result<Progress> next(const Capacity& capacity, TaskSink& sink) override {
    if (mode_ == kNextCrashesWithoutHosts && capacity.hosts == 0) crash();
    while (next_ * state_.step < length_ && sink.room() > 0) {
      const std::int64_t id = next_;
      if (done_[static_cast<std::size_t>(id)]) {
        ++next_;
        continue;
      }
      if (mode_ == kNextWaitsForEver && id > 0) return Progress::kWait;
      const std::int64_t begin = begin_of(id);
      const std::int64_t count = count_of(id);
      const std::uint64_t need = task_bytes(count);
      if (need > capacity.memory_bytes && mode_ != kNextIgnoresMemory) {
        if (mode_ == kNextLosesRefusedTask) ++next_;
        return fail(Code::kExhausted, mode_ == kNextSaysNoBytes
                                          ? "not enough memory"
                                          : "a task needs " + std::to_string(need) + " bytes");
      }
      PlannedTask task;
      task.id = static_cast<std::uint64_t>(id);
      task.params = {job_.param(0), Value(mode_ == kStateIsForgotten && restarted_ ? 1 : bit_)};
      task.inputs = {View::whole(job_, 0).slice(0, begin, count)};
      task.outputs = {{GOBLIN_F64, {count}}};
      task.flops = static_cast<double>(count);
      task.memory_bytes = mode_ == kNextUnderstatesMemory ? 8 : need;
      if (mode_ == kBitsOfLayout) task.inputs[0].raw.spec.strides[0] = 8;
      GOBLIN_TRY_VOID(sink.emit(task));
      ++next_;
    }
    return next_ * state_.step >= length_ ? Progress::kDone : Progress::kMore;
  }

  Result<Disposition> accept(const PlannedTask& task, std::span<const Tensor> outputs) override {
    GOBLIN_TRY_VOID(known(task, mode_ == kAcceptByNumber));
    const auto id = static_cast<std::int64_t>(task.id);
    double* const to = job_.output(0).data<double>() + begin_of(id);
    const double* const from = outputs[0].data<double>();
    for (std::int64_t i = 0; i < outputs[0].size(); ++i) {
      const bool add = mode_ == kAcceptAppends && done_[static_cast<std::size_t>(id)];
      to[i] = add ? to[i] + from[i] : from[i];
    }
    if (task.id < done_.size()) done_[static_cast<std::size_t>(id)] = true;
    return Disposition::kMerged;
  }
  Result<void> restore(const PlannedTask& task) override {
    GOBLIN_TRY_VOID(known(task, false));
    done_[static_cast<std::size_t>(task.id)] = true;
    return {};
  }
  Result<void> recall(const PlannedTask& task, std::span<const Tensor> outputs) override {
    GOBLIN_TRY_VOID(known(task, mode_ == kRecallByNumber));
    const double* const from =
        job_.output(0).data<double>() + begin_of(static_cast<std::int64_t>(task.id));
    for (std::int64_t i = 0; i < outputs[0].size(); ++i) {
      outputs[0].data<double>()[i] = mode_ == kRecallRounds ? std::nearbyint(from[i]) : from[i];
    }
    return {};
  }
  Result<void> finish() override {
    if (mode_ == kFinishTwice && finished_) job_.output(0).data<double>()[0] += 1;
    finished_ = true;
    return {};
  }

 private:
  [[nodiscard]] std::int64_t begin_of(std::int64_t id) const { return id * state_.step; }
  [[nodiscard]] std::int64_t count_of(std::int64_t id) const {
    return std::min(state_.step, length_ - begin_of(id));
  }
  [[nodiscard]] Result<void> known(const PlannedTask& task, bool believe) const {
    if (believe) return {};
    const auto id = static_cast<std::int64_t>(task.id);
    if (task.id >= done_.size() || begin_of(id) >= length_ || task.outputs.size() != 1 ||
        task.outputs[0] != TensorSpec{GOBLIN_F64, {count_of(id)}}) {
      return fail(Code::kNotFound, "task " + std::to_string(task.id) + " is none of this job");
    }
    return {};
  }

  Job job_;
  std::int64_t mode_, length_;
  State state_;
  bool restarted_;
  std::int64_t bit_;
  std::vector<bool> done_;
  std::int64_t next_ = 0;
  bool finished_ = false;
};

class Sloppy final : public Kind {
 public:
  static constexpr const char* kName = "sloppy";
  static constexpr std::uint32_t kVersion = 1;

  Description describe() const override {
    return Description("doubles a vector, carelessly")
        .input("x", "a vector", dtypes({GOBLIN_F64}), 1, 1)
        .param("mode", "one of SloppyMode", 0, 0, kSloppyModes - 1)
        .output("y", "twice x")
        .policy(GOBLIN_POLICY_ALGEBRAIC);
  }

  Result<Validated> validate(const Job& job) override {
    const std::int64_t mode = job.i64(0);
    const std::int64_t length = job.input(0).dim(0);
    if (mode == kValidateThrows && length > 1000 && length % 2 == 1) {
      throw std::out_of_range("vector::at");
    }
    if (length > kMostLength) {
      return fail(Code::kInvalidArgument, mode == kValidateNamesNothing
                                              ? "that is too long"
                                              : "argument 'x' has " + std::to_string(length) +
                                                    " elements: at most 2^24 are possible");
    }
    Validated validated;
    validated.outputs = {job.input(0).spec()};
    validated.flops = mode == kValidateLowEstimate ? 1 : static_cast<double>(length);
    validated.bytes = 16.0 * static_cast<double>(length);
    validated.min_task_bytes = mode == kValidateLowMemory ? 16 : task_bytes(1);
    return validated;
  }

  Result<std::unique_ptr<Planner>> make_planner(
      const Job& job, const Capacity& capacity, const Services&,
      std::optional<std::span<const std::byte>> bytes) override {
    const std::int64_t mode = job.i64(0);
    const std::int64_t length = std::max<std::int64_t>(job.input(0).dim(0), 1);
    State state;
    // A dozen tasks or more, so that there is something to restart.
    const std::uint64_t room =
        capacity.memory_bytes < task_bytes(1) ? 1 : (capacity.memory_bytes - kLeast) / 16;
    state.step = static_cast<std::int64_t>(
        std::clamp<std::uint64_t>(room, 1, static_cast<std::uint64_t>(length / 12 + 1)));
    if (bytes) {
      if (bytes->size() != sizeof state && mode != kStateIsBelieved) {
        return fail(Code::kCorrupt, "the state has " + std::to_string(bytes->size()) + " bytes");
      }
      std::memcpy(&state, bytes->data(), std::min(sizeof state, bytes->size()));
      if (mode == kStateIsBelieved && state.first != 0) crash();
      if (mode == kStateHangs) {
        volatile std::int64_t at = 0;
        while (at < length) {
          at = std::min(at + state.step, length);
        }
      }
      if (mode == kStateCrashes && state.step == 0) crash();
      if (state.step < 1 || state.step > length || state.first != 0) {
        return fail(Code::kCorrupt, "the state is none of this kind");
      }
    }
    return std::make_unique<SloppyPlanner>(job, capacity, state, bytes.has_value());
  }

  Result<void> execute(const Task& task, const Device& device) override {
    const std::int64_t mode = expect_numbers(task);
    const Tensor& x = task.input(0);
    const Tensor& y = task.output(0);
    const double* const from = x.data<double>();
    double* const to = y.data<double>();
    if (mode != kExecuteTrustsShape) GOBLIN_TRY_VOID(expect_pair(task));
    if (mode == kExecuteIgnoresCancel && task.i64(1) > 1000) {
      for (volatile bool forever = true; forever;) {
      }
    }
    static bool greedy = mode == kExecuteNeedsMemory;  // once is enough
    if (greedy) {
      greedy = false;
      const std::vector<char> block(std::size_t{96} << 20, 1);
      if (block[12345] != 1) return {};
    }
    for (std::int64_t i = 0; i < x.size(); ++i) {
      if (mode == kExecuteLeavesHoles && i % 7 == 3) continue;
      to[i] = 2 * from[i] + static_cast<double>(task.i64(1) & 1);
      if (mode == kBitsOfThreads && device.threads() > 1) to[i] += 0x1p-40;
    }
    return {};
  }

  Result<Verdict> check(const Task& task, const Device&, Seed seed) override {
    const std::int64_t mode = expect_numbers(task);
    if (mode == kCheckAbstains) return Verdict::kAbstain;
    const double* const y = task.output(0).data<double>();
    if (mode == kCheckTrustsShape && task.output(0).size() < task.input(0).dim(0)) crash();
    GOBLIN_TRY_VOID(expect_pair(task));
    if (mode == kCheckAcceptsAll) return Verdict::kAccept;
    if (mode == kCheckRejectsOnSeed && seed[0] == 0xFF && seed[31] == 0xFF) {
      return Verdict::kReject;
    }
    const Tensor& x = task.input(0);
    for (std::int64_t i = 0; i < x.dim(0); ++i) {
      const double right = 2 * x.at<double>(i) + static_cast<double>(task.i64(1) & 1);
      const bool wrong = mode == kCheckAcceptsNan ? std::abs(y[i] - right) > 0 : y[i] != right;
      if (wrong) return Verdict::kReject;
    }
    return Verdict::kAccept;
  }

  Result<Verdict> compare(const Task& canonical, std::span<const Tensor> other) override {
    const std::int64_t mode = canonical.params.empty() ? 0 : canonical.param(0).raw().as.i;
    if (mode == kCompareIsEmpty && other.empty()) crash();
    if (mode == kCompareByLength && !other.empty() && !canonical.outputs.empty()) {
      const std::uint64_t bytes =
          std::min(canonical.outputs[0].size_bytes(), other[0].size_bytes());
      return bytes == 0 || std::memcmp(canonical.outputs[0].bytes(), other[0].bytes(), bytes) == 0
                 ? Verdict::kAccept
                 : Verdict::kReject;
    }
    return Kind::compare(canonical, other);
  }

 private:
  static std::int64_t expect_numbers(const Task& task) {
    if (task.params.size() != 2 || task.inputs.size() != 1 || task.outputs.size() != 1) {
      throw Failure({Code::kInvalidArgument, "a task has two numbers, one input and one output"});
    }
    (void)task.i64(1);
    return task.i64(0);
  }
  static Result<void> expect_pair(const Task& task) {
    if (task.input(0).rank() != 1 || task.input(0).spec() != task.output(0).spec() ||
        task.input(0).dtype() != GOBLIN_F64) {
      return fail(Code::kInvalidArgument,
                  "x is " + task.input(0).type() + ", y is " + task.output(0).type());
    }
    return {};
  }
};

}  // namespace

GOBLIN_PLUGIN(Sloppy);
