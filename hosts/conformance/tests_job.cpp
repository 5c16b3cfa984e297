// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// An honest job from plan to result, and that its result depends on nothing but the job.
#include <algorithm>
#include <cstring>

#include "hosts/conformance/test_context.hpp"

namespace goblin::conformance {
namespace {

// Peak memory of a runner beside what a task declares: the allocator's and the backend's own.
constexpr std::uint64_t kMemorySlack = std::uint64_t{48} << 20;

/// Seeds that a check may be given.
const std::vector<std::array<std::uint8_t, 32>>& seeds() {
  static const auto made = [] {
    std::vector<std::array<std::uint8_t, 32>> list(4);
    list[1].fill(0xFF);
    list[2].fill(0x80);
    for (std::size_t i = 0; i < 32; ++i) {
      list[3][i] = static_cast<std::uint8_t>(37 * i + 11);
    }
    return list;
  }();
  return made;
}

Result<void> honest_job(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  GOBLIN_TRY(const auto play, test.play(*runner));
  GOBLIN_TRY_VOID(play->open(offer(test.plenty())));
  std::size_t decided = 0;
  std::size_t checks = 0;
  const Play::Visit check = [&](const Computed& task) -> Result<void> {
    for (const auto& seed : seeds()) {
      GOBLIN_TRY(const bool accepted, play->check(task, seed));
      decided += accepted ? 1 : 0;
      ++checks;
    }
    return {};
  };
  GOBLIN_TRY_VOID(play->go_on([&] { return offer(test.plenty()); }, SIZE_MAX, check));
  GOBLIN_TRY_VOID(play->finish());
  if (test.kind().default_policy == GOBLIN_POLICY_ALGEBRAIC && checks > 0 && decided == 0) {
    test.problem("its policy is algebraic, but its check abstains from every honest result");
  }
  const wire::Validated& estimate = test.job().validated;
  if (play->flops() > estimate.flops * 1.001 + 1) {
    test.problem("validate estimates " + std::to_string(estimate.flops) +
                 " flops; its tasks take " + std::to_string(play->flops()));
  }
  test.shared().expected = play->outputs(test.shared().ignore);
  // Asking again when all is done changes nothing.
  GOBLIN_TRY(const bool more, play->next(offer(test.plenty()), 16));
  if (more || !play->pending().empty()) {
    test.problem("planner_next gives more tasks after the last one");
  }
  GOBLIN_TRY_VOID(play->finish());
  return test.expect_outputs(*play, "after a second planner_finish");
}

/// The least that validate asks of a host is enough, and tasks take no more than they say.
Result<void> declared_memory(TestContext& test) {
  GOBLIN_TRY(Runner * lab, test.start());
  GOBLIN_TRY(Runner * host, test.start());
  GOBLIN_TRY(Arena * arena, test.arena());
  Play play(test.job(), *arena, *lab, *host, test.random());
  GOBLIN_TRY_VOID(play.place());
  const wire::Capacity least = offer(test.job().validated.min_task_bytes);
  GOBLIN_TRY_VOID(play.open(least));
  const auto before = host->execute({});
  if (!before) {
    return fail(broken("execute of nothing", before.error()));
  }
  GOBLIN_TRY_VOID(play.go_on([&] { return least; }));
  GOBLIN_TRY_VOID(play.finish());
  GOBLIN_TRY_VOID(test.expect_outputs(play, "on a host that offers no more than min_task_bytes"));
  const auto after = host->execute({});
  if (!after) {
    return fail(broken("execute of nothing", after.error()));
  }
  const std::uint64_t grown = after->peak_bytes - std::min(before->peak_bytes, after->peak_bytes);
  if (grown > play.most_memory() + kMemorySlack) {
    test.problem("a task says that it takes " + std::to_string(play.most_memory()) +
                 " bytes; its runner grew by " + std::to_string(grown));
  }
  return {};
}

Result<void> same_bits(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  const std::uint64_t least = test.job().validated.min_task_bytes;
  const std::vector<std::uint64_t> memories{least, least + least / 2, 2 * least, 8 * least,
                                            test.plenty()};
  auto random_offer = [&] {
    wire::Capacity capacity = offer(test.pick(memories), 1 + test.below(7));
    capacity.min_memory_bytes = std::min(capacity.memory_bytes, test.pick(memories));
    return capacity;
  };
  for (const std::uint64_t memory : memories) {
    const wire::Capacity first = offer(memory, 1 + test.below(7));
    GOBLIN_TRY(const auto play, test.play(*runner));
    GOBLIN_TRY_VOID(play->open(first));
    GOBLIN_TRY_VOID(play->go_on([&] { return first; }));
    GOBLIN_TRY_VOID(play->finish());
    GOBLIN_TRY_VOID(
        test.expect_outputs(*play, "with hosts of " + std::to_string(memory) + " bytes"));
  }
  for (int turn = 0; turn < 3; ++turn) {
    GOBLIN_TRY(const auto play, test.play(*runner));
    GOBLIN_TRY_VOID(play->open(random_offer()));
    GOBLIN_TRY_VOID(play->go_on(random_offer));
    GOBLIN_TRY_VOID(play->finish());
    GOBLIN_TRY_VOID(test.expect_outputs(*play, "when hosts of all sizes take part"));
  }
  return {};
}

/// Everything computed anew, by several threads and by another backend.
Result<void> same_bits_elsewhere(TestContext& test) {
  for (const bool other : {false, true}) {
    if (other && test.shared().setup.other_backend.empty()) {
      continue;
    }
    GOBLIN_TRY(Runner * runner, test.start(other ? 1 : 3, other));
    GOBLIN_TRY(const auto play, test.play(*runner));
    play->use(nullptr);
    GOBLIN_TRY_VOID(play->open(offer(test.plenty(), 2, 3)));
    GOBLIN_TRY_VOID(play->go_on([&] { return offer(test.plenty(), 2, 3); }));
    GOBLIN_TRY_VOID(play->finish());
    GOBLIN_TRY_VOID(
        test.expect_outputs(*play, other ? "on the other backend" : "with three threads"));
  }
  return {};
}

Result<void> any_layout(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  for (const Layout layout : {Layout::kReversed, Layout::kColumnMajor, Layout::kSpread}) {
    GOBLIN_TRY(const auto play, test.play(*runner, layout));
    GOBLIN_TRY_VOID(play->open(offer(test.plenty())));
    const Play::Visit check = [&](const Computed& task) -> Result<void> {
      return play->check(task, test.seed()).map([](bool) {});
    };
    GOBLIN_TRY_VOID(play->go_on([&] { return offer(test.plenty()); }, SIZE_MAX, check));
    GOBLIN_TRY_VOID(play->finish());
    GOBLIN_TRY_VOID(test.expect_outputs(
        *play, "when the inputs' elements lie in another order in memory (layout " +
                   std::to_string(static_cast<int>(layout)) + ")"));
  }
  return {};
}

Result<void> restarts(TestContext& test) {
  const std::uint64_t least = test.job().validated.min_task_bytes;
  auto any_offer = [&] {
    return offer(test.below(2) == 0 ? test.plenty() : 2 * least, 1 + test.below(4));
  };
  GOBLIN_TRY(Runner * runner, test.start());
  // How many tasks there are, so that restarts fall on all parts of the job.
  std::size_t tasks = 0;
  {
    GOBLIN_TRY(const auto play, test.play(*runner));
    GOBLIN_TRY_VOID(play->open(offer(2 * least)));
    GOBLIN_TRY_VOID(play->go_on([&] { return offer(2 * least); }));
    tasks = play->accepted().size();
  }
  std::vector<std::size_t> points{0, 1, tasks / 2, tasks > 0 ? tasks - 1 : 0, tasks};
  for (int turn = 0; turn < 3; ++turn) {
    points.push_back(static_cast<std::size_t>(test.below(tasks + 1)));
  }
  for (std::size_t turn = 0; turn < points.size(); ++turn) {
    GOBLIN_TRY(const auto play, test.play(*runner));
    GOBLIN_TRY_VOID(play->open(any_offer()));
    GOBLIN_TRY_VOID(play->go_on(any_offer, points[turn]));
    if (turn % 4 == 3) {
      GOBLIN_TRY(runner, test.start());  // another process
    }
    GOBLIN_TRY_VOID(play->reopen(*runner, any_offer()));
    if (turn % 2 == 1) {
      GOBLIN_TRY_VOID(play->go_on(any_offer, points[turn] + 1 + test.below(3)));
      GOBLIN_TRY_VOID(play->reopen(*runner, any_offer()));
    }
    GOBLIN_TRY_VOID(play->go_on(any_offer));
    GOBLIN_TRY_VOID(play->finish());
    GOBLIN_TRY_VOID(test.expect_outputs(
        *play, "after a restart behind " + std::to_string(points[turn]) + " accepted tasks"));
  }
  return {};
}

Result<void> given_back(TestContext& test) {
  GOBLIN_TRY(Runner * runner, test.start());
  GOBLIN_TRY(const auto play, test.play(*runner));
  const wire::Capacity capacity = offer(2 * test.job().validated.min_task_bytes);
  GOBLIN_TRY_VOID(play->open(capacity));
  auto recall_all = [&](const std::string& when) -> Result<void> {
    for (const auto& [id, accepted] : play->accepted()) {
      if (accepted.disposition != GOBLIN_ACCEPT_MERGED) {
        continue;
      }
      const std::uint64_t mark = play->arena().mark();
      wire::Recall request;
      request.task = accepted.task.planned;
      for (const wire::TensorSpec& spec : accepted.task.planned.outputs) {
        GOBLIN_TRY(wire::TensorAt at, play->take(spec));
        request.outputs.push_back(std::move(at));
      }
      const std::string call = "planner_recall of task " + std::to_string(id) + when;
      const auto done = play->lab().recall(request);
      if (!done) {
        return fail(broken(call, done.error()));
      }
      GOBLIN_TRY_VOID(expect_ok(call, done->status, done->message));
      for (std::size_t i = 0; i < request.outputs.size(); ++i) {
        const auto size = accepted.task.planned.outputs[i].size_bytes().value_or(0);
        if (std::memcmp(play->data(request.outputs[i]), play->data(accepted.task.outputs[i]),
                        size) != 0) {
          return fail(Code::kInternal, call + " gives other bits than were accepted");
        }
      }
      if (!play->arena().intact()) {
        return fail(Code::kInternal, call + " wrote past its outputs");
      }
      play->arena().release(mark);
    }
    return {};
  };
  GOBLIN_TRY_VOID(play->go_on([&] { return capacity; }, 3));
  GOBLIN_TRY_VOID(recall_all(" before the job's end"));
  GOBLIN_TRY_VOID(play->reopen(*runner, capacity));
  GOBLIN_TRY_VOID(recall_all(" after a restart"));
  GOBLIN_TRY_VOID(play->go_on([&] { return capacity; }));
  GOBLIN_TRY_VOID(recall_all(" before planner_finish"));
  GOBLIN_TRY_VOID(play->finish());
  return test.expect_outputs(*play, "after results were recalled");
}

}  // namespace

std::vector<Test> job_tests() {
  return {
      {"job", "an honest job ends; its results pass the check; its estimate holds", true,
       honest_job},
      {"memory", "a host of min_task_bytes is enough, and tasks take what they declare", true,
       declared_memory},
      {"same-bits", "the result does not depend on which hosts took part", true, same_bits},
      {"same-bits-elsewhere", "nor on threads and backends", true, same_bits_elsewhere},
      {"layouts", "nor on how inputs lie in memory", true, any_layout},
      {"restarts", "nor on restarts at any point", true, restarts},
      {"recall", "merged results come back with the bits that were accepted", true, given_back},
  };
}

}  // namespace goblin::conformance
