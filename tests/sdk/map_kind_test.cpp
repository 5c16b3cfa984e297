// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The template's kind goes through the real runner: the answer equals a plain loop's, whatever the
// number of threads, the order of results, and a restart in between.
#include <gmock/gmock.h>

#include <cmath>

#include "goblin/abi/plugin.h"
#include "goblin/random.hpp"
#include "tests/core/plugin/runner_fixture.hpp"

namespace goblin::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kSamples = (std::int64_t{3} << 22) - 5;  // three chunks, the last one short
constexpr std::int64_t kSeed = 7;
constexpr std::uint64_t kPi = 0, kInside = 8, kPartial = 64;

std::int64_t expected_inside() {
  std::int64_t inside = 0;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    const auto bits = philox(kSeed, static_cast<std::uint64_t>(i));
    const std::uint64_t x = bits[0] >> 1, y = bits[1] >> 1;
    inside += x * x + y * y < std::uint64_t{1} << 62;
  }
  return inside;
}

class MapKindTest : public RunnerFixture {
 protected:
  MapKindTest() : memory_(4096) {}

  static std::vector<wire::Value> params() {
    return {wire::Value::of(kSamples), wire::Value::of(kSeed)};
  }
  static wire::TensorAt scalar_at(wire::DType dtype, std::uint32_t segment, std::uint64_t offset) {
    wire::TensorAt at;
    at.dtype = dtype;
    at.segment = segment;
    at.offset = offset;
    return at;
  }
  net::Task<bool> open(plugin::RunnerClient& client, std::uint32_t segment,
                       std::optional<wire::Bytes> state) {
    wire::PlanOpen request;
    request.params = params();
    request.outputs.push_back(scalar_at(GOBLIN_F64, segment, kPi));
    request.outputs.push_back(scalar_at(GOBLIN_I64, segment, kInside));
    request.capacity.memory_bytes = 1 << 20;
    request.state = std::move(state);
    const auto opened = co_await client.plan_open(request, kLong);
    EXPECT_TRUE(opened && opened->status == GOBLIN_OK);
    co_return opened && opened->status == GOBLIN_OK;
  }
  net::Task<std::vector<wire::PlannedTask>> plan_all(plugin::RunnerClient& client) {
    std::vector<wire::PlannedTask> all;
    wire::PlanNext next;
    next.capacity.memory_bytes = 1 << 20;
    next.max_tasks = 2;
    for (int round = 0; round < 10; ++round) {
      const auto planned = co_await client.plan_next(next, kLong);
      EXPECT_TRUE(planned && planned->status == GOBLIN_OK);
      if (!planned) break;
      all.insert(all.end(), planned->tasks.begin(), planned->tasks.end());
      if (planned->progress == GOBLIN_PLAN_DONE) break;
    }
    co_return all;
  }
  wire::RunnerTask runner_task(const wire::PlannedTask& planned, std::uint32_t segment) {
    wire::RunnerTask task;
    task.id = planned.id;
    task.params = planned.params;
    task.outputs.push_back(scalar_at(GOBLIN_I64, segment, kPartial + 8 * planned.id));
    return task;
  }
  net::Task<void> accept(plugin::RunnerClient& client, const wire::PlannedTask& planned,
                         std::uint32_t segment) {
    wire::Accept request;
    request.tasks.emplace_back();
    request.tasks[0].task = planned;
    request.tasks[0].has_outputs = true;
    request.tasks[0].outputs = runner_task(planned, segment).outputs;
    const auto accepted = co_await client.accept(request, kLong);
    CO_ASSERT_TRUE(accepted);
    EXPECT_EQ(accepted->tasks.at(0).status, GOBLIN_OK) << accepted->tasks[0].message;
    EXPECT_EQ(accepted->tasks[0].disposition, std::uint32_t{GOBLIN_ACCEPT_KEEP});
  }

  SharedMemory memory_;
};

TEST_F(MapKindTest, WholeJobEqualsAPlainLoop) {
  const std::int64_t inside = expected_inside();
  for (const std::uint32_t threads : {1u, 3u}) {
    memory_.as<double>(kPi)[0] = -1;
    run([&]() -> net::Task<void> {
      plugin::RunnerOptions with = options();
      with.threads = threads;
      auto client = co_await start("pi-estimate", with);
      CO_ASSERT_TRUE(client);
      const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
      CO_ASSERT_TRUE(segment);
      if (const auto done = co_await open(**client, *segment, std::nullopt); !done) co_return;
      const auto tasks = co_await plan_all(**client);
      EXPECT_EQ(tasks.size(), 3u);
      for (const auto& planned : tasks) {
        const wire::Execute request = batch(runner_task(planned, *segment));
        const auto done = co_await (*client)->execute(request, kLong);
        CO_ASSERT_TRUE(done);
        EXPECT_EQ(done->tasks.at(0).status, GOBLIN_OK) << done->tasks[0].message;
      }
      // Out of order, and one of them twice.
      for (const std::size_t i : {2u, 0u, 1u, 0u}) {
        co_await accept(**client, tasks.at(i), *segment);
      }
      const auto finished = co_await (*client)->finish(kLong);
      CO_ASSERT_TRUE(finished);
      EXPECT_EQ(finished->status, GOBLIN_OK) << finished->message;
    });
    EXPECT_EQ(memory_.as<std::int64_t>(kInside)[0], inside);
    EXPECT_EQ(memory_.as<double>(kPi)[0],
              4.0 * static_cast<double>(inside) / static_cast<double>(kSamples));
    EXPECT_NEAR(memory_.as<double>(kPi)[0], 3.14159265, 0.003);
  }
  // After a restart, another runner plans the same tasks and gets the kept results again.
  run([&]() -> net::Task<void> {
    memory_.as<double>(kPi)[0] = -1;
    auto client = co_await start("pi-estimate", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    if (const auto done = co_await open(**client, *segment, wire::Bytes()); !done) co_return;
    const auto tasks = co_await plan_all(**client);
    for (const auto& planned : tasks) co_await accept(**client, planned, *segment);
    const auto finished = co_await (*client)->finish(kLong);
    CO_ASSERT_TRUE(finished);
    EXPECT_EQ(finished->status, GOBLIN_OK) << finished->message;
  });
  EXPECT_EQ(memory_.as<std::int64_t>(kInside)[0], inside);
}

TEST_F(MapKindTest, RefusesWhatDoesNotFit) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("pi-estimate", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    wire::Validate validate;
    validate.params = {wire::Value::of(std::int64_t{0}), wire::Value::of(kSeed)};
    const auto refused = co_await (*client)->validate(validate, kLong);
    CO_ASSERT_TRUE(refused);
    EXPECT_THAT(refused->message, HasSubstr("argument 'samples' is 0; expected 1 to"));
    validate.params = params();
    const auto fine = co_await (*client)->validate(validate, kLong);
    CO_ASSERT_TRUE(fine);
    EXPECT_EQ(fine->outputs.size(), 2u);
    EXPECT_EQ(fine->flops, 40.0 * static_cast<double>(kSamples));

    if (const auto done = co_await open(**client, *segment, std::nullopt); !done) co_return;
    // Finishing before every result is there names the missing one.
    const auto early = co_await (*client)->finish(kLong);
    CO_ASSERT_TRUE(early);
    EXPECT_THAT(early->message, HasSubstr("of task 0 cannot be read"));
    // A host that can hold nothing.
    wire::PlanNext next;
    next.capacity.memory_bytes = 4;
    next.max_tasks = 2;
    const auto small = co_await (*client)->plan_next(next, kLong);
    CO_ASSERT_TRUE(small);
    EXPECT_EQ(small->status, std::int32_t{GOBLIN_EXHAUSTED});
    EXPECT_THAT(small->message, HasSubstr("needs 8 bytes"));

    const auto tasks = co_await plan_all(**client);
    wire::Execute request;
    std::vector<std::string> says;
    auto add = [&](const std::string& why) -> wire::RunnerTask& {
      says.push_back(why);
      request.tasks.push_back(runner_task(tasks.at(0), *segment));
      return request.tasks.back();
    };
    add("chunk 3 of 3 does not exist").params.back() = wire::Value::of(std::int64_t{3});
    add("does not exist").params.back() = wire::Value::of(std::int64_t{-1});
    add("must be an integer").params.back() = wire::Value::of(1.0);
    add("parameter 0 is missing")
        .params.erase(request.tasks.back().params.begin(), request.tasks.back().params.begin() + 2);
    add("samples must be at least 1").params[0] = wire::Value::of(std::int64_t{-9});
    add("not a chunk's result").outputs[0].dtype = GOBLIN_F64;
    add("not a chunk's result").outputs.clear();
    add("index is missing").params.clear();
    const auto done = co_await (*client)->execute(request, kLong);
    CO_ASSERT_TRUE(done);
    for (std::size_t i = 0; i < says.size(); ++i) {
      EXPECT_NE(done->tasks.at(i).status, GOBLIN_OK) << i;
      EXPECT_THAT(done->tasks[i].message, HasSubstr(says[i])) << i;
    }
  });
}

}  // namespace
}  // namespace goblin::testing
