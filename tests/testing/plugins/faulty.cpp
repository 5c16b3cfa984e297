// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A plugin that does wrong whatever its parameter "mode" says, and doubles a vector otherwise.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include "goblin/kind.hpp"
#include "tests/testing/plugins/faulty_modes.hpp"

namespace {

using namespace goblin;
using namespace goblin::testing;

// Not found by UBSan first: the signal is what is wanted.
[[gnu::noinline, gnu::no_sanitize("undefined")]] void crash() {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
}

[[noreturn]] void spin() {
  for (volatile bool forever = true; forever;) {
  }
  std::abort();
}

int descend(volatile int* below);
// Through a pointer that may change, or compilers warn of a recursion that never ends.
int (*volatile go_down)(volatile int*) = descend;
[[gnu::noinline]] int descend(volatile int* below) {
  volatile int frame[1024] = {};
  frame[0] = *below + 1;
  return go_down(frame) + frame[1];
}

double count_descriptors() {
  constexpr int kMost = 1024;
  double count = 0;
  for (int fd = 0; fd < kMost; ++fd) {
    count += ::fcntl(fd, F_GETFD) != -1;
  }
  return count;
}

void fault_in_execute(std::int64_t mode, const Task& task, const Device& device) {
  auto* y = task.output(0).data<double>();
  switch (mode) {
    case kExecuteCrash:
      return crash();
    case kExecuteAbort:
      std::abort();
    case kExecuteOverflowStack: {
      volatile int top = 0;
      y[0] = descend(&top);
      return;
    }
    case kExecuteHang:
      std::atomic_ref(y[0]).store(1);
      spin();
    case kExecuteWaitForCancel:
      std::atomic_ref(y[0]).store(1);
      while (!device.cancelled()) {
        ::usleep(500);
      }
      throw Failure({Code::kCancelled, "stopped as asked"});
    case kExecuteExit:
      std::_Exit(0);
    case kExecuteExit3:
      std::exit(3);
    case kExecutePrint:
      std::printf("printed\nand more, without an end");
      std::fputs("said\x1b[31m in red\n", stderr);
      return;
    case kExecuteTake16GiB: {
      const std::vector<char> block(std::size_t{16} << 30, 1);
      y[0] = block[12345];
      return;
    }
    case kExecuteMallocUnchecked: {
      auto* block = static_cast<char*>(std::malloc(std::size_t{16} << 30));
      static_cast<volatile char*>(block)[0] = 1;
      std::free(block);
      return;
    }
    case kExecuteThrow:
      throw std::runtime_error("thrown by execute");
    case kExecuteThrowInt:
      throw 42;
    case kExecuteCloseSocket:
      ::shutdown(3, SHUT_RDWR);
      ::close(3);
      spin();
    case kExecuteReplaceSocket:
      ::dup2(STDIN_FILENO, 3);
      return;
    case kExecuteCloseSocketUnseen:
      ::close(3);
      spin();
    case kExecuteForgeAnswer: {
      const std::string garbage(64, 'x');
      [[maybe_unused]] const auto n = ::write(3, garbage.data(), garbage.size());
      return;
    }
    case kExecuteFlushSubnormals:
#if defined(__x86_64__)
      _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
      return;
    case kExecuteProbe: {
      volatile double smallest = std::numeric_limits<double>::min();
      y[0] = smallest / 2 > 0 ? 1 : 0;
      y[1] = count_descriptors();
      y[2] = 0;
      for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
        y[2] += 1;
      }
      return;
    }
    case kExecuteUnlock: {
      constexpr std::uintptr_t kPage = 4096;
      const auto at = reinterpret_cast<std::uintptr_t>(task.input(0).bytes()) & ~(kPage - 1);
      y[0] =
          ::mprotect(reinterpret_cast<void*>(at), kPage, PROT_READ | PROT_WRITE) == 0 ? 0 : errno;
      return;
    }
    case kExecuteCount: {
      static double count = 0;
      y[0] = ++count;
      return;
    }
    case kExecuteWriteOn: {
      std::atomic<bool> begun = false;
      std::thread([y, &begun] {
        volatile double* const where = y;
        *where = 1;
        begun = true;
        for (double value = 2;; ++value) {
          *where = value;
        }
      }).detach();
      while (!begun) {
        ::usleep(100);
      }
      return;
    }
    default:
      return;
  }
}

class FaultyPlanner final : public Planner {
 public:
  FaultyPlanner(Job job, Services services)
      : job_(std::move(job)), services_(services), mode_(job_.i64(0)) {}

  std::vector<std::byte> state() const override {
    return std::vector<std::byte>(mode_ == kPlannerHugeState ? 1 << 17 : 0);
  }

  Result<Progress> next(const Capacity&, TaskSink& sink) override {
    switch (mode_) {
      case kNextThrow:
        throw std::runtime_error("thrown by next");
      case kNextHang:
        spin();
      case kNextMoreButNothing:
        return Progress::kMore;
      case kNextBadProgress:
        return static_cast<Progress>(77);
      default:
        break;
    }
    PlannedTask task;
    task.id = 1;
    task.params = {job_.param(0)};
    task.inputs = {View::whole(job_, 0)};
    task.outputs = {job_.input(0).spec()};
    task.flops = static_cast<double>(job_.input(0).dim(0));
    spoil(task);
    if (mode_ == kNextTooManyTasks) {
      for (std::uint64_t i = 0; i < 5000; ++i) {
        task.id = i;
        // Behind the sink's own check, as a plugin in another language would.
        GOBLIN_TRY_VOID(TaskSink(raw_sink(sink)).emit(task));
      }
    }
    GOBLIN_TRY_VOID(sink.emit(task));
    return Progress::kDone;
  }

  Result<Disposition> accept(const PlannedTask&, std::span<const Tensor> outputs) override {
    if (mode_ == kAcceptThrow) {
      throw std::runtime_error("thrown by accept");
    }
    if (mode_ == kAcceptBadDisposition) {
      return static_cast<Disposition>(9);
    }
    std::memcpy(job_.output(0).bytes(), outputs[0].bytes(), outputs[0].size_bytes());
    return Disposition::kMerged;
  }
  Result<void> restore(const PlannedTask&) override { return {}; }
  Result<void> recall(const PlannedTask&, std::span<const Tensor> outputs) override {
    if (mode_ == kRecallThrow) {
      throw std::runtime_error("thrown by recall");
    }
    std::memcpy(outputs[0].bytes(), job_.output(0).bytes(), outputs[0].size_bytes());
    return {};
  }
  Result<void> finish() override {
    if (mode_ == kFinishThrow) {
      throw std::runtime_error("thrown by finish");
    }
    if (mode_ == kFinishReadUnknown) {
      GOBLIN_TRY([[maybe_unused]] const Tensor none, services_.read_result(999, 0));
    }
    return {};
  }

 private:
  // The sink's table, whose room is then counted anew.
  static const goblin_task_sink_v1& raw_sink(TaskSink& sink) {
    return *reinterpret_cast<const goblin_task_sink_v1*>(&sink);
  }

  void spoil(PlannedTask& task) const {
    goblin_view_v1& view = task.inputs[0].raw;
    switch (mode_) {
      case kNextPastEnd:
        view.offset = 8;
        return;
      case kNextBeforeStart:
        view.offset = -8;
        return;
      case kNextOverflowingStride:
        view.spec.shape[0] = 3;
        view.spec.strides[0] = INT64_MAX / 8 * 8;
        return;
      case kNextOverflowingOffset:
        view.offset = INT64_MAX / 8 * 8;
        return;
      case kNextNegativeLength:
        view.spec.shape[0] = -4;
        return;
      case kNextWrongDtype:
        view.spec.dtype = GOBLIN_I64;
        return;
      case kNextNoSuchInput:
        view.index = 7;
        return;
      case kNextNoSuchResult:
        view.source = GOBLIN_SOURCE_TASK_RESULT;
        view.task = 12;
        return;
      case kNextHugeOutput:
        task.outputs[0].shape = {INT64_MAX / 4, 8};
        return;
      case kNextNoOutputs:
        task.outputs.clear();
        return;
      case kNextTooManyDimensions:
        view.spec.rank = 4000;
        return;
      case kNextNanFlops:
        task.flops = std::numeric_limits<double>::quiet_NaN();
        return;
      default:
        return;
    }
  }

  Job job_;
  Services services_;
  std::int64_t mode_;
};

class Faulty final : public Kind {
 public:
  static constexpr const char* kName = "faulty";
  static constexpr std::uint32_t kVersion = 1;

  Description describe() const override {
    return Description("does wrong what mode says")
        .input("x", "a vector", dtypes({GOBLIN_F64}), 1, 1)
        .param("mode", "one of FaultyMode", 0, 0, 1000)
        .output("y", "twice x")
        .policy(GOBLIN_POLICY_VALIDATOR);
  }

  Result<Validated> validate(const Job& job) override {
    Validated validated;
    validated.outputs = {job.input(0).spec()};
    validated.bytes = 2.0 * sizeof(double) * static_cast<double>(job.input(0).dim(0));
    validated.flops = static_cast<double>(job.input(0).dim(0));
    switch (job.i64(0)) {
      case kValidateThrow:
        throw std::runtime_error("thrown by validate");
      case kValidateOneOutputTooFew:
        validated.outputs.clear();
        break;
      case kValidateBadDtype:
        validated.outputs[0].dtype = 99;
        break;
      case kValidateHugeOutput:
        validated.outputs[0].shape = {INT64_MAX / 4, 8};
        break;
      case kValidateCrash:
        crash();
        break;
      default:
        break;
    }
    return validated;
  }

  Result<std::unique_ptr<Planner>> make_planner(
      const Job& job, const Capacity&, const Services& services,
      std::optional<std::span<const std::byte>>) override {
    if (job.i64(0) == kPlannerThrow) {
      throw std::runtime_error("thrown by make_planner");
    }
    if (job.i64(0) == kPlannerNull) {
      return std::unique_ptr<Planner>();
    }
    return std::make_unique<FaultyPlanner>(job, services);
  }

  Result<void> execute(const Task& task, const Device& device) override {
    const Tensor& x = task.input(0);
    const Tensor& y = task.output(0);
    if (x.spec() != y.spec() || x.rank() != 1) {
      return fail(Code::kInvalidArgument, "x is " + x.type() + ", y is " + y.type());
    }
    for (std::int64_t i = 0; i < x.size(); ++i) {
      y.data<double>()[i] = 2 * x.data<double>()[i];
    }
    fault_in_execute(task.i64(0), task, device);
    return {};
  }

  Result<Verdict> check(const Task& task, const Device&, Seed) override {
    if (task.i64(0) == kCheckThrow) {
      throw std::runtime_error("thrown by check");
    }
    if (task.i64(0) == kCheckBadVerdict) {
      return static_cast<Verdict>(9);
    }
    for (std::int64_t i = 0; i < task.input(0).size(); ++i) {
      const std::int64_t at = i * task.input(0).stride(0);
      double x = 0;
      std::memcpy(&x, task.input(0).bytes() + at, sizeof x);
      if (!(task.output(0).at<double>(i) == 2 * x)) {
        return Verdict::kReject;
      }
    }
    return Verdict::kAccept;
  }

  Result<Verdict> compare(const Task& task, std::span<const Tensor> other) override {
    if (task.i64(0) == kCompareThrow) {
      throw std::runtime_error("thrown by compare");
    }
    if (task.i64(0) == kCompareAbstain) {
      return Verdict::kAbstain;
    }
    return Kind::compare(task, other);
  }
};

}  // namespace

GOBLIN_PLUGIN(Faulty);
