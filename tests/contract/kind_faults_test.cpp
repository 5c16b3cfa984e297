// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The conformance kit finds what it is there to find: each carelessness of the plugin sloppy.so, in
// the test that the table says, and none in the kind that is not careless.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/contract/contract_setup.hpp"
#include "tests/testing/plugins/sloppy_modes.hpp"

namespace goblin::test {
namespace {

using conformance::Outcome;
using conformance::Suite;
using conformance::Verdict;
using ::testing::HasSubstr;
using namespace goblin::testing;

const std::string kPlugin = GOBLIN_TEST_PLUGINS "/sloppy.so";

Result<Suite> sloppy(std::int64_t mode) {
  conformance::Setup setup = setup_of(kPlugin);
  // Only what hangs by intention is waited for briefly: a busy machine makes honest calls slow.
  if (mode == kStateHangs || mode == kExecuteIgnoresCancel) {
    setup.deadline = net::Milliseconds(1'500);
  }
  return Suite::create(setup, "sloppy/1 x=f64[200] mode=" + std::to_string(mode));
}

TEST(KindFaults, ACarefulKindPassesEverything) {
  auto suite = sloppy(kFlawless);
  ASSERT_TRUE(suite) << suite.error().message;
  for (const auto& test : conformance::test_names()) {
    const Outcome outcome = suite->run(test.name);
    EXPECT_EQ(outcome.verdict, Verdict::kPassed) << test.name << ": " << outcome.text;
  }
}

struct Fault {
  SloppyMode mode;
  const char* test;
  const char* says;
};

const Fault kFaults[] = {
    {kValidateThrows, "validate-types", "refused with internal (vector::at)"},
    {kValidateNamesNothing, "validate-types", "names no argument: that is too long"},
    {kValidateLowEstimate, "job", "flops; its tasks take"},
    {kValidateLowMemory, "memory", "planner_next for 16 bytes of memory was refused (exhausted)"},
    {kStateIsBelieved, "states", "planner_create from a state that is"},
    {kStateCrashes, "states", "the plugin crashed"},
    {kStateHangs, "states", "did not answer within 1500 ms"},
    {kStateIsForgotten, "restarts", "other bits after a restart"},
    {kNextIgnoresMemory, "capacities", "gives a task of"},
    {kNextCrashesWithoutHosts, "capacities", "the plugin crashed"},
    {kNextSaysNoBytes, "capacities", "does not say how much is needed"},
    {kNextUnderstatesMemory, "job", "its inputs and outputs alone have"},
    {kNextWaitsForEver, "job", "waits for a result"},
    {kNextLosesRefusedTask, "capacities", "other bits after hosts that can hold nothing"},
    {kAcceptByNumber, "accept-hostile", "planner_accept of a task that does not fit"},
    {kAcceptAppends, "accept-again", "other bits after results were replaced"},
    {kRecallRounds, "recall", "gives other bits than were accepted"},
    {kRecallByNumber, "recall-hostile", "planner_recall of a task that does not fit"},
    {kFinishTwice, "job", "after a second planner_finish"},
    {kBitsOfCapacity, "same-bits", "other bits with hosts of"},
    {kBitsOfThreads, "same-bits-elsewhere", "with three threads"},
    {kBitsOfLayout, "layouts", ""},
    {kExecuteTrustsShape, "execute-hostile", "execute of a task that does not fit"},
    {kExecuteLeavesHoles, "same-bits-elsewhere", "other bits"},
    {kExecuteIgnoresCancel, "execute-hostile", "did not answer within 1500 ms"},
    {kExecuteNeedsMemory, "memory", "its runner grew by"},
    {kCheckTrustsShape, "check-hostile", "the plugin crashed"},
    {kCheckAcceptsNan, "check-hostile", "every element is NaN"},
    {kCheckRejectsOnSeed, "job", "rejects an honest result"},
    {kCheckAcceptsAll, "check-hostile", "every element is wrong"},
    {kCheckAbstains, "job", "abstains from every honest result"},
    {kCompareByLength, "compare", "results of other types agree"},
    {kCompareIsEmpty, "compare", "the plugin crashed"},
};

class KindFault : public ::testing::TestWithParam<Fault> {};

TEST_P(KindFault, IsFound) {
  const Fault fault = GetParam();
  auto suite = sloppy(fault.mode);
  ASSERT_TRUE(suite) << suite.error().message;
  const Outcome outcome = suite->run(fault.test);
  EXPECT_EQ(outcome.verdict, Verdict::kFailed) << fault.test << " passes";
  EXPECT_THAT(outcome.text, HasSubstr(fault.says));
}

INSTANTIATE_TEST_SUITE_P(Sloppy, KindFault, ::testing::ValuesIn(kFaults), [](const auto& one) {
  return "Mode" + std::to_string(static_cast<std::int64_t>(one.param.mode));
});

TEST(KindFaults, EveryModeIsTried) {
  std::set<std::int64_t> modes{kFlawless};
  for (const Fault& fault : kFaults) modes.insert(fault.mode);
  EXPECT_EQ(static_cast<std::int64_t>(modes.size()), kSloppyModes);
}

}  // namespace
}  // namespace goblin::test
