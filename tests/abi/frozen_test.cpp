// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A plugin binary of ABI 1.0 goes through a whole job in this version's runner.
#include "core/plugin/note.hpp"
#include "goblin/abi/plugin.h"
#include "tests/core/plugin/runner_fixture.hpp"

extern "C" {
extern int goblin_layout_compiles;
extern int goblin_header_types_compiles;
extern int goblin_header_backend_compiles;
extern int goblin_header_plugin_compiles;
}

namespace goblin::testing {
namespace {

class Frozen : public RunnerFixture {};

TEST(AbiHeaders, CompileAsCAndKeepTheirLayout) {
  // The assertions are static: that these link says that they held.
  EXPECT_EQ(goblin_layout_compiles, 0);
  EXPECT_EQ(goblin_header_types_compiles, 1);
  EXPECT_EQ(goblin_header_backend_compiles, 1);
  EXPECT_EQ(goblin_header_plugin_compiles, 1);
}

TEST_F(Frozen, PluginOfAbi10StillWorks) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the frozen plugin is for x86-64";
#endif
  constexpr std::int64_t kLength = 100;
  constexpr std::uint64_t kResult = 4096, kOutput = 8192;
  SharedMemory memory(16384);
  for (std::int64_t i = 0; i < kLength; ++i) {
    memory.as<double>()[i] = 1.0 / static_cast<double>(i + 1);
  }
  run([&]() -> net::Task<void> {
    auto client = co_await start("abi-1.0", options());
    CO_ASSERT_TRUE(client);
    EXPECT_EQ((*client)->kinds().at(0).name, "plain");
    const auto segment = co_await (*client)->map(memory.fd(), memory.size(), true);
    CO_ASSERT_TRUE(segment);

    wire::Validate validate;
    validate.inputs.push_back(vector_at(*segment, 0, kLength));
    const auto validated = co_await (*client)->validate(validate, kLong);
    CO_ASSERT_TRUE(validated);
    EXPECT_EQ(validated->status, GOBLIN_OK) << validated->message;
    EXPECT_EQ(validated->outputs.at(0).shape.at(0), kLength);

    wire::PlanOpen open;
    open.inputs = validate.inputs;
    open.outputs.push_back(vector_at(*segment, kOutput, kLength));
    open.capacity.memory_bytes = 1 << 20;
    const auto opened = co_await (*client)->plan_open(open, kLong);
    CO_ASSERT_TRUE(opened);
    EXPECT_EQ(opened->status, GOBLIN_OK) << opened->message;
    wire::PlanNext next;
    next.capacity = open.capacity;
    next.max_tasks = 10;
    const auto planned = co_await (*client)->plan_next(next, kLong);
    CO_ASSERT_TRUE(planned);
    EXPECT_EQ(planned->progress, std::uint32_t{GOBLIN_PLAN_DONE}) << planned->message;

    wire::RunnerTask task;
    task.id = planned->tasks.at(0).id;
    task.inputs = validate.inputs;
    task.outputs.push_back(vector_at(*segment, kResult, kLength));
    const wire::Execute execute = batch(task);
    const auto executed = co_await (*client)->execute(execute, kLong);
    CO_ASSERT_TRUE(executed);
    EXPECT_EQ(executed->tasks.at(0).status, GOBLIN_OK) << executed->tasks[0].message;

    // It has neither check nor compare: the first abstains, the second is by bits.
    const wire::Check check = check_request(task);
    const auto checked = co_await (*client)->check(check, kLong);
    CO_ASSERT_TRUE(checked);
    EXPECT_EQ(checked->tasks.at(0).verdict, std::uint32_t{GOBLIN_VERDICT_ABSTAIN});
    const wire::Compare same = compare_request(task, task.outputs[0]);
    const auto compared = co_await (*client)->compare(same, kLong);
    CO_ASSERT_TRUE(compared);
    EXPECT_EQ(compared->tasks.at(0).verdict, std::uint32_t{GOBLIN_VERDICT_ACCEPT});
    const wire::Compare other = compare_request(task, task.inputs[0]);
    const auto differs = co_await (*client)->compare(other, kLong);
    CO_ASSERT_TRUE(differs);
    EXPECT_EQ(differs->tasks.at(0).verdict, std::uint32_t{GOBLIN_VERDICT_REJECT});

    wire::Accept accept;
    accept.tasks.emplace_back();
    accept.tasks[0].task = planned->tasks[0];
    accept.tasks[0].has_outputs = true;
    accept.tasks[0].outputs = task.outputs;
    const auto accepted = co_await (*client)->accept(accept, kLong);
    CO_ASSERT_TRUE(accepted);
    EXPECT_EQ(accepted->tasks.at(0).disposition, std::uint32_t{GOBLIN_ACCEPT_MERGED});
    const auto finished = co_await (*client)->finish(kLong);
    CO_ASSERT_TRUE(finished);
    EXPECT_EQ(finished->status, GOBLIN_OK) << finished->message;
  });
  for (std::int64_t i = 0; i < kLength; ++i) {
    EXPECT_EQ(memory.as<double>(kOutput)[i], 2.0 / static_cast<double>(i + 1)) << i;
  }
}

}  // namespace
}  // namespace goblin::testing
