// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Every kind of kinds_under_test.hpp through every test of the conformance kit, in real runners.
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <memory>

#include "hosts/conformance/suite.hpp"
#include "tests/contract/contract_setup.hpp"
#include "tests/contract/kinds_under_test.hpp"

namespace goblin::test {
namespace {

using conformance::Suite;

/// Suites are made once: their tests share what was computed.
Result<Suite>& suite_of(std::size_t index) {
  static std::map<std::size_t, Result<Suite>> suites;
  auto found = suites.find(index);
  if (found == suites.end()) {
    const KindUnderTest& kind = kinds_under_test()[index];
    found =
        suites.emplace(index, Suite::create(setup_of(kind.plugin), kind.job, kind.ignore)).first;
  }
  return found->second;
}

using Param = std::tuple<std::size_t, std::size_t>;  // kind, test
class KindContract : public ::testing::TestWithParam<Param> {};

TEST_P(KindContract, Holds) {
  const auto [kind, test] = GetParam();
  auto& suite = suite_of(kind);
  ASSERT_TRUE(suite) << suite.error().message;
  const auto outcome = suite->run(conformance::test_names()[test].name);
  EXPECT_EQ(outcome.verdict, conformance::Verdict::kPassed)
      << kinds_under_test()[kind].job << ": " << outcome.text
      << "\nrepeat with GOBLIN_TEST_SEED=" << contract_seed();
}

std::string param_name(const ::testing::TestParamInfo<Param>& info) {
  const auto [kind, test] = info.param;
  std::string name = kinds_under_test()[kind].job;
  name = name.substr(0, name.find('/')) + std::to_string(kind) + "_" +
         std::string(conformance::test_names()[test].name);
  for (char& c : name) {
    c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, KindContract,
    ::testing::Combine(::testing::Range<std::size_t>(0, kinds_under_test().size()),
                       ::testing::Range<std::size_t>(0, conformance::test_names().size())),
    param_name);

}  // namespace
}  // namespace goblin::test
