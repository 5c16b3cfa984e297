// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/common/units.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <limits>
#include <span>

namespace goblin::hosts {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};
constexpr std::array<Unit, 10> kByteUnits = {{{"", 1},
                                              {"B", 1},
                                              {"KB", 1'000},
                                              {"MB", 1'000'000},
                                              {"GB", 1'000'000'000},
                                              {"TB", 1'000'000'000'000},
                                              {"KiB", 1ULL << 10},
                                              {"MiB", 1ULL << 20},
                                              {"GiB", 1ULL << 30},
                                              {"TiB", 1ULL << 40}}};
constexpr std::array<Unit, 5> kTimeUnits = {
    {{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

/// "12.5 unit" times the unit's factor, rounded down, in whole numbers.
Result<std::uint64_t> parse_scaled(std::string_view text, std::span<const Unit> units,
                                   std::string_view remedy) {
  std::size_t at = 0;
  while (at < text.size() && is_digit(text[at])) {
    ++at;
  }
  const std::string_view whole_text = text.substr(0, at);
  std::string_view fraction_text;
  if (at < text.size() && text[at] == '.') {
    const std::size_t begin = ++at;
    while (at < text.size() && is_digit(text[at])) {
      ++at;
    }
    fraction_text = text.substr(begin, at - begin);
    if (fraction_text.empty()) {
      return fail(Code::kInvalidArgument, quoted(text) + " " + std::string(remedy));
    }
  }
  if (at < text.size() && text[at] == ' ') {
    ++at;
  }
  const std::string_view name = text.substr(at);
  const Unit* unit = nullptr;
  for (const Unit& candidate : units) {
    if (candidate.name == name) {
      unit = &candidate;
    }
  }
  if (whole_text.empty() || unit == nullptr) {
    return fail(Code::kInvalidArgument, quoted(text) + " " + std::string(remedy));
  }
  std::uint64_t whole = 0;
  const auto [end, error] =
      std::from_chars(whole_text.data(), whole_text.data() + whole_text.size(), whole);
  (void)end;
  if (error != std::errc() || whole > std::numeric_limits<std::uint64_t>::max() / unit->factor) {
    return fail(Code::kInvalidArgument, quoted(text) + " is too large");
  }
  std::uint64_t value = whole * unit->factor;
  // Digit by digit: a digit's worth is below the factor, so nothing overflows.
  std::uint64_t rest = 0;
  for (std::size_t i = std::min<std::size_t>(fraction_text.size(), 18); i > 0; --i) {
    rest = (static_cast<std::uint64_t>(fraction_text[i - 1] - '0') * unit->factor + rest) / 10;
  }
  if (value > std::numeric_limits<std::uint64_t>::max() - rest) {
    return fail(Code::kInvalidArgument, quoted(text) + " is too large");
  }
  value += rest;
  return value;
}

}  // namespace

Result<std::uint64_t> parse_bytes(std::string_view text) {
  return parse_scaled(text, kByteUnits,
                      "is not a size; write a number with B, KB, MB, GB, TB, KiB, MiB, GiB or TiB, "
                      "for example 256MiB");
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  if (text == "0") {
    return std::chrono::milliseconds(0);
  }
  GOBLIN_TRY(const std::uint64_t value,
             parse_scaled(text, kTimeUnits,
                          "is not a time; write a number with ms, s, m, h or d, for example 5s"));
  // A century: sums of such times do not overflow.
  constexpr std::uint64_t kLongest = 36'525ULL * 86'400'000ULL;
  if (value > kLongest) {
    return fail(Code::kInvalidArgument, quoted(text) + " is too long; at most 36525d");
  }
  return std::chrono::milliseconds(value);
}

Result<double> parse_percent(std::string_view text) {
  constexpr std::string_view kRemedy = " is not a share; write 0% to 100%, for example 50%";
  double value = 0;
  if (!text.ends_with('%') || text.size() < 2 || !is_digit(text.front())) {
    return fail(Code::kInvalidArgument, quoted(text) + std::string(kRemedy));
  }
  const char* last = text.data() + text.size() - 1;
  const auto [end, error] = std::from_chars(text.data(), last, value, std::chars_format::fixed);
  if (error != std::errc() || end != last || value > 100) {
    return fail(Code::kInvalidArgument, quoted(text) + std::string(kRemedy));
  }
  return value / 100;
}

Result<bool> parse_bool(std::string_view text) {
  if (text == "true" || text == "false") {
    return text == "true";
  }
  return fail(Code::kInvalidArgument, quoted(text) + " is neither true nor false");
}

Result<std::uint64_t> parse_u64(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    return fail(Code::kInvalidArgument,
                quoted(text) + " is not a whole number from 0 to 18446744073709551615");
  }
  return value;
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) {
    return std::to_string(bytes) + " B";
  }
  constexpr std::array<const char*, 6> kNames = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // 1023.95 would print as 1024.0 of the smaller unit.
  while (value >= 1023.95 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.1f %s", value, kNames[unit]);
  return buffer.data();
}

std::string format_duration(std::chrono::milliseconds duration) {
  if (duration.count() < 0) {
    return "-" + format_duration(-duration);
  }
  const std::int64_t ms = duration.count();
  if (ms < 1000) {
    return std::to_string(ms) + " ms";
  }
  const std::int64_t seconds = ms / 1000;
  if (seconds < 60) {
    return std::to_string(seconds) + "." + std::to_string(ms % 1000 / 100) + " s";
  }
  const auto pair = [](std::int64_t a, const char* a_name, std::int64_t b, const char* b_name) {
    return std::to_string(a) + " " + a_name + " " + std::to_string(b) + " " + b_name;
  };
  if (seconds < 3600) {
    return pair(seconds / 60, "m", seconds % 60, "s");
  }
  if (seconds < 86'400) {
    return pair(seconds / 3600, "h", seconds % 3600 / 60, "m");
  }
  return pair(seconds / 86'400, "d", seconds % 86'400 / 3600, "h");
}

}  // namespace goblin::hosts
