// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/wire/runner.hpp"

#include "tests/core/wire/generate.hpp"

namespace goblin::wire {
namespace {

GOBLIN_WIRE_RUNNER_MESSAGES(GOBLIN_ROUND_TRIP)

template <typename T>
void expect_refused(const Result<T>& result, const std::string& field) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kCorrupt);
  EXPECT_NE(result.error().message.find(field), std::string::npos) << result.error().message;
}

TEST(PlanOpen, NoStateIsNotAnEmptyState) {
  PlanOpen open;
  EXPECT_FALSE(decode_plan_open(encode(open))->state.has_value());
  open.state.emplace();
  const auto empty = decode_plan_open(encode(open));
  ASSERT_TRUE(empty->state.has_value());
  EXPECT_TRUE(empty->state->empty());
  open.state->assign(kMaxStateBytes, std::byte{0});
  EXPECT_EQ(decode_plan_open(encode(open))->state, open.state);
  open.state->push_back({});
  expect_refused(decode_plan_open(encode(open)), "PlanOpen.state: 65537 bytes, at most 65536");
}

TEST(Tensors, StridesMatchTheShape) {
  Validate validate;
  validate.inputs = {TensorAt{0, {}, {}, 0, 0}};  // left out
  EXPECT_TRUE(decode_validate(encode(validate)));
  validate.inputs = {TensorAt{GOBLIN_F32, {2, 3}, {-12, 0}, 0, 0}};
  EXPECT_TRUE(decode_validate(encode(validate)));
  validate.inputs = {TensorAt{GOBLIN_F32, {2, 3}, {4}, 0, 0}};
  expect_refused(decode_validate(encode(validate)), "TensorAt.strides: 1 strides");
  validate.inputs = {TensorAt{GOBLIN_F32, {2, -3}, {}, 0, 0}};
  expect_refused(decode_validate(encode(validate)), "TensorAt.shape: extent -3");
  validate.inputs = {TensorAt{16, {}, {}, 0, 0}};
  expect_refused(decode_validate(encode(validate)), "TensorAt.dtype");

  Planned planned;
  planned.tasks.resize(1);
  planned.tasks[0].inputs = {View{1, 0, 0, 0, GOBLIN_F32, {4}, {4}}};
  EXPECT_TRUE(decode_planned(encode(planned)));
  planned.tasks[0].inputs[0].strides.clear();
  expect_refused(decode_planned(encode(planned)), "View.strides: 0 strides");
  planned.tasks[0].inputs[0].strides = {4};
  planned.tasks[0].inputs[0].source = 3;
  expect_refused(decode_planned(encode(planned)), "View.source: 3");
}

TEST(Closed, NumbersOutOfRange) {
  Planned planned;
  planned.progress = 4;
  expect_refused(decode_planned(encode(planned)), "Planned.progress");
  Accepted accepted;
  accepted.tasks.resize(1);
  accepted.tasks[0].disposition = 3;
  expect_refused(decode_accepted(encode(accepted)), "AcceptedTask.disposition");
  Checked checked;
  checked.tasks.resize(1);
  checked.tasks[0].verdict = 4;
  expect_refused(decode_checked(encode(checked)), "CheckedTask.verdict");
  Validated validated;
  validated.flops = -1;
  expect_refused(decode_validated(encode(validated)), "Validated.flops");
  validated.flops = 0;
  validated.bytes = std::numeric_limits<double>::quiet_NaN();
  expect_refused(decode_validated(encode(validated)), "Validated.bytes");
  RunnerLoaded loaded;
  loaded.kinds.resize(kMaxPluginKinds + 1);
  expect_refused(decode_runner_loaded(encode(loaded)), "RunnerLoaded.kinds");
  loaded.kinds.resize(1);
  loaded.kinds[0].inputs.resize(1);
  loaded.kinds[0].inputs[0].max_rank = GOBLIN_MAX_RANK + 1;
  expect_refused(decode_runner_loaded(encode(loaded)), "InputDescription.max_rank");
}

// A number of 32 bits takes half a word: once, four of them were the most that decode took.
TEST(Lists, OfSmallNumbersUpToTheirBound) {
  for (const std::uint32_t count : {5u, 100u, kMaxIds}) {
    SegmentUnmap unmap;
    unmap.segments.resize(count);
    unmap.segments.back() = count;
    const auto back = decode_segment_unmap(encode(unmap));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->segments, unmap.segments);
  }
  SegmentUnmap unmap;
  unmap.segments.resize(kMaxIds + 1);
  EXPECT_FALSE(decode_segment_unmap(encode(unmap)));
}

TEST(Messages, ForPeopleAreCutAtACharacter) {
  Done done;
  done.status = GOBLIN_INTERNAL;
  done.message = std::string(kMaxTextBytes - 1, 'x') + "\u00e4" + std::string(1000, 'y');
  const auto back = decode_done(encode(done));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->message, std::string(kMaxTextBytes - 1, 'x'));
  done.message = std::string(kMaxTextBytes, '\x80');  // no UTF-8 at all
  EXPECT_EQ(decode_done(encode(done))->message, done.message);
  done.message += '\x80';
  EXPECT_EQ(decode_done(encode(done))->message.size(), kMaxTextBytes - 3);
}

}  // namespace
}  // namespace goblin::wire
