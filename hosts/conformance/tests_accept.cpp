// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Results that no planner should get: of unknown tasks, of wrong types, twice. And recalls of what
// was never accepted.
#include <algorithm>

#include "hosts/conformance/test_context.hpp"

namespace goblin::conformance {
namespace {

const TestContext::Codes kRefusals{Code::kInvalidArgument, Code::kNotFound, Code::kUnsupported,
                                   Code::kCorrupt};
constexpr std::uint64_t kTensorBytes = 1 << 16;

/// A task that was never planned, made of one that was.
wire::PlannedTask mutant(TestContext& test, const wire::PlannedTask& task) {
  wire::PlannedTask out = task;
  switch (test.below(9)) {
    case 0:
      out.id = 0;
      break;
    case 1:
      out.id = UINT64_MAX - test.below(2);
      break;
    case 2:
      out.id = test.random()();
      break;
    case 3:
      out.id += 1 + test.below(1000);
      break;
    case 4:
      if (!out.params.empty()) {
        out.params.pop_back();
      }
      break;
    case 5:
      for (wire::Value& value : out.params) {
        value = test.hostile_value();
      }
      break;
    case 6:
      if (!out.inputs.empty()) {
        out.inputs.pop_back();
      }
      break;
    case 7:
      out.outputs.push_back(test.hostile_spec(kTensorBytes));
      break;
    default:
      for (wire::TensorSpec& spec : out.outputs) {
        spec = test.hostile_spec(kTensorBytes);
      }
  }
  return out;
}

/// Tensors for a task's outputs: as planned, or of other types, or of another number.
Result<std::vector<wire::TensorAt>> tensors(TestContext& test, Play& play,
                                            const wire::PlannedTask& task) {
  std::vector<wire::TensorAt> out;
  const bool right = test.below(2) == 0;
  for (const wire::TensorSpec& spec : task.outputs) {
    GOBLIN_TRY(wire::TensorAt at,
               play.take(right || test.below(2) == 0 ? spec : test.hostile_spec(kTensorBytes)));
    out.push_back(std::move(at));
  }
  if (test.below(8) == 0 && !out.empty()) {
    out.pop_back();
  }
  if (test.below(8) == 0) {
    GOBLIN_TRY(wire::TensorAt at, play.take(test.hostile_spec(kTensorBytes)));
    out.push_back(std::move(at));
  }
  return out;
}

Result<void> accept(TestContext& test, Play& play, const wire::AcceptTask& task,
                    const std::string& what) {
  const std::string call = "planner_accept of " + what;
  wire::Accept request;
  request.tasks.push_back(task);
  const auto answer = play.lab().accept(request);
  if (!answer) {
    return fail(broken(call, answer.error()));
  }
  (void)test.clean(call, answer->tasks.at(0).status, answer->tasks[0].message, kRefusals);
  if (!play.arena().intact()) {
    return fail(Code::kInternal, call + " wrote past the job's outputs");
  }
  return {};
}

Result<void> hostile_results(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  GOBLIN_TRY(const auto play, test.play(*runner));
  const wire::Capacity capacity = offer(2 * test.job().validated.min_task_bytes);
  GOBLIN_TRY_VOID(play->open(capacity));
  // Everything that can be planned now is, so that what a hostile acceptance marks as done is not
  // left out of the plan.
  for (bool more = true; more && play->pending().size() < 2000;) {
    GOBLIN_TRY(more, play->next(capacity, 64));
  }
  // Where that is not possible, a task's own number stays: any other may be one that is planned
  // later, and after a restart a planner must take those, too.
  const bool any_number = play->all_planned();
  const auto pending = play->pending();
  for (int turn = 0; turn < 150 && !pending.empty(); ++turn) {
    auto pick = pending.begin();
    std::advance(pick, static_cast<std::ptrdiff_t>(test.below(pending.size())));
    wire::AcceptTask hostile;
    hostile.task = test.below(4) == 0 ? pick->second : mutant(test, pick->second);
    hostile.task.id = any_number ? hostile.task.id : pick->first;
    hostile.has_outputs = true;
    GOBLIN_TRY(hostile.outputs, tensors(test, *play, hostile.task));
    GOBLIN_TRY_VOID(accept(test, *play, hostile, "a task that does not fit"));
  }
  // The honest results that come in now replace whatever was taken for them.
  GOBLIN_TRY_VOID(play->go_on([&] { return capacity; }));
  // An unknown task that was "merged" before a restart.
  for (int turn = 0; turn < 30 && !pending.empty(); ++turn) {
    wire::AcceptTask hostile;
    hostile.task = mutant(test, pending.begin()->second);
    GOBLIN_TRY_VOID(accept(test, *play, hostile, "a task that was never merged"));
  }
  GOBLIN_TRY_VOID(play->finish());
  return test.expect_outputs(*play, "after results of tasks that were never planned came in");
}

/// A second result of a task replaces the first: the first one was withdrawn.
Result<void> replaced(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  GOBLIN_TRY(const auto play, test.play(*runner));
  const wire::Capacity capacity = offer(2 * test.job().validated.min_task_bytes);
  GOBLIN_TRY_VOID(play->open(capacity));
  std::vector<Computed> withdrawn;
  const Play::Visit lie_first = [&](const Computed& task) -> Result<void> {
    if (test.below(3) != 0) {
      return {};
    }
    Computed lie = task;
    lie.outputs.clear();
    for (const wire::TensorSpec& spec : task.planned.outputs) {
      GOBLIN_TRY(wire::TensorAt at, play->take(spec));
      const auto other = make_elements(spec, test.random());
      std::copy(other.begin(), other.end(), play->data(at));
      lie.outputs.push_back(std::move(at));
    }
    GOBLIN_TRY_VOID(accept(test, *play, {lie.planned, true, lie.outputs}, "a planned task"));
    withdrawn.push_back(task);
    return {};
  };
  // Each is accepted once more right after the lie …
  GOBLIN_TRY_VOID(play->go_on([&] { return capacity; }, SIZE_MAX, lie_first));
  // … and, with the same bits, when all others are in.
  for (const Computed& task : withdrawn) {
    GOBLIN_TRY_VOID(play->accept(task));
  }
  GOBLIN_TRY_VOID(play->finish());
  return test.expect_outputs(*play, "after results were replaced");
}

Result<void> hostile_recalls(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  GOBLIN_TRY(const auto play, test.play(*runner));
  const wire::Capacity capacity = offer(2 * test.job().validated.min_task_bytes);
  GOBLIN_TRY_VOID(play->open(capacity));
  GOBLIN_TRY_VOID(play->next(capacity, 16).map([](bool) {}));
  const auto pending = play->pending();
  for (const bool accepted : {false, true}) {
    for (int turn = 0; turn < 100 && !pending.empty(); ++turn) {
      const std::uint64_t mark = play->arena().mark();
      auto pick = pending.begin();
      std::advance(pick, static_cast<std::ptrdiff_t>(test.below(pending.size())));
      wire::Recall request;
      request.task = test.below(4) == 0 ? pick->second : mutant(test, pick->second);
      GOBLIN_TRY(request.outputs, tensors(test, *play, request.task));
      const auto done = runner->recall(request);
      if (!done) {
        return fail(broken("planner_recall of a task that does not fit", done.error()));
      }
      (void)test.clean("planner_recall of a task that does not fit", done->status, done->message,
                       kRefusals);
      if (!play->arena().intact()) {
        return fail(Code::kInternal, "planner_recall wrote past its outputs");
      }
      play->arena().release(mark);
    }
    if (!accepted) {
      GOBLIN_TRY_VOID(play->go_on([&] { return capacity; }));
    }
  }
  GOBLIN_TRY_VOID(play->finish());
  return test.expect_outputs(*play, "after recalls that made no sense");
}

}  // namespace

std::vector<Test> accept_tests() {
  return {
      {"accept-hostile", "results of unknown tasks and of wrong types change nothing", true,
       hostile_results},
      {"accept-again", "a second result of a task replaces the first", true, replaced},
      {"recall-hostile", "recalls of unknown tasks and into wrong types are refused", true,
       hostile_recalls},
  };
}

}  // namespace goblin::conformance
