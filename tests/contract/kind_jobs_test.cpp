// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Jobs as lines, guessed jobs, and results of contract jobs that can be computed another way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "goblin/abi/plugin.h"
#include "hosts/conformance/job.hpp"
#include "tests/contract/contract_setup.hpp"

namespace goblin::test {
namespace {

using conformance::guess_jobs;
using conformance::JobSpec;
using conformance::parse_job;
using conformance::Suite;
using conformance::Verdict;
using ::testing::HasSubstr;

wire::KindDescription example() {
  wire::KindDescription kind;
  kind.name = "example";
  kind.version = 3;
  kind.inputs.push_back({"x", "", GOBLIN_DTYPE_BIT(GOBLIN_F32), 1, 3, false});
  kind.inputs.push_back(
      {"w", "", GOBLIN_DTYPE_BIT(GOBLIN_I8) | GOBLIN_DTYPE_BIT(GOBLIN_F64), 0, 1, true});
  kind.params.push_back({"n", "", wire::Value::of(std::int64_t{7}),
                         wire::Value::of(std::int64_t{1}), wire::Value::of(std::int64_t{9}),
                         false});
  kind.params.push_back(
      {"rate", "", wire::Value::of(0.0), wire::Value::of(0.0), wire::Value::of(1.0), true});
  return kind;
}

TEST(JobLine, IsRead) {
  const auto job = parse_job("example/3  rate=0.25 x=f32[2,0,5] ", example());
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->inputs.at(0), (wire::TensorSpec{GOBLIN_F32, {2, 0, 5}}));
  EXPECT_EQ(job->inputs.at(1).dtype, 0u);
  EXPECT_EQ(job->params.at(0), wire::Value::of(std::int64_t{7}));
  EXPECT_EQ(job->params.at(1), wire::Value::of(0.25));
  const auto scalar = parse_job("example/3 rate=1 x=f32[1] w=i8[] n=2", example());
  ASSERT_TRUE(scalar) << scalar.error().message;
  EXPECT_EQ(scalar->inputs.at(1), (wire::TensorSpec{GOBLIN_I8, {}}));
  EXPECT_EQ(job_line(*scalar, example()), "example/3 x=f32[1] w=i8[] n=2 rate=1.000000");
  EXPECT_EQ(conformance::kind_of_line("  example/3 x=1"), "example/3");
}

TEST(JobLine, EveryWrongWordIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"example/3 x", "'x' of the job: write NAME=VALUE"},
      {"example/3 y=1", "no argument 'y'"},
      {"example/3 x=f33[2]", "'f33' is no dtype"},
      {"example/3 x=f32", "write an input as dtype and shape"},
      {"example/3 x=", "write an input as dtype and shape"},
      {"example/3 x=f32[2", "write an input as dtype and shape"},
      {"example/3 x=f32[2,]]", "'x=f32[2,]]'"},
      {"example/3 x=f32[-1]", "'-1' is no extent"},
      {"example/3 x=f32[2,,3]", "'' is no extent"},
      {"example/3 x=f32[9000000000000000000]", "'x=f32[9000000000000000000]'"},
      {"example/3 x=f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "of the job"},
      {"example/3 x=f32[2] n=2.5 rate=0", "'n=2.5' of the job: an integer was expected"},
      {"example/3 x=f32[2] rate=much", "a number was expected"},
      {"example/3 x=f32[2]", "'rate' of the job: the parameter is missing"},
      {"example/3 rate=0", "'x' of the job: the input is missing"},
  };
  for (const auto& [line, says] : cases) {
    const auto job = parse_job(line, example());
    ASSERT_FALSE(job) << line;
    EXPECT_EQ(job.error().code, Code::kInvalidArgument) << line;
    EXPECT_THAT(job.error().message, HasSubstr(says)) << line;
  }
}

TEST(JobGuesses, FitTheDescription) {
  const auto jobs = guess_jobs(example());
  ASSERT_FALSE(jobs.empty());
  for (const JobSpec& job : jobs) {
    EXPECT_EQ(job.inputs.at(0).dtype, std::uint32_t{GOBLIN_F32});
    EXPECT_EQ(job.inputs[0].shape.size(), 2u);
    EXPECT_TRUE(job.inputs.at(1).dtype == GOBLIN_F64 || job.inputs[1].dtype == GOBLIN_I8);
    EXPECT_LE(job.inputs[1].shape.size(), 1u);
  }
}

TEST(SuiteOfAPlugin, GuessesAJobOfEveryKindHere) {
  for (const auto& [plugin, kind] : std::vector<std::pair<std::string, std::string>>{
           {GOBLIN_TEST_MATMUL, "matmul/1"},
           {GOBLIN_TEST_PLUGINS "/tiny-tasks.so", "tiny-tasks/1"},
           {GOBLIN_TEST_PLUGINS "/pi-estimate.so", "pi-estimate/1"}}) {
    auto suite = Suite::create(setup_of(plugin), kind);
    ASSERT_TRUE(suite) << suite.error().message;
    EXPECT_THAT(suite->job_line(), HasSubstr(kind));
    const auto outcome = suite->run("job");
    EXPECT_EQ(outcome.verdict, Verdict::kPassed) << suite->job_line() << ": " << outcome.text;
  }
}

TEST(SuiteOfAPlugin, SaysWhyItCannotBegin) {
  const auto setup = setup_of(GOBLIN_TEST_PLUGINS "/tiny-tasks.so");
  auto suite = Suite::create(setup, "matmul/1");
  ASSERT_FALSE(suite);
  EXPECT_EQ(suite.error().message, "the plugin has no kind 'matmul/1'; it has tiny-tasks/1");
  suite = Suite::create(setup, "tiny-tasks/1 tasks=-5");
  ASSERT_FALSE(suite);
  EXPECT_THAT(suite.error().message, HasSubstr("refuses the job: argument 'tasks' is -5"));
  suite = Suite::create(setup_of(GOBLIN_TEST_PLUGINS "/crash-constructor.so"), "plain/1");
  ASSERT_FALSE(suite);
  EXPECT_THAT(suite.error().message, HasSubstr("crashed"));
  suite = Suite::create(setup_of("/nowhere/at/all.so"), "plain/1");
  ASSERT_FALSE(suite);
  EXPECT_THAT(suite.error().message, HasSubstr("/nowhere/at/all.so"));
}

TEST(SuiteOfAPlugin, AnUnknownTestFails) {
  auto suite =
      Suite::create(setup_of(GOBLIN_TEST_PLUGINS "/tiny-tasks.so"), "tiny-tasks/1 tasks=3");
  ASSERT_TRUE(suite) << suite.error().message;
  EXPECT_EQ(suite->run("no-such-test").verdict, Verdict::kFailed);
}

TEST(Answers, AProductIsTheProduct) {
  auto suite = Suite::create(setup_of(GOBLIN_TEST_MATMUL), "matmul/1 a=i32[7,30] b=i32[30,5]");
  ASSERT_TRUE(suite) << suite.error().message;
  const auto outputs = suite->outputs();
  ASSERT_TRUE(outputs) << outputs.error().message;
  std::vector<std::uint32_t> a(7 * 30), b(30 * 5), c(7 * 5);
  std::memcpy(a.data(), suite->input(0).data(), suite->input(0).size());
  std::memcpy(b.data(), suite->input(1).data(), suite->input(1).size());
  ASSERT_EQ(outputs->size(), 4 * c.size());
  std::memcpy(c.data(), outputs->data(), outputs->size());
  for (std::size_t i = 0; i < 7; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      std::uint32_t sum = 0;
      for (std::size_t k = 0; k < 30; ++k) sum += a[30 * i + k] * b[5 * k + j];
      EXPECT_EQ(c[5 * i + j], sum) << i << ", " << j;
    }
  }
}

TEST(Answers, TinyTasksScatterTheirNumbers) {
  auto suite =
      Suite::create(setup_of(GOBLIN_TEST_PLUGINS "/tiny-tasks.so"), "tiny-tasks/1 tasks=50");
  ASSERT_TRUE(suite) << suite.error().message;
  const auto outputs = suite->outputs();
  ASSERT_TRUE(outputs) << outputs.error().message;
  ASSERT_EQ(outputs->size(), 50 * 8u);
  for (std::uint64_t i = 0; i < 50; ++i) {
    std::uint64_t got = 0;
    std::memcpy(&got, outputs->data() + 8 * i, 8);
    const std::uint64_t x = i * 0x9e3779b97f4a7c15;
    EXPECT_EQ(got, x ^ (x >> 32)) << i;
  }
}

TEST(Answers, PiIsAboutPi) {
  auto suite = Suite::create(setup_of(GOBLIN_TEST_PLUGINS "/pi-estimate.so"),
                             "pi-estimate/1 samples=9000000");
  ASSERT_TRUE(suite) << suite.error().message;
  const auto outputs = suite->outputs();
  ASSERT_TRUE(outputs) << outputs.error().message;
  double pi = 0;
  std::int64_t inside = 0;
  ASSERT_EQ(outputs->size(), 16u);
  std::memcpy(&pi, outputs->data(), 8);
  std::memcpy(&inside, outputs->data() + 8, 8);
  EXPECT_EQ(pi, 4.0 * static_cast<double>(inside) / 9e6);
  EXPECT_NEAR(pi, 3.14159265358979, 5 * 1.642 / std::sqrt(9e6));  // five deviations
}

}  // namespace
}  // namespace goblin::test
