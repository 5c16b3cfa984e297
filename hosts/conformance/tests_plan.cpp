// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Planners under hostile states and capacities, and asked to finish too early.
#include <cctype>
#include <cstring>

#include "core/wire/bounds.hpp"
#include "hosts/conformance/test_context.hpp"

namespace goblin::conformance {
namespace {

const TestContext::Codes kStateRefusals{Code::kInvalidArgument, Code::kCorrupt, Code::kUnsupported};
// A garbage state that is taken may describe a plan that no host can hold.
const TestContext::Codes kPlanRefusals{Code::kInvalidArgument, Code::kCorrupt, Code::kUnsupported,
                                       Code::kExhausted, Code::kNotFound};

/// Opens a plan from a state and, if it is taken, plans and accepts a little.
Result<void> try_state(TestContext& test, Play& play, const wire::Bytes& state,
                       const std::string& what) {
  const wire::Capacity capacity = offer(test.plenty());
  wire::PlanOpen request = play.open_request(capacity);
  request.state = state;
  const std::string call = "planner_create from a state that is " + what;
  const auto opened = play.lab().plan_open(request);
  if (!opened) {
    return fail(broken(call, opened.error()));
  }
  if (!test.clean(call, opened->status, opened->message, kStateRefusals)) {
    return {};
  }
  const auto planned = play.lab().plan_next({capacity, 16});
  if (!planned) {
    return fail(broken("planner_next after " + call, planned.error()));
  }
  if (!test.clean("planner_next after " + call, planned->status, planned->message, kPlanRefusals)) {
    return {};
  }
  const std::uint64_t mark = play.arena().mark();
  for (const wire::PlannedTask& task : planned->tasks) {
    std::uint64_t size = 0;
    wire::Accept accept;
    accept.tasks.push_back({task, true, {}});
    for (const wire::TensorSpec& spec : task.outputs) {
      size += spec.size_bytes().value_or(UINT64_MAX / 4);
    }
    if (size > (1U << 24)) {
      continue;
    }
    for (const wire::TensorSpec& spec : task.outputs) {
      GOBLIN_TRY(wire::TensorAt at, play.take(spec));
      accept.tasks[0].outputs.push_back(std::move(at));
    }
    const auto accepted = play.lab().accept(accept);
    if (!accepted) {
      return fail(broken("planner_accept after " + call, accepted.error()));
    }
    (void)test.clean("planner_accept after " + call, accepted->tasks.at(0).status,
                     accepted->tasks[0].message, kPlanRefusals);
    if (!play.arena().intact()) {
      return fail(Code::kInternal, "planner_accept after " + call + " wrote past the outputs");
    }
  }
  // The plan refers to kept results: another one is opened before their place is used again.
  play.arena().release(mark);
  return {};
}

Result<void> hostile_states(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  GOBLIN_TRY(const auto play, test.play(*runner));
  GOBLIN_TRY_VOID(play->open(offer(2 * test.job().validated.min_task_bytes)));
  const wire::Bytes good = play->state();
  auto random_bytes = [&](std::uint64_t size) {
    wire::Bytes bytes(static_cast<std::size_t>(size));
    for (std::byte& byte : bytes) {
      byte = static_cast<std::byte>(test.random()());
    }
    return bytes;
  };
  GOBLIN_TRY_VOID(try_state(test, *play, {}, "empty"));
  GOBLIN_TRY_VOID(try_state(test, *play, wire::Bytes(1), "one zero byte"));
  GOBLIN_TRY_VOID(try_state(test, *play, wire::Bytes(good.size()), "zeros"));
  GOBLIN_TRY_VOID(try_state(test, *play, wire::Bytes(good.size(), std::byte{0xFF}), "all ones"));
  GOBLIN_TRY_VOID(try_state(test, *play, random_bytes(wire::kMaxStateBytes), "64 KiB of noise"));
  wire::Bytes longer = good;
  longer.push_back(std::byte{1});
  GOBLIN_TRY_VOID(try_state(test, *play, longer, "one byte too long"));
  for (int turn = 0; turn < 40; ++turn) {
    GOBLIN_TRY_VOID(try_state(test, *play, random_bytes(test.below(200)), "noise"));
    GOBLIN_TRY_VOID(try_state(test, *play, random_bytes(good.size()), "noise of its length"));
    if (good.empty()) {
      continue;
    }
    wire::Bytes state(good.begin(),
                      good.begin() + static_cast<std::ptrdiff_t>(test.below(good.size())));
    GOBLIN_TRY_VOID(
        try_state(test, *play, state, "cut to " + std::to_string(state.size()) + " bytes"));
    state = good;
    const auto bit = static_cast<std::size_t>(test.below(8 * good.size()));
    state[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    GOBLIN_TRY_VOID(
        try_state(test, *play, state, "its own with bit " + std::to_string(bit) + " changed"));
  }
  for (std::size_t at = 0; at + 8 <= good.size() && at < 1024; at += 8) {
    for (const std::int64_t value :
         {std::int64_t{0}, std::int64_t{-1}, std::int64_t{2}, std::int64_t{1} << 20,
          std::int64_t{1} << 32, std::int64_t{1} << 62, INT64_MAX, INT64_MIN}) {
      wire::Bytes state = good;
      std::memcpy(state.data() + at, &value, sizeof value);
      GOBLIN_TRY_VOID(
          try_state(test, *play, state,
                    "its own with " + std::to_string(value) + " at byte " + std::to_string(at)));
    }
  }
  return {};
}

bool has_digit(const std::string& text) {
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      return true;
    }
  }
  return false;
}

Result<void> hostile_capacities(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  GOBLIN_TRY(const auto play, test.play(*runner));
  const std::uint64_t least = test.job().validated.min_task_bytes;
  const std::vector<std::uint64_t> memories{
      0, 1, least > 0 ? least - 1 : 0, std::uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 1};
  const std::vector<std::uint64_t> hosts{0, 1, 1000, std::uint64_t{1} << 63, UINT64_MAX};
  const std::vector<std::uint32_t> threads{0, 1, 4096, UINT32_MAX};
  auto hostile = [&] {
    wire::Capacity capacity;
    capacity.memory_bytes = test.pick(memories);
    capacity.min_memory_bytes = test.pick(memories);
    capacity.hosts = test.pick(hosts);
    capacity.threads = test.pick(threads);
    return capacity;
  };
  auto text = [](const wire::Capacity& capacity) {
    return " with hosts of " + std::to_string(capacity.memory_bytes) + " bytes (least " +
           std::to_string(capacity.min_memory_bytes) + "), " + std::to_string(capacity.hosts) +
           " of them, " + std::to_string(capacity.threads) + " threads";
  };
  const TestContext::Codes refusals{Code::kExhausted, Code::kInvalidArgument};
  auto ask = [&](const wire::Capacity& capacity) -> Result<void> {
    const std::string call = "planner_next" + text(capacity);
    const auto planned = runner->plan_next({capacity, static_cast<std::uint32_t>(test.below(4))});
    if (!planned) {
      return fail(broken(call, planned.error()));
    }
    if (!test.clean(call, planned->status, planned->message, refusals) &&
        !has_digit(planned->message)) {
      test.problem(call + ": the refusal does not say how much is needed: " + planned->message);
    }
    for (const wire::PlannedTask& task : planned->tasks) {
      if (task.memory_bytes > capacity.memory_bytes) {
        test.problem(call + " gives a task of " + std::to_string(task.memory_bytes) + " bytes");
      }
    }
    return {};
  };
  for (int turn = 0; turn < 60; ++turn) {
    const wire::Capacity capacity = hostile();
    const auto opened = runner->plan_open(play->open_request(capacity));
    const std::string call = "planner_create" + text(capacity);
    if (!opened) {
      return fail(broken(call, opened.error()));
    }
    if (test.clean(call, opened->status, opened->message, refusals)) {
      for (int i = 0; i < 4; ++i) {
        GOBLIN_TRY_VOID(ask(hostile()));
      }
    }
  }
  // Hosts that can hold nothing come and go; what is lost on them is planned for others.
  GOBLIN_TRY(const auto honest, test.play(*runner));
  GOBLIN_TRY_VOID(honest->open(offer(test.plenty())));
  for (int turn = 0; turn < 10; ++turn) {
    wire::Capacity capacity = hostile();
    capacity.memory_bytes = test.below(2);
    const auto planned = runner->plan_next({capacity, 4});
    if (!planned) {
      return fail(broken("planner_next" + text(capacity), planned.error()));
    }
    if (!planned->tasks.empty()) {
      return fail(Code::kInternal, "planner_next gives a task" + text(capacity));
    }
    const auto none = runner->plan_next({offer(test.plenty()), 0});
    if (!none) {
      return fail(broken("planner_next for no task", none.error()));
    }
    GOBLIN_TRY_VOID(expect_ok("planner_next for no task", none->status, none->message));
  }
  GOBLIN_TRY_VOID(honest->go_on([&] { return offer(test.plenty()); }));
  GOBLIN_TRY_VOID(honest->finish());
  return test.expect_outputs(*honest, "after hosts that can hold nothing asked for work");
}

Result<void> early_finish(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  const TestContext::Codes refusals{Code::kInvalidArgument, Code::kUnavailable, Code::kNotFound,
                                    Code::kUnsupported};
  for (const std::size_t accepted : {std::size_t{0}, std::size_t{1}}) {
    GOBLIN_TRY(const auto play, test.play(*runner));
    GOBLIN_TRY_VOID(play->open(offer(2 * test.job().validated.min_task_bytes)));
    GOBLIN_TRY_VOID(play->go_on([&] { return offer(test.plenty()); }, accepted));
    const auto done = runner->finish();
    if (!done) {
      return fail(broken("planner_finish before the last task", done.error()));
    }
    (void)test.clean("planner_finish before the last task", done->status, done->message, refusals);
    if (!play->arena().intact()) {
      return fail(Code::kInternal, "planner_finish wrote past the job's outputs");
    }
  }
  return {};
}

}  // namespace

std::vector<Test> plan_tests() {
  return {
      {"states", "a planner refuses a state that it did not give, or plans from it", true,
       hostile_states},
      {"capacities", "hosts without memory, with all of it, by the billion", true,
       hostile_capacities},
      {"early-finish", "planner_finish before the last task does no harm", true, early_finish},
  };
}

}  // namespace goblin::conformance
