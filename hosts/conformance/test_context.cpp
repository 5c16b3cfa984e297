// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/conformance/test_context.hpp"

#include <algorithm>
#include <cctype>
#include <limits>

namespace goblin::conformance {
namespace {

// A test that finds more stops listing.
constexpr std::size_t kMaxProblems = 4;

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Does the word stand in the text, not as part of a longer one?
bool names(std::string_view text, std::string_view word) {
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word_character(text[at - 1])) &&
        (end == text.size() || !is_word_character(text[end]))) {
      return true;
    }
  }
  return false;
}

}  // namespace

Result<Runner*> TestContext::start(std::uint32_t threads, bool other_backend) {
  GOBLIN_TRY(Arena * memory, arena());
  GOBLIN_TRY(auto runner, Runner::start(shared_.setup, threads, other_backend));
  GOBLIN_TRY_VOID(runner->map(*memory));
  runners_.push_back(std::move(runner));
  return runners_.back().get();
}

Result<Arena*> TestContext::arena() {
  if (!arena_) {
    GOBLIN_TRY(arena_, Arena::create());
  }
  return arena_.get();
}

Result<std::unique_ptr<Play>> TestContext::play(Runner& runner, Layout layout) {
  GOBLIN_TRY(Arena * memory, arena());
  auto play = std::make_unique<Play>(job(), *memory, runner, runner, random_);
  play->use(&shared_.results);
  GOBLIN_TRY_VOID(play->place(layout));
  return play;
}

std::uint64_t TestContext::plenty() const {
  return std::max<std::uint64_t>(std::uint64_t{1} << 30, 4 * job().validated.min_task_bytes);
}

Result<std::string> TestContext::expected() {
  if (!shared_.expected) {
    GOBLIN_TRY(Runner * runner, start());
    GOBLIN_TRY(const auto honest, play(*runner));
    GOBLIN_TRY_VOID(honest->open(offer(plenty())));
    GOBLIN_TRY_VOID(honest->go_on([this] { return offer(plenty()); }));
    GOBLIN_TRY_VOID(honest->finish());
    shared_.expected = honest->outputs(shared_.ignore);
  }
  return *shared_.expected;
}

Result<void> TestContext::expect_outputs(const Play& play, const std::string& when) {
  GOBLIN_TRY(const std::string right, expected());
  if (play.outputs(shared_.ignore) != right) {
    return fail(Code::kInternal, "the job's outputs have other bits " + when);
  }
  return {};
}

void TestContext::problem(std::string text) {
  if (std::find(problems_.begin(), problems_.end(), text) != problems_.end()) {
    return;  // said already
  }
  if (problems_.size() < kMaxProblems) {
    problems_.push_back(std::move(text));
  } else if (problems_.size() == kMaxProblems) {
    problems_.emplace_back("and more");
  }
}

bool TestContext::clean(const std::string& call, std::int32_t status, const std::string& message,
                        const Codes& codes) {
  if (status == GOBLIN_OK) {
    return true;
  }
  const Code code = code_from_status(status);
  if (std::find(codes.begin(), codes.end(), code) == codes.end()) {
    std::string expected;
    for (const Code one : codes) {
      expected += (expected.empty() ? "" : ", ") + std::string(code_name(one));
    }
    problem(call + ": refused with " + std::string(code_name(code)) + " (" + message +
            "); expected one of " + expected);
  } else if (message.empty() || message.find("without saying why") != std::string::npos) {
    problem(call + ": refused with " + std::string(code_name(code)) + ", but without a message");
  }
  return false;
}

bool TestContext::clean_named(const std::string& call, std::int32_t status,
                              const std::string& message, const Codes& codes) {
  if (clean(call, status, message, codes)) {
    return true;
  }
  bool named = false;
  for (const auto& input : kind().inputs) {
    named = named || names(message, input.name);
  }
  for (const auto& param : kind().params) {
    named = named || names(message, param.name);
  }
  if (!named) {
    problem(call + ": the refusal names no argument: " + message);
  }
  return false;
}

const std::vector<std::int64_t>& TestContext::hostile_extents() {
  // The first twelve are small enough for data.
  static const std::vector<std::int64_t> extents{0,
                                                 1,
                                                 1,
                                                 1,
                                                 2,
                                                 2,
                                                 3,
                                                 4,
                                                 5,
                                                 7,
                                                 8,
                                                 16,
                                                 31,
                                                 64,
                                                 255,
                                                 4097,
                                                 1 << 20,
                                                 std::int64_t{1} << 31,
                                                 (std::int64_t{1} << 32) + 1,
                                                 std::int64_t{1} << 40,
                                                 std::int64_t{1} << 61};
  return extents;
}

wire::TensorSpec TestContext::hostile_spec(std::uint64_t most_bytes) {
  // What the wire refuses by itself (over 2^62 bytes, negative extents) never reaches a runner.
  for (;;) {
    wire::TensorSpec spec;
    spec.dtype = static_cast<wire::DType>(GOBLIN_BOOL + below(15));
    const std::uint64_t rank = below(3) == 0 ? below(17) : below(4);
    const std::uint64_t extents = below(2) == 0 ? hostile_extents().size() : 12;
    for (std::uint64_t i = 0; i < rank; ++i) {
      spec.shape.push_back(hostile_extents()[static_cast<std::size_t>(below(extents))]);
    }
    const auto size = spec.size_bytes();
    if (size && *size <= most_bytes) {
      return spec;
    }
  }
}

std::int64_t TestContext::hostile_integer() {
  static const std::vector<std::int64_t> integers{0,
                                                  1,
                                                  -1,
                                                  2,
                                                  3,
                                                  7,
                                                  255,
                                                  256,
                                                  4096,
                                                  -4096,
                                                  INT32_MAX,
                                                  INT32_MIN,
                                                  std::int64_t{1} << 32,
                                                  std::int64_t{1} << 53,
                                                  INT64_MAX,
                                                  INT64_MIN,
                                                  INT64_MAX - 1,
                                                  std::int64_t{1} << 62};
  return below(3) == 0 ? static_cast<std::int64_t>(random_()) : pick(integers);
}

double TestContext::hostile_real() {
  using Limits = std::numeric_limits<double>;
  static const std::vector<double> reals{0.0,
                                         -0.0,
                                         1.0,
                                         -1.0,
                                         0.5,
                                         Limits::quiet_NaN(),
                                         Limits::infinity(),
                                         -Limits::infinity(),
                                         Limits::max(),
                                         Limits::lowest(),
                                         Limits::denorm_min(),
                                         1e18,
                                         -1e18};
  return pick(reals);
}

wire::Value TestContext::hostile_value() {
  return below(3) == 0 ? wire::Value::of(hostile_real()) : wire::Value::of(hostile_integer());
}

std::array<std::uint8_t, 32> TestContext::seed() {
  std::array<std::uint8_t, 32> bytes{};
  const std::uint64_t pattern = below(5);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::array<std::uint64_t, 5> choices{0, 0xFF, 0xAA, i, random_()};
    bytes[i] = static_cast<std::uint8_t>(choices[static_cast<std::size_t>(pattern)]);
  }
  return bytes;
}

JobSpec TestContext::base() const {
  if (shared_.job) {
    return shared_.job->spec;
  }
  const auto guesses = guess_jobs(kind());
  return guesses.empty() ? JobSpec{} : guesses.front();
}

}  // namespace goblin::conformance
