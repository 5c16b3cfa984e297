// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The conformance kit: tries a plugin's kinds out of process, in the spirit of CLAP's validator.
// Each test runs in runners of its own, so a plugin that crashes or hangs fails that test and
// nothing else. One thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hosts/conformance/runner.hpp"

namespace goblin::conformance {

struct Case;

enum class Verdict { kPassed, kFailed, kSkipped };

struct Outcome {
  Verdict verdict = Verdict::kPassed;
  std::string text;  ///< what failed, or why it was skipped
};

struct TestName {
  std::string_view name;
  std::string_view what;  ///< the contract that it tries
  bool needs_job = false;
};

/// All tests, in order.
std::vector<TestName> test_names();

/// The tests of one kind. Keeps what they share: results that were computed once.
class Suite {
 public:
  /// `job` is a line such as "matmul/1 a=f32[30,20] b=f32[20,10]"; or only "matmul/1": then a job
  /// is guessed from the description, and where none is accepted the tests that need one are
  /// skipped. Bit i of `ignore`: output i is not compared (a time, say). Errors: the plugin cannot
  /// be loaded, it has no such kind, the line cannot be read, or the kind refuses the job.
  static Result<Suite> create(const Setup& setup, std::string_view job, std::uint64_t ignore = 0);
  ~Suite();
  Suite(Suite&&) noexcept;
  Suite& operator=(Suite&&) noexcept;

  [[nodiscard]] Outcome run(std::string_view test);
  /// The job as a line; empty when there is none.
  [[nodiscard]] std::string job_line() const;
  /// Input i's elements, and the outputs' of the job one after another, both row-major, to compare
  /// with something else.
  [[nodiscard]] const std::vector<std::byte>& input(std::size_t i) const;
  Result<std::string> outputs();

 private:
  explicit Suite(std::unique_ptr<Case> shared);
  std::unique_ptr<Case> shared_;
};

/// "name/version" of every kind of the plugin.
Result<std::vector<std::string>> kinds_of(const Setup& setup);

}  // namespace goblin::conformance
