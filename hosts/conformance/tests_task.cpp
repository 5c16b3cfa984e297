// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Planned tasks with something wrong: execute, check and compare must notice, or at least live.
#include <algorithm>
#include <cstring>

#include "hosts/conformance/test_context.hpp"

namespace goblin::conformance {
namespace {

const TestContext::Codes kRefusals{Code::kInvalidArgument, Code::kUnsupported, Code::kNotFound,
                                   Code::kExhausted,       Code::kCorrupt,     Code::kCancelled};
constexpr std::uint64_t kTensorBytes = 1 << 16;
constexpr std::size_t kTasks = 6;
constexpr net::Milliseconds kPatience{50};

/// Some tasks of the job, honestly computed.
Result<std::vector<Computed>> some_tasks(TestContext& test, Play& play) {
  const wire::Capacity capacity = offer(2 * test.job().validated.min_task_bytes);
  GOBLIN_TRY_VOID(play.open(capacity));
  GOBLIN_TRY_VOID(play.next(capacity, 2 * kTasks).map([](bool) {}));
  std::vector<Computed> tasks;
  for (const auto& [id, task] : play.pending()) {
    if (tasks.size() < kTasks) {
      GOBLIN_TRY(Computed computed, play.compute(task));
      tasks.push_back(std::move(computed));
    }
  }
  return tasks;
}

/// Another tensor instead of one: of a shape or dtype that is nearly right, or not at all.
Result<wire::TensorAt> misfit(TestContext& test, Play& play, const wire::TensorAt& right) {
  wire::TensorSpec spec{right.dtype, right.shape};
  switch (spec.shape.empty() ? test.below(3) : test.below(7)) {
    case 0:
      spec = test.hostile_spec(kTensorBytes);
      break;
    case 1:
      spec.shape.insert(spec.shape.begin(), 1 + static_cast<std::int64_t>(test.below(2)));
      break;
    case 2:
      spec.dtype = static_cast<wire::DType>(GOBLIN_BOOL + test.below(15));
      break;
    case 3:
      spec.shape.erase(spec.shape.begin());
      break;
    case 4:
      spec.shape[static_cast<std::size_t>(test.below(spec.shape.size()))] = 0;
      break;
    case 5:
      spec.shape[static_cast<std::size_t>(test.below(spec.shape.size()))] += 1;
      break;
    default: {
      auto& extent = spec.shape[static_cast<std::size_t>(test.below(spec.shape.size()))];
      extent = std::max<std::int64_t>(extent - 1, 0);
    }
  }
  if (spec.shape.size() > GOBLIN_MAX_RANK || !spec.size_bytes()) {
    spec = test.hostile_spec(kTensorBytes);
  }
  GOBLIN_TRY(wire::TensorAt at, play.take(spec));
  const auto elements = make_elements(spec, test.random());
  std::copy(elements.begin(), elements.end(), play.data(at));
  return at;
}

/// Changes one thing about a task.
Result<wire::RunnerTask> mutant(TestContext& test, Play& play, wire::RunnerTask task) {
  auto& inputs = task.inputs;
  auto& outputs = task.outputs;
  auto any = [&](const auto& list) { return static_cast<std::size_t>(test.below(list.size())); };
  switch (test.below(11)) {
    case 0:
      if (!inputs.empty()) inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(any(inputs)));
      break;
    case 1:
      if (!inputs.empty()) inputs.push_back(inputs[any(inputs)]);
      break;
    case 2:
      std::shuffle(inputs.begin(), inputs.end(), test.random());
      break;
    case 3:
    case 4:
      if (!inputs.empty()) {
        const std::size_t at = any(inputs);
        GOBLIN_TRY(wire::TensorAt other, misfit(test, play, inputs[at]));
        other.segment = Runner::kReadOnly;
        inputs[at] = std::move(other);
      }
      break;
    case 5:
    case 6: {
      const std::size_t at = any(outputs);
      GOBLIN_TRY(outputs[at], misfit(test, play, outputs[at]));
      break;
    }
    case 7:
      outputs.pop_back();
      break;
    case 8:
      if (!task.params.empty()) task.params.pop_back();
      break;
    case 9:
      task.params.push_back(test.hostile_value());
      break;
    default:
      if (!task.params.empty()) task.params[any(task.params)] = test.hostile_value();
  }
  if (test.below(16) == 0 && !inputs.empty()) {
    inputs[any(inputs)] = {};
  }
  return task;
}

Result<void> hostile_tasks(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  GOBLIN_TRY(const auto play, test.play(*runner));
  GOBLIN_TRY(const auto tasks, some_tasks(test, *play));
  for (int turn = 0; turn < 20 && !tasks.empty(); ++turn) {
    const std::uint64_t mark = play->arena().mark();
    wire::Execute request;
    for (int i = 0; i < 15; ++i) {
      wire::RunnerTask task = test.pick(tasks).for_execute(test.shared().kind);
      for (wire::TensorAt& output : task.outputs) {
        GOBLIN_TRY(output, play->take({output.dtype, output.shape}));
      }
      GOBLIN_TRY(task, mutant(test, *play, std::move(task)));
      request.tasks.push_back(std::move(task));
    }
    const auto executed = runner->execute_for(request, kPatience);
    if (!executed) {
      return fail(broken("execute of a task that does not fit", executed.error()));
    }
    for (const auto& task : executed->tasks) {
      (void)test.clean("execute of a task that does not fit", task.status, task.message, kRefusals);
    }
    if (!play->arena().intact()) {
      return fail(Code::kInternal, "execute of a task that does not fit wrote past its outputs");
    }
    play->arena().release(mark);
  }
  GOBLIN_TRY_VOID(play->go_on([&] { return offer(test.plenty()); }));
  GOBLIN_TRY_VOID(play->finish());
  return test.expect_outputs(*play, "after tasks that do not fit");
}

/// One check; the verdict, 0 for a refusal.
Result<std::uint32_t> verdict(TestContext& test, Play& play, const wire::RunnerTask& task,
                              const std::string& what) {
  wire::Check request;
  request.tasks.push_back({task, test.seed()});
  const std::string call = "check of " + what;
  const auto checked = play.lab().check(request);
  if (!checked) {
    return fail(broken(call, checked.error()));
  }
  (void)test.clean(call, checked->tasks.at(0).status, checked->tasks[0].message, kRefusals);
  return checked->tasks[0].status == GOBLIN_OK ? checked->tasks[0].verdict : 0;
}

Result<void> wrong_results(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  GOBLIN_TRY(const auto play, test.play(*runner));
  GOBLIN_TRY(const auto tasks, some_tasks(test, *play));
  for (const Computed& honest : tasks) {
    for (int turn = 0; turn < 40; ++turn) {
      const std::uint64_t mark = play->arena().mark();
      wire::RunnerTask task = honest.for_check(test.shared().kind);
      bool changed = false;
      const bool nan = turn % 2 == 0;
      for (wire::TensorAt& output : task.outputs) {
        const std::byte* right = play->data(output);
        GOBLIN_TRY(output, play->take({output.dtype, output.shape}));
        const std::uint64_t size =
            wire::TensorSpec{output.dtype, output.shape}.size_bytes().value_or(0);
        for (std::uint64_t i = 0; i < size; ++i) {
          // Every element is wrong: as NaN, or in all of its bits.
          std::byte wrong = nan ? std::byte{0xFF} : ~right[i];
          if (output.dtype == GOBLIN_BOOL) {
            wrong = right[i] ^ std::byte{1};
          }
          changed = changed || wrong != right[i];
          play->data(output)[i] = wrong;
        }
      }
      GOBLIN_TRY(const std::uint32_t said,
                 verdict(test, *play, task, nan ? "a result of NaN" : "a result of wrong bits"));
      if (changed && said == GOBLIN_VERDICT_ACCEPT) {
        test.problem(nan ? "check accepts a result whose every element is NaN (all bits set)"
                         : "check accepts a result whose every element is wrong");
      }
      play->arena().release(mark);
    }
    for (int turn = 0; turn < 60; ++turn) {
      const std::uint64_t mark = play->arena().mark();
      const wire::RunnerTask right = honest.for_check(test.shared().kind);
      GOBLIN_TRY(const wire::RunnerTask task, mutant(test, *play, right));
      GOBLIN_TRY(const std::uint32_t said, verdict(test, *play, task, "a task that does not fit"));
      bool same_outputs = task.outputs.size() == right.outputs.size();
      for (std::size_t i = 0; same_outputs && i < task.outputs.size(); ++i) {
        same_outputs = task.outputs[i].dtype == right.outputs[i].dtype &&
                       task.outputs[i].shape == right.outputs[i].shape;
      }
      if (!same_outputs && said == GOBLIN_VERDICT_ACCEPT) {
        test.problem("check accepts outputs of other types than were planned");
      }
      play->arena().release(mark);
    }
  }
  return {};
}

Result<void> comparisons(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  GOBLIN_TRY(const auto play, test.play(*runner));
  GOBLIN_TRY(const auto tasks, some_tasks(test, *play));
  auto compare = [&](const Computed& task, const std::vector<wire::TensorAt>& other,
                     const std::string& what) -> Result<std::uint32_t> {
    const auto compared = runner->compare({task.for_check(test.shared().kind), other});
    const std::string call = "compare with " + what;
    if (!compared) {
      return fail(broken(call, compared.error()));
    }
    (void)test.clean(call, compared->tasks.at(0).status, compared->tasks[0].message, kRefusals);
    return compared->tasks[0].status == GOBLIN_OK ? compared->tasks[0].verdict : 0;
  };
  for (const Computed& task : tasks) {
    GOBLIN_TRY(std::uint32_t said, compare(task, task.outputs, "itself"));
    if (said != GOBLIN_VERDICT_ACCEPT) {
      test.problem("compare: a result does not agree with itself");
    }
    for (int turn = 0; turn < 20; ++turn) {
      const std::uint64_t mark = play->arena().mark();
      std::vector<wire::TensorAt> other = task.outputs;
      const auto at = static_cast<std::size_t>(test.below(other.size()));
      const wire::TensorAt right = other[at];
      GOBLIN_TRY(other[at], misfit(test, *play, right));
      GOBLIN_TRY(said, compare(task, other, "a result of another type"));
      if (said == GOBLIN_VERDICT_ACCEPT &&
          (other[at].dtype != right.dtype || other[at].shape != right.shape)) {
        test.problem("compare: results of other types agree");
      }
      other.pop_back();
      GOBLIN_TRY(said, compare(task, other, "a result with an output missing"));
      if (said == GOBLIN_VERDICT_ACCEPT) {
        test.problem("compare: a result with an output missing agrees");
      }
      play->arena().release(mark);
    }
  }
  return {};
}

Result<void> cancellation(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  GOBLIN_TRY(const auto play, test.play(*runner));
  GOBLIN_TRY(const auto tasks, some_tasks(test, *play));
  for (int turn = 0; turn < 6 && !tasks.empty(); ++turn) {
    wire::Execute request;
    for (int i = 0; i < 300; ++i) {
      request.tasks.push_back(test.pick(tasks).for_execute(test.shared().kind));
    }
    const auto executed = runner->execute_for(request, net::Milliseconds(test.below(4)));
    if (!executed) {
      return fail(broken("execute that is cancelled", executed.error()));
    }
    for (const auto& task : executed->tasks) {
      (void)test.clean("execute that is cancelled", task.status, task.message, {Code::kCancelled});
    }
  }
  // Whatever was cut short left nothing behind.
  play->use(nullptr);
  GOBLIN_TRY_VOID(play->go_on([&] { return offer(test.plenty()); }));
  GOBLIN_TRY_VOID(play->finish());
  return test.expect_outputs(*play, "after tasks were cancelled");
}

}  // namespace

std::vector<Test> task_tests() {
  return {
      {"execute-hostile", "planned tasks with one thing changed are refused or computed", true,
       hostile_tasks},
      {"check-hostile", "wrong results and misfits are not accepted, whatever the seed", true,
       wrong_results},
      {"compare", "a result agrees with itself and with nothing of another type", true,
       comparisons},
      {"cancel", "cancelled tasks end, and what comes after them is right", true, cancellation},
  };
}

}  // namespace goblin::conformance
