// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/conformance/suite.hpp"

#include <algorithm>
#include <utility>

#include "hosts/conformance/test_context.hpp"

namespace goblin::conformance {
namespace {

// A guessed job should not take a minute; nor should its arrays.
constexpr double kMostFlops = 1e10;
constexpr std::uint64_t kMostBytes = std::uint64_t{32} << 20;

const std::vector<Test>& all_tests() {
  static const std::vector<Test> tests = [] {
    std::vector<Test> list;
    for (const auto& part : {specification_tests(), garbage_tests(), job_tests(), plan_tests(),
                             accept_tests(), task_tests()}) {
      list.insert(list.end(), part.begin(), part.end());
    }
    return list;
  }();
  return tests;
}

std::string kind_text(const wire::KindDescription& kind) {
  return kind.name + "/" + std::to_string(kind.version);
}

/// FNV-1a: the same number everywhere, unlike std::hash.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char c : text) {
    value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return value;
}

/// Does the kind accept the job? Its outputs and estimate.
Result<wire::Validated> validate(Runner& runner, std::uint32_t kind, const JobSpec& spec) {
  wire::Validate request;
  request.kind = kind;
  request.params = spec.params;
  for (const wire::TensorSpec& input : spec.inputs) {
    wire::TensorAt at;
    at.dtype = input.dtype;
    at.shape = input.shape;
    request.inputs.push_back(std::move(at));
  }
  GOBLIN_TRY(wire::Validated validated, runner.validate(request));
  if (validated.status != GOBLIN_OK) {
    return fail(code_from_status(validated.status), validated.message);
  }
  return validated;
}

std::uint64_t output_bytes(const wire::Validated& validated) {
  std::uint64_t bytes = 0;
  for (const wire::TensorSpec& spec : validated.outputs) {
    bytes += std::min(spec.size_bytes().value_or(kMostBytes), kMostBytes);
  }
  return bytes;
}

/// The guess with the most work that is still small, so that there is something to cut.
std::optional<Job> guess(Runner& runner, std::uint32_t index, const wire::KindDescription& kind) {
  std::optional<Job> best;
  for (const JobSpec& spec : guess_jobs(kind)) {
    const auto validated = validate(runner, index, spec);
    if (!validated || validated->flops > kMostFlops || output_bytes(*validated) >= kMostBytes ||
        (best && validated->flops <= best->validated.flops)) {
      continue;
    }
    best = Job{index, spec, {}, *validated};
  }
  return best;
}

}  // namespace

std::vector<TestName> test_names() {
  std::vector<TestName> names;
  for (const Test& test : all_tests()) {
    names.push_back({test.name, test.what, test.needs_job});
  }
  return names;
}

Suite::Suite(std::unique_ptr<Case> shared) : shared_(std::move(shared)) {}
Suite::~Suite() = default;
Suite::Suite(Suite&&) noexcept = default;
Suite& Suite::operator=(Suite&&) noexcept = default;

Result<Suite> Suite::create(const Setup& setup, std::string_view line, std::uint64_t ignore) {
  auto shared = std::make_unique<Case>();
  shared->setup = setup;
  shared->ignore = ignore;
  GOBLIN_TRY(const auto runner, Runner::start(setup));
  const std::string wanted(kind_of_line(line));
  const auto& kinds = runner->kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(),
                                  [&](const auto& kind) { return kind_text(kind) == wanted; });
  if (found == kinds.end()) {
    std::string there;
    for (const auto& kind : kinds) {
      there += (there.empty() ? "" : ", ") + kind_text(kind);
    }
    return fail(Code::kNotFound, "the plugin has no kind '" + wanted + "'; it has " + there);
  }
  shared->kind = static_cast<std::uint32_t>(found - kinds.begin());
  shared->description = *found;
  if (line.find('=') == std::string_view::npos &&
      (!found->inputs.empty() || !found->params.empty())) {
    shared->job = guess(*runner, shared->kind, *found);
  } else {
    GOBLIN_TRY(JobSpec spec, parse_job(line, *found));
    auto validated = validate(*runner, shared->kind, spec);
    if (!validated) {
      return fail(validated.error().with_context(wanted + " refuses the job"));
    }
    shared->job = Job{shared->kind, std::move(spec), {}, std::move(*validated)};
  }
  if (shared->job) {
    Random random(setup.seed);
    for (const wire::TensorSpec& input : shared->job->spec.inputs) {
      shared->job->elements.push_back(make_elements(input, random));
    }
  }
  return Suite(std::move(shared));
}

Outcome Suite::run(std::string_view name) {
  const auto& tests = all_tests();
  const auto found =
      std::find_if(tests.begin(), tests.end(), [&](const Test& test) { return test.name == name; });
  if (found == tests.end()) {
    return {Verdict::kFailed, "there is no test '" + std::string(name) + "'"};
  }
  if (found->needs_job && !shared_->job) {
    return {Verdict::kSkipped, "no job could be guessed that the kind accepts: name one"};
  }
  TestContext context(*shared_, shared_->setup.seed ^ hash(name));
  const Result<void> done = found->run(context);
  if (!done) {
    context.problem(done.error().message);
  }
  Outcome outcome;
  for (const std::string& problem : context.problems()) {
    outcome.verdict = Verdict::kFailed;
    outcome.text += (outcome.text.empty() ? "" : "\n") + problem;
  }
  return outcome;
}

std::string Suite::job_line() const {
  return shared_->job ? conformance::job_line(shared_->job->spec, shared_->description) : "";
}

const std::vector<std::byte>& Suite::input(std::size_t i) const {
  return shared_->job->elements.at(i);
}

Result<std::string> Suite::outputs() {
  TestContext context(*shared_, shared_->setup.seed);
  return context.expected();
}

Result<std::vector<std::string>> kinds_of(const Setup& setup) {
  GOBLIN_TRY(const auto runner, Runner::start(setup));
  std::vector<std::string> names;
  for (const auto& kind : runner->kinds()) {
    names.push_back(kind_text(kind));
  }
  return names;
}

}  // namespace goblin::conformance
