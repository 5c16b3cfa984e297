// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/cli/plugin_check.hpp"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <random>
#include <string_view>

#include "hosts/common/installation.hpp"
#include "hosts/conformance/job.hpp"
#include "hosts/conformance/suite.hpp"

namespace goblin::cli {
namespace {

using conformance::Outcome;
using conformance::Suite;
using conformance::Verdict;

// The one that defines the bits.
constexpr std::string_view kReference = "reference";

int report(const Error& error) {
  std::cerr << "goblin: " << error.message << "\n";
  return error.code == Code::kInvalidArgument ? 2 : 1;
}

struct Count {
  int passed = 0, failed = 0, skipped = 0;
};

void print_line(std::string_view verdict, std::string_view name, std::string_view text) {
  std::cout << "  " << std::left << std::setw(8) << verdict << std::setw(21) << name << text << "\n"
            << std::flush;
}

void print(const conformance::TestName& test, const Outcome& outcome, Count& count) {
  if (outcome.verdict == Verdict::kPassed) {
    ++count.passed;
    print_line("passed", test.name, test.what);
    return;
  }
  if (outcome.verdict == Verdict::kSkipped) {
    ++count.skipped;
    print_line("skipped", test.name, outcome.text);
    return;
  }
  ++count.failed;
  print_line("FAILED", test.name, test.what);
  for (std::string_view rest = outcome.text; !rest.empty();) {
    const auto end = std::min(rest.find('\n'), rest.size());
    print_line("", "", rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

Result<conformance::Setup> make_setup(const PluginCheckOptions& options) {
  GOBLIN_TRY(const hosts::Installation installation, hosts::Installation::locate(""));
  conformance::Setup setup;
  GOBLIN_TRY(setup.runner, installation.runner());
  GOBLIN_TRY(setup.backend, installation.backend(options.backend));
  if (options.backend != kReference) {
    GOBLIN_TRY(setup.other_backend, installation.backend(kReference));
  }
  setup.plugin = options.file;
  setup.seed = options.seed != 0 ? options.seed : std::random_device{}();
  return setup;
}

/// The jobs that were named, and the bare name of every kind that has none.
Result<std::vector<std::string>> jobs_of(const PluginCheckOptions& options,
                                         const conformance::Setup& setup) {
  std::vector<std::string> jobs = options.jobs;
  GOBLIN_TRY(const std::vector<std::string> kinds, conformance::kinds_of(setup));
  for (const std::string& kind : kinds) {
    const bool named = std::any_of(options.jobs.begin(), options.jobs.end(), [&](const auto& job) {
      return conformance::kind_of_line(job) == kind;
    });
    if (!named) {
      jobs.push_back(kind);
    }
  }
  return jobs;
}

Result<std::vector<conformance::TestName>> tests_of(const PluginCheckOptions& options) {
  const auto all = conformance::test_names();
  std::vector<conformance::TestName> wanted;
  for (const auto& test : all) {
    const auto& named = options.tests;
    if (named.empty() || std::find(named.begin(), named.end(), test.name) != named.end()) {
      wanted.push_back(test);
    }
  }
  for (const std::string& name : options.tests) {
    if (std::none_of(all.begin(), all.end(), [&](const auto& test) { return test.name == name; })) {
      return fail(Code::kInvalidArgument,
                  "there is no test '" + name + "'; `goblin plugin check --list` names all");
    }
  }
  return wanted;
}

}  // namespace

int check_plugin(const PluginCheckOptions& options) {
  if (options.list) {
    for (const auto& test : conformance::test_names()) {
      print_line("", test.name, test.what);
    }
    return 0;
  }
  const auto tests = tests_of(options);
  if (!tests) {
    return report(tests.error());
  }
  const auto setup = make_setup(options);
  if (!setup) {
    return report(setup.error());
  }
  const auto jobs = jobs_of(options, *setup);
  if (!jobs) {
    return report(jobs.error().with_context("'" + options.file + "'"));
  }
  Count count;
  for (const std::string& job : *jobs) {
    auto suite = Suite::create(*setup, job);
    if (!suite) {
      return report(suite.error());
    }
    const std::string line = suite->job_line();
    std::cout << (line.empty() ? job + " (no job: name one with --job)" : line) << "\n";
    for (const auto& test : *tests) {
      print(test, suite->run(test.name), count);
    }
  }
  std::cout << count.passed << " passed, " << count.failed << " failed, " << count.skipped
            << " skipped; --seed " << setup->seed << " repeats this run\n";
  return count.failed == 0 ? 0 : 1;
}

}  // namespace goblin::cli
