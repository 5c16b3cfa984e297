// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The lab side of a runner: validate, plan, accept, recall, finish, check and compare; what a
// planner says is believed only as far as it can be checked.
#include <gmock/gmock.h>

#include "goblin/abi/plugin.h"
#include "tests/core/plugin/runner_fixture.hpp"
#include "tests/testing/plugins/faulty_modes.hpp"

namespace goblin::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kLength = 8;
constexpr std::uint64_t kOutput = 4096;
constexpr std::uint64_t kResult = 6144;

class PlanTest : public RunnerFixture {
 protected:
  PlanTest() : memory_(8192) {}

  static wire::PlanOpen open_request(std::int64_t mode, std::uint32_t segment) {
    wire::PlanOpen open;
    open.params = {wire::Value::of(mode)};
    open.inputs = {vector_at(segment, 0, kLength)};
    open.outputs = {vector_at(segment, kOutput, kLength)};
    open.capacity = capacity();
    return open;
  }
  static wire::Capacity capacity() {
    wire::Capacity capacity;
    capacity.memory_bytes = 1 << 20;
    capacity.min_memory_bytes = 1 << 20;
    capacity.hosts = 1;
    return capacity;
  }

  /// `outputs`: none after a restart.
  static wire::Accept accept_request(const wire::PlannedTask& task,
                                     std::optional<wire::TensorAt> output) {
    wire::Accept request;
    request.tasks.emplace_back();
    request.tasks[0].task = task;
    request.tasks[0].has_outputs = output.has_value();
    if (output) {
      request.tasks[0].outputs.push_back(*output);
    }
    return request;
  }

  /// Goes through a whole job. The first thing that is refused, "step: message".
  net::Task<std::string> whole_job(plugin::RunnerClient& client, std::int64_t mode,
                                   std::uint32_t segment) {
    wire::Validate validate;
    validate.params = {wire::Value::of(mode)};
    validate.inputs = {vector_at(0, 0, kLength)};
    auto validated = co_await client.validate(validate, kLong);
    if (!validated) co_return "dead: " + validated.error().message;
    if (validated->status != GOBLIN_OK) co_return "validate: " + validated->message;
    auto opened = co_await client.plan_open(open_request(mode, segment), kLong);
    if (!opened) co_return "dead: " + opened.error().message;
    if (opened->status != GOBLIN_OK) co_return "open: " + opened->message;
    // Only what hangs by intention is waited for briefly: a busy machine makes honest calls slow.
    const auto deadline = mode == kNextHang ? net::Milliseconds(500) : kLong;
    auto planned = co_await client.plan_next({capacity(), 16}, deadline);
    if (!planned) co_return "dead: " + planned.error().message;
    if (planned->status != GOBLIN_OK) co_return "next: " + planned->message;
    if (planned->tasks.size() != 1) co_return "next: no task";

    wire::RunnerTask task;
    task.id = planned->tasks[0].id;
    task.params = planned->tasks[0].params;
    task.inputs = {vector_at(segment, 0, kLength)};
    task.outputs = {vector_at(segment, kResult, kLength)};
    auto executed = co_await client.execute(batch(task), kLong);
    if (!executed) co_return "dead: " + executed.error().message;
    if (executed->tasks.at(0).status != GOBLIN_OK) co_return "execute failed";
    auto checked = co_await client.check(check_request(task), kLong);
    if (!checked) co_return "dead: " + checked.error().message;
    if (checked->tasks.at(0).status != GOBLIN_OK) co_return "check: " + checked->tasks[0].message;
    if (checked->tasks[0].verdict != GOBLIN_VERDICT_ACCEPT) co_return "check: rejected";
    auto compared = co_await client.compare(compare_request(task, task.outputs[0]), kLong);
    if (!compared) co_return "dead: " + compared.error().message;
    if (compared->tasks.at(0).status != GOBLIN_OK)
      co_return "compare: " + compared->tasks[0].message;

    const wire::Accept accept = accept_request(planned->tasks[0], task.outputs[0]);
    auto accepted = co_await client.accept(accept, kLong);
    if (!accepted) co_return "dead: " + accepted.error().message;
    if (accepted->tasks.at(0).status != GOBLIN_OK)
      co_return "accept: " + accepted->tasks[0].message;
    std::fill_n(memory_.as<double>(kResult), kLength, 0.0);
    wire::Recall recall;
    recall.task = planned->tasks[0];
    recall.outputs = task.outputs;
    auto recalled = co_await client.recall(recall, kLong);
    if (!recalled) co_return "dead: " + recalled.error().message;
    if (recalled->status != GOBLIN_OK) co_return "recall: " + recalled->message;
    if (memory_.as<double>(kResult)[5] != memory_.as<double>(kOutput)[5])
      co_return "recall: other bits";
    auto finished = co_await client.finish(kLong);
    if (!finished) co_return "dead: " + finished.error().message;
    if (finished->status != GOBLIN_OK) co_return "finish: " + finished->message;
    co_return "done";
  }

  std::string whole_job(const std::string& name, std::int64_t mode) {
    for (std::int64_t i = 0; i < kLength; ++i) {
      memory_.as<double>()[i] = static_cast<double>(i) + 0.25;
      memory_.as<double>(kOutput)[i] = -1;
    }
    std::string outcome = "not run";
    run([&]() -> net::Task<void> {
      auto client = co_await start(name, options());
      CO_ASSERT_TRUE(client);
      const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
      CO_ASSERT_TRUE(segment);
      outcome = co_await whole_job(**client, mode, *segment);
    });
    return outcome;
  }

  SharedMemory memory_;
};

TEST_F(PlanTest, AnHonestJobGoesThrough) {
  EXPECT_EQ(whole_job("faulty", kHonest), "done");
  for (std::int64_t i = 0; i < kLength; ++i) {
    EXPECT_EQ(memory_.as<double>(kOutput)[i], 2 * (static_cast<double>(i) + 0.25));
  }
}

TEST_F(PlanTest, EveryLieIsRefusedWhereItIsTold) {
  const struct {
    FaultyMode mode;
    const char* refusal;
  } cases[] = {
      {kValidateThrow, "validate: thrown by validate"},
      {kValidateOneOutputTooFew, "validate: validate gives 0 outputs"},
      {kValidateBadDtype, "validate: it has an unknown dtype (99)"},
      {kValidateHugeOutput, "validate: its size does not fit"},
      {kValidateCrash, "dead: the plugin crashed"},
      {kPlannerThrow, "open: thrown by make_planner"},
      {kPlannerNull, "open: make_planner gave no planner"},
      {kPlannerHugeState, "open: the planner's state has 131072 bytes"},
      {kNextThrow, "next: thrown by next"},
      {kNextHang, "dead: the plugin did not answer within 500 ms"},
      {kNextPastEnd,
       "next: task 1, input 0: its window leaves the source: at offset 8 it touches "
       "bytes [8, 72) of [0, 64)"},
      {kNextBeforeStart, "touches bytes [-8, 56) of [0, 64)"},
      {kNextOverflowingStride, "next: task 1, input 0: its size does not fit"},
      {kNextOverflowingOffset, "next: task 1, input 0: its window leaves the source"},
      {kNextNegativeLength, "next: task 1, input 0: dimension 0 has length -4"},
      {kNextWrongDtype, "next: task 1, input 0: its dtype i64 is not the source's f64"},
      {kNextNoSuchInput, "next: task 1, input 0: the job has no input 7"},
      {kNextNoSuchResult, "next: task 1, input 0: no output 0 of task 12 was kept"},
      {kNextHugeOutput, "next: task 1, output 0: its size does not fit"},
      {kNextNoOutputs, "next: task 1 has 1 inputs, 0 outputs"},
      {kNextTooManyDimensions, "next: task 1, input 0: it has 4000 dimensions"},
      {kNextTooManyTasks, "next: at most 16 tasks were asked for"},
      {kNextMoreButNothing, "next: the planner says that there is more, but gives no task"},
      {kNextBadProgress, "next: the planner answered the unknown progress 77"},
      {kNextNanFlops, "next: task 1 says that it takes nan flops"},
      {kAcceptThrow, "accept: thrown by accept"},
      {kAcceptBadDisposition, "accept: the planner answered a disposition that is not possible"},
      {kRecallThrow, "recall: thrown by recall"},
      {kFinishThrow, "finish: thrown by finish"},
      {kFinishReadUnknown, "finish: output 0 of task 999 cannot be read"},
      {kCheckThrow, "check: thrown by check"},
      {kCheckBadVerdict, "check: check answered the unknown verdict 9"},
      {kCompareThrow, "compare: thrown by compare"},
      {kCompareAbstain, "compare: compare answered the unknown verdict 3"},
  };
  for (const auto& one : cases) {
    EXPECT_THAT(whole_job("faulty", one.mode), HasSubstr(one.refusal)) << one.mode;
  }
}

TEST_F(PlanTest, NoMergeWithoutRecall) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("no-recall", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    wire::PlanOpen open = open_request(0, *segment);
    open.params.clear();
    const auto opened = co_await (*client)->plan_open(open, kLong);
    CO_ASSERT_TRUE(opened);
    const auto planned = co_await (*client)->plan_next({capacity(), 4}, kLong);
    CO_ASSERT_TRUE(planned);
    EXPECT_EQ(planned->progress, std::uint32_t{GOBLIN_PLAN_DONE});
    wire::Accept accept =
        accept_request(planned->tasks.at(0), vector_at(*segment, kResult, kLength));
    const auto accepted = co_await (*client)->accept(accept, kLong);
    CO_ASSERT_TRUE(accepted);
    EXPECT_THAT(accepted->tasks.at(0).message, HasSubstr("disposition"));
  });
}

TEST_F(PlanTest, SpecificationsAreCheckedByNameBeforeThePluginSeesThem) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    auto refused = [&](wire::Validate request, std::string says) -> net::Task<void> {
      const auto answer = co_await (*client)->validate(request, kLong);
      CO_ASSERT_TRUE(answer);
      EXPECT_EQ(answer->status, std::int32_t{GOBLIN_INVALID_ARGUMENT});
      EXPECT_THAT(answer->message, HasSubstr(says));
    };
    wire::Validate good;
    good.params = {wire::Value::of(std::int64_t{0})};
    good.inputs = {vector_at(0, 0, kLength)};
    const auto fine = co_await (*client)->validate(good, kLong);
    CO_ASSERT_TRUE(fine);
    EXPECT_EQ(fine->status, GOBLIN_OK) << fine->message;
    EXPECT_EQ(fine->outputs.at(0), (wire::TensorSpec{GOBLIN_F64, {kLength}}));
    wire::Validate bad = good;
    bad.inputs[0].dtype = GOBLIN_F32;
    co_await refused(bad, "argument 'x' has dtype f32; expected one of f64");
    bad = good;
    bad.inputs[0].shape = {2, 2};
    co_await refused(bad, "argument 'x' has 2 dimensions; expected 1");
    bad = good;
    bad.inputs[0].strides = {INT64_MAX / 16 * 8};
    co_await refused(bad, "argument 'x': its size does not fit");
    bad = good;
    bad.inputs[0].dtype = 0;
    bad.inputs[0].shape.clear();
    co_await refused(bad, "argument 'x' is missing");
    bad = good;
    bad.params[0] = wire::Value::of(std::int64_t{1001});
    co_await refused(bad, "argument 'mode' is 1001; expected 0 to 1000");
    bad = good;
    bad.params[0] = wire::Value::of(1.5);
    co_await refused(bad, "argument 'mode' must be an integer");
    bad = good;
    bad.params.clear();
    co_await refused(bad, "1 inputs and 1 parameters; 1 and 0 were given");
  });
}

TEST_F(PlanTest, TensorsOfOtherTypesNeverReachThePlanner) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    // Outputs of a job that its kind did not promise.
    wire::PlanOpen open = open_request(kHonest, *segment);
    open.outputs[0].shape = {kLength - 1};
    auto opened = co_await (*client)->plan_open(open, kLong);
    CO_ASSERT_TRUE(opened);
    EXPECT_EQ(opened->status, std::int32_t{GOBLIN_INVALID_ARGUMENT});
    EXPECT_EQ(opened->message, "output 0 of the job is f64[8]; the tensor for it is f64[7]");
    open.outputs.clear();
    opened = co_await (*client)->plan_open(open, kLong);
    CO_ASSERT_TRUE(opened);
    EXPECT_EQ(opened->message, "the job has 1 outputs; tensors for 0 were given");
    // A job that its kind refuses.
    opened = co_await (*client)->plan_open(open_request(kValidateThrow, *segment), kLong);
    CO_ASSERT_TRUE(opened);
    EXPECT_EQ(opened->message, "thrown by validate");

    // Results and rooms for them that are not what was planned.
    opened = co_await (*client)->plan_open(open_request(kHonest, *segment), kLong);
    CO_ASSERT_TRUE(opened);
    EXPECT_EQ(opened->status, GOBLIN_OK) << opened->message;
    const auto planned = co_await (*client)->plan_next({capacity(), 4}, kLong);
    CO_ASSERT_TRUE(planned);
    const wire::PlannedTask task = planned->tasks.at(0);
    const wire::Accept accept = accept_request(task, vector_at(*segment, kResult, kLength + 1));
    const auto accepted = co_await (*client)->accept(accept, kLong);
    CO_ASSERT_TRUE(accepted);
    EXPECT_EQ(accepted->tasks.at(0).status, std::int32_t{GOBLIN_INVALID_ARGUMENT});
    EXPECT_EQ(accepted->tasks[0].message,
              "output 0 of task 1 is f64[8]; the tensor for it is f64[9]");
    wire::Recall recall;
    recall.task = task;
    recall.outputs = {vector_at(*segment, kResult, kLength)};
    recall.outputs[0].dtype = GOBLIN_I64;
    const auto recalled = co_await (*client)->recall(recall, kLong);
    CO_ASSERT_TRUE(recalled);
    EXPECT_EQ(recalled->message, "output 0 of task 1 is f64[8]; the tensor for it is i64[8]");
  });
}

TEST_F(PlanTest, ManyHostsShareALongerAnswer) {
  run([&]() -> net::Task<void> {
    constexpr std::int64_t kTasks = 1000;  // of 8 bytes each
    auto client = co_await start("tiny-tasks", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    wire::PlanOpen open;
    open.params = {wire::Value::of(kTasks), wire::Value::of(std::int64_t{0})};
    wire::TensorAt values;
    values.dtype = GOBLIN_I64;
    values.shape = {kTasks};
    values.segment = *segment;
    wire::TensorAt stamps = values;
    stamps.dtype = GOBLIN_F64;
    stamps.shape = {0};
    open.outputs = {values, stamps};
    open.capacity = capacity();
    const auto opened = co_await (*client)->plan_open(open, kLong);
    CO_ASSERT_TRUE(opened);
    EXPECT_EQ(opened->status, GOBLIN_OK) << opened->message;
    wire::Capacity few = capacity();
    const auto for_one = co_await (*client)->plan_next({few, 4096}, kLong);
    CO_ASSERT_TRUE(for_one);
    EXPECT_EQ(for_one->tasks.size(), 256U);
    EXPECT_EQ(for_one->progress, std::uint32_t{GOBLIN_PLAN_MORE});
    wire::Capacity many = capacity();
    many.hosts = 200;
    const auto no_more = co_await (*client)->plan_next({many, 300}, kLong);
    CO_ASSERT_TRUE(no_more);
    EXPECT_EQ(no_more->tasks.size(), 300U) << "more than were asked for";
    const auto rest = co_await (*client)->plan_next({many, 4096}, kLong);
    CO_ASSERT_TRUE(rest);
    EXPECT_EQ(rest->tasks.size(), std::size_t{kTasks} - 556);
    EXPECT_EQ(rest->tasks.back().id, std::uint64_t{kTasks} - 1);
    EXPECT_EQ(rest->progress, std::uint32_t{GOBLIN_PLAN_DONE});
  });
}

TEST_F(PlanTest, RequestsWithoutAPlanAreRefused) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    const auto planned = co_await (*client)->plan_next({capacity(), 4}, kLong);
    CO_ASSERT_TRUE(planned);
    EXPECT_EQ(planned->status, std::int32_t{GOBLIN_INVALID_ARGUMENT});
    const auto finished = co_await (*client)->finish(kLong);
    CO_ASSERT_TRUE(finished);
    EXPECT_THAT(finished->message, HasSubstr("no plan is open"));
  });
}

TEST_F(PlanTest, SegmentsOfAnOpenPlanSurviveUnmap) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    const auto result = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(result);
    const auto opened = co_await (*client)->plan_open(open_request(kHonest, *segment), kLong);
    CO_ASSERT_TRUE(opened);
    std::vector<std::uint32_t> gone(1, *segment);
    const auto unmapped = co_await (*client)->unmap(gone);
    CO_ASSERT_TRUE(unmapped);
    const auto planned = co_await (*client)->plan_next({capacity(), 4}, kLong);
    CO_ASSERT_TRUE(planned);
    memory_.as<double>(kResult)[0] = 42;
    wire::Accept accept =
        accept_request(planned->tasks.at(0), vector_at(*result, kResult, kLength));
    const auto accepted = co_await (*client)->accept(accept, kLong);
    CO_ASSERT_TRUE(accepted);
    EXPECT_EQ(accepted->tasks.at(0).status, GOBLIN_OK) << accepted->tasks[0].message;
    EXPECT_EQ(accepted->tasks[0].disposition, std::uint32_t{GOBLIN_ACCEPT_MERGED});
    EXPECT_EQ(memory_.as<double>(kOutput)[0], 42);
    // For everybody else the segment is gone.
    accept.tasks[0].outputs[0] = vector_at(*segment, kResult, kLength);
    const auto refused = co_await (*client)->accept(accept, kLong);
    CO_ASSERT_TRUE(refused);
    EXPECT_THAT(refused->tasks.at(0).message, HasSubstr("is not mapped"));
    // After a restart: what was merged before is only announced.
    accept = accept_request(planned->tasks[0], std::nullopt);
    const auto restored = co_await (*client)->accept(accept, kLong);
    CO_ASSERT_TRUE(restored);
    EXPECT_EQ(restored->tasks.at(0).status, GOBLIN_OK);
  });
}

TEST_F(PlanTest, CompareIsByBitsAndCheckTakesStridedInputs) {
  run([&]() -> net::Task<void> {
    auto client = co_await start("faulty", options());
    CO_ASSERT_TRUE(client);
    const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
    CO_ASSERT_TRUE(segment);
    for (std::int64_t i = 0; i < 2 * kLength; ++i) {
      memory_.as<double>()[i] = static_cast<double>(i);
    }
    // Every second element, backwards: 14, 12, …, 0.
    wire::RunnerTask task;
    task.params = {wire::Value::of(std::int64_t{kHonest})};
    task.inputs = {vector_at(*segment, 14 * 8, kLength)};
    task.inputs[0].strides = {-16};
    task.outputs = {vector_at(*segment, kResult, kLength)};
    for (std::int64_t i = 0; i < kLength; ++i) {
      memory_.as<double>(kResult)[i] = 2 * (14.0 - 2 * static_cast<double>(i));
      memory_.as<double>(kOutput)[i] = memory_.as<double>(kResult)[i];
    }
    auto checked = co_await (*client)->check(check_request(task), kLong);
    CO_ASSERT_TRUE(checked);
    EXPECT_EQ(checked->tasks.at(0).verdict, std::uint32_t{GOBLIN_VERDICT_ACCEPT});
    auto compared = co_await (*client)->compare(
        compare_request(task, vector_at(*segment, kOutput, kLength)), kLong);
    CO_ASSERT_TRUE(compared);
    EXPECT_EQ(compared->tasks.at(0).verdict, std::uint32_t{GOBLIN_VERDICT_ACCEPT});
    // Equal numbers, other bits.
    memory_.as<double>(kOutput)[7] = -0.0;
    compared = co_await (*client)->compare(
        compare_request(task, vector_at(*segment, kOutput, kLength)), kLong);
    CO_ASSERT_TRUE(compared);
    EXPECT_EQ(compared->tasks.at(0).verdict, std::uint32_t{GOBLIN_VERDICT_REJECT});
    memory_.as<double>(kResult)[2] += 1e-9;
    checked = co_await (*client)->check(check_request(task), kLong);
    CO_ASSERT_TRUE(checked);
    EXPECT_EQ(checked->tasks.at(0).verdict, std::uint32_t{GOBLIN_VERDICT_REJECT});
    // A stride that leaves the segment is refused before anything is read.
    task.inputs[0].strides = {-32};
    checked = co_await (*client)->check(check_request(task), kLong);
    CO_ASSERT_TRUE(checked);
    EXPECT_THAT(checked->tasks.at(0).message, HasSubstr("leaves segment"));
  });
}

}  // namespace
}  // namespace goblin::testing
