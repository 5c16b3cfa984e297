// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Tasks and plans made of garbage: a kind must refuse what does not fit, or compute it, and live.
#include "hosts/conformance/test_context.hpp"

namespace goblin::conformance {
namespace {

const TestContext::Codes kRefusals{Code::kInvalidArgument, Code::kUnsupported, Code::kNotFound,
                                   Code::kExhausted,       Code::kCorrupt,     Code::kCancelled};
constexpr std::uint64_t kTensorBytes = 1 << 16;
constexpr int kBatch = 20;
// So long a task may go on before it is cancelled; it must end before the call's deadline then.
constexpr net::Milliseconds kPatience{50};

Result<wire::TensorAt> place(TestContext& test, Arena& arena, const wire::TensorSpec& spec,
                             bool writable) {
  wire::TensorAt at;
  at.dtype = spec.dtype;
  at.shape = spec.shape;
  at.segment = writable ? Runner::kWritable : Runner::kReadOnly;
  const std::uint64_t size = spec.size_bytes().value_or(0);
  GOBLIN_TRY(at.offset, arena.take(size));
  const auto fill = static_cast<unsigned char>(test.random()());
  for (std::uint64_t i = 0; i < size; ++i) {
    // Bits of all kinds: NaN, infinities, numbers; bool stays 0 or 1.
    const std::uint64_t byte = test.below(4) == 0 ? fill : test.random()();
    arena.at(at.offset)[i] = static_cast<std::byte>(spec.dtype == GOBLIN_BOOL ? byte & 1 : byte);
  }
  return at;
}

Result<wire::RunnerTask> garbage_task(TestContext& test, Arena& arena) {
  wire::RunnerTask task;
  task.id = test.random()();
  task.kind = test.shared().kind;
  const std::uint64_t params = test.kind().params.size() + test.below(4);
  for (std::uint64_t i = test.below(3); i < params; ++i) {
    task.params.push_back(test.hostile_value());
  }
  // Mostly as many as a kind of these inputs and outputs may expect, and mostly related types.
  const wire::TensorSpec common = test.hostile_spec(kTensorBytes);
  auto spec = [&] { return test.below(3) == 0 ? test.hostile_spec(kTensorBytes) : common; };
  const std::uint64_t inputs = test.kind().inputs.size() + test.below(3);
  for (std::uint64_t i = test.below(2); i < inputs; ++i) {
    GOBLIN_TRY(wire::TensorAt at, place(test, arena, spec(), false));
    task.inputs.push_back(std::move(at));
  }
  if (test.below(8) == 0) {
    task.inputs.emplace_back();  // left out
  }
  const std::uint64_t outputs = 1 + test.below(3);
  for (std::uint64_t i = test.below(2); i < outputs; ++i) {
    GOBLIN_TRY(wire::TensorAt at, place(test, arena, spec(), true));
    task.outputs.push_back(std::move(at));
  }
  if (test.below(16) == 0) {
    task.outputs.emplace_back();
  }
  return task;
}

Result<void> execute_garbage(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  GOBLIN_TRY(Arena * arena, test.arena());
  for (int turn = 0; turn < 25; ++turn) {
    const std::uint64_t mark = arena->mark();
    wire::Execute request;
    for (int i = 0; i < kBatch; ++i) {
      GOBLIN_TRY(wire::RunnerTask task, garbage_task(test, *arena));
      request.tasks.push_back(std::move(task));
    }
    const auto executed = runner->execute_for(request, kPatience);
    if (!executed) {
      return fail(broken("execute of garbage", executed.error()));
    }
    for (const auto& task : executed->tasks) {
      (void)test.clean("execute of garbage", task.status, task.message, kRefusals);
    }
    if (!arena->intact()) {
      return fail(Code::kInternal, "execute of garbage wrote past its outputs");
    }
    arena->release(mark);
  }
  return {};
}

Result<void> check_garbage(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  GOBLIN_TRY(Arena * arena, test.arena());
  for (int turn = 0; turn < 25; ++turn) {
    const std::uint64_t mark = arena->mark();
    wire::Check request;
    for (int i = 0; i < kBatch; ++i) {
      GOBLIN_TRY(wire::RunnerTask task, garbage_task(test, *arena));
      request.tasks.push_back({std::move(task), test.seed()});
    }
    const auto checked = runner->check(request);
    if (!checked) {
      return fail(broken("check of garbage", checked.error()));
    }
    for (const auto& task : checked->tasks) {
      (void)test.clean("check of garbage", task.status, task.message, kRefusals);
    }
    for (int i = 0; i < 4; ++i) {
      GOBLIN_TRY(const wire::RunnerTask one, garbage_task(test, *arena));
      GOBLIN_TRY(const wire::RunnerTask other, garbage_task(test, *arena));
      const auto compared = runner->compare({one, other.outputs});
      if (!compared) {
        return fail(broken("compare of garbage", compared.error()));
      }
      (void)test.clean("compare of garbage", compared->tasks.at(0).status,
                       compared->tasks[0].message, kRefusals);
    }
    arena->release(mark);
  }
  return {};
}

Result<void> plan_garbage(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  GOBLIN_TRY(Arena * arena, test.arena());
  const JobSpec base = test.base();
  for (int turn = 0; turn < 200; ++turn) {
    const std::uint64_t mark = arena->mark();
    wire::PlanOpen request;
    request.kind = test.shared().kind;
    request.capacity = offer(std::uint64_t{1} << 30);
    request.params = base.params;
    for (wire::Value& value : request.params) {
      value = test.below(2) == 0 ? test.hostile_value() : value;
    }
    for (const wire::TensorSpec& spec : base.inputs) {
      const bool keep = test.below(3) == 0 && spec.size_bytes().value_or(0) < kTensorBytes;
      GOBLIN_TRY(wire::TensorAt at,
                 place(test, *arena, keep ? spec : test.hostile_spec(kTensorBytes), false));
      request.inputs.push_back(std::move(at));
    }
    const std::uint64_t outputs = test.kind().outputs.size() + (test.below(8) == 0 ? 1 : 0);
    for (std::uint64_t i = 0; i < outputs; ++i) {
      wire::TensorSpec spec = test.hostile_spec(kTensorBytes);
      if (test.shared().job && test.below(3) == 0 && i < test.job().validated.outputs.size()) {
        spec = test.job().validated.outputs[i];
      }
      GOBLIN_TRY(wire::TensorAt at, place(test, *arena, spec, true));
      request.outputs.push_back(std::move(at));
    }
    const auto opened = runner->plan_open(request);
    if (!opened) {
      return fail(broken("planner_create with garbage", opened.error()));
    }
    if (test.clean("planner_create with garbage", opened->status, opened->message, kRefusals)) {
      const auto planned = runner->plan_next({request.capacity, 8});
      if (!planned) {
        return fail(broken("planner_next of a garbage plan", planned.error()));
      }
      (void)test.clean("planner_next of a garbage plan", planned->status, planned->message,
                       kRefusals);
      if (!arena->intact()) {
        return fail(Code::kInternal, "the planner of a garbage plan wrote past its outputs");
      }
    }
    arena->release(mark);
  }
  return {};
}

}  // namespace

std::vector<Test> garbage_tests() {
  return {
      {"execute-garbage", "tasks of garbage are refused or computed, and stop when cancelled",
       false, execute_garbage},
      {"check-garbage", "check and compare survive garbage", false, check_garbage},
      {"plan-garbage", "planners refuse jobs of garbage", false, plan_garbage},
  };
}

}  // namespace goblin::conformance
