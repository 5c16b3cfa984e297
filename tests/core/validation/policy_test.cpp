// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/validation/validation.hpp"
#include "goblin/abi/plugin.h"

namespace goblin::validation {
namespace {

using testing::HasSubstr;
using wire::Policy;

TEST(MakePolicy, TakesWhatWasAskedElseTheKindsDefaultElseAlgebraic) {
  EXPECT_EQ(make_policy(Policy::kDefault, 0, 0, 0)->policy, Policy::kAlgebraic);
  EXPECT_EQ(make_policy(Policy::kDefault, 0, GOBLIN_POLICY_VALIDATOR, 0)->policy,
            Policy::kValidator);
  EXPECT_EQ(make_policy(Policy::kAlgebraic, 0, GOBLIN_POLICY_REPLICATE, 3)->policy,
            Policy::kAlgebraic);
  const auto replicate = make_policy(Policy::kDefault, 0, GOBLIN_POLICY_REPLICATE, 3);
  EXPECT_EQ(replicate->policy, Policy::kReplicate);
  EXPECT_EQ(replicate->replicas, 3u);
  EXPECT_EQ(make_policy(Policy::kReplicate, 16, GOBLIN_POLICY_REPLICATE, 3)->replicas, 16u);
  EXPECT_EQ(make_policy(Policy::kReplicate, 0, GOBLIN_POLICY_ALGEBRAIC, 9)->replicas, 2u);
}

TEST(MakePolicy, RefusesWithTheArgumentItsValueAndTheRemedy) {
  const auto expect_refused = [](const Result<PolicySpec>& result, const char* name,
                                 const char* value, const char* allowed) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
    EXPECT_THAT(result.error().message, testing::StartsWith(name));
    EXPECT_THAT(result.error().message, HasSubstr(value));
    EXPECT_THAT(result.error().message, HasSubstr(allowed));
  };
  expect_refused(make_policy(Policy::kReplicate, 1, 0, 0), "replicas", "1", "2 to 16");
  expect_refused(make_policy(Policy::kReplicate, 17, 0, 0), "replicas", "17", "2 to 16");
  expect_refused(make_policy(Policy::kAlgebraic, 2, 0, 0), "replicas", "2", "replicate");
  expect_refused(make_policy(Policy::kDefault, 0, GOBLIN_POLICY_REPLICATE, 99), "replicas", "99",
                 "2 to 16");
  expect_refused(make_policy(static_cast<Policy>(9), 0, 0, 0), "policy", "9", "algebraic");
  expect_refused(make_policy(Policy::kDefault, 0, 7, 0), "policy", "7", "algebraic");
}

}  // namespace
}  // namespace goblin::validation
