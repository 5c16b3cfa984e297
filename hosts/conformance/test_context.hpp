// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What one conformance test works with, and how it judges answers to hostile input.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hosts/conformance/play.hpp"

namespace goblin::conformance {

/// One kind and, when there is one, a small job: shared by all of its tests.
struct Case {
  Setup setup;
  std::uint32_t kind = 0;
  wire::KindDescription description;
  std::optional<Job> job;
  std::uint64_t ignore = 0;  ///< outputs that need not have the same bits each time, a bit each
  ResultCache results;
  std::optional<std::string> expected;  ///< outputs of the job, once they are known
};

class TestContext {
 public:
  TestContext(Case& shared, std::uint64_t seed) : shared_(shared), random_(seed) {}

  [[nodiscard]] Case& shared() { return shared_; }
  [[nodiscard]] const wire::KindDescription& kind() const { return shared_.description; }
  [[nodiscard]] const Job& job() const { return *shared_.job; }
  Random& random() { return random_; }
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(below(from.size()))];
  }

  /// A runner and an arena of the test's own; both stay till its end.
  Result<Runner*> start(std::uint32_t threads = 1, bool other_backend = false);
  Result<Arena*> arena();
  /// The job placed in the arena.
  Result<std::unique_ptr<Play>> play(Runner& runner, Layout layout = Layout::kRowMajor);
  /// What a host must offer to hold any task that was planned for plenty.
  [[nodiscard]] std::uint64_t plenty() const;
  /// What the job's outputs must be; computed once.
  Result<std::string> expected();
  /// Fails when the outputs are not those.
  Result<void> expect_outputs(const Play& play, const std::string& when);

  /// A fault that the test goes on after.
  void problem(std::string text);
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

  using Codes = std::vector<Code>;
  /// Judges the answer to hostile input: OK, or one of `codes` with a message that says something.
  /// `internal` is a bug that hostile input must not be able to show. True when it was OK.
  bool clean(const std::string& call, std::int32_t status, const std::string& message,
             const Codes& codes);
  /// The same, and a refusal must name one of the kind's arguments.
  bool clean_named(const std::string& call, std::int32_t status, const std::string& message,
                   const Codes& codes);

  // Hostile values.
  static const std::vector<std::int64_t>& hostile_extents();
  wire::TensorSpec hostile_spec(std::uint64_t most_bytes);
  std::int64_t hostile_integer();
  double hostile_real();
  wire::Value hostile_value();
  std::array<std::uint8_t, 32> seed();
  /// The types of the job's inputs, or of something that fits the description.
  [[nodiscard]] JobSpec base() const;

 private:
  Case& shared_;
  Random random_;
  std::unique_ptr<Arena> arena_;
  std::vector<std::unique_ptr<Runner>> runners_;
  std::vector<std::string> problems_;
};

/// One test; runs in runners of its own. An error is a failure.
struct Test {
  std::string_view name;
  std::string_view what;  ///< the contract that it tries
  bool needs_job;
  Result<void> (*run)(TestContext&);
};

// Each file of tests gives its own.
std::vector<Test> specification_tests();
std::vector<Test> garbage_tests();
std::vector<Test> job_tests();
std::vector<Test> plan_tests();
std::vector<Test> accept_tests();
std::vector<Test> task_tests();

}  // namespace goblin::conformance
