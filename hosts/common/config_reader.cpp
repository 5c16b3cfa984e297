// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/common/config_reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>

#include "hosts/common/units.hpp"

namespace goblin::hosts {
namespace {

constexpr const char* kCommandLine = "command line";

Error wrong(const std::string& expected) { return {Code::kInvalidArgument, expected}; }

std::string quote(std::string_view text) { return "'" + std::string(text) + "'"; }

std::string join(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) {
    text += (text.empty() ? "" : ", ") + item;
  }
  return text;
}

std::string show_real(double value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

template <typename T, typename Show>
Result<T> within(T value, const Range<T>& range, Show show) {
  if (!(value >= range.min)) {
    return fail(wrong("is below the least allowed value, " + show(range.min)));
  }
  if (!(value <= range.max)) {
    return fail(wrong("is over the largest allowed value, " + show(range.max)));
  }
  return value;
}

/// Strings and flags are parsed; whole numbers of the file are taken as they are.
template <typename T, typename Parse>
Result<T> number_or_text(const ConfigValue& value, Parse parse, const std::string& expected) {
  if (const auto* text = std::get_if<std::string>(&value.data)) {
    auto parsed = parse(*text);
    if (!parsed) {
      return fail(wrong("is wrong: " + parsed.error().message));
    }
    return static_cast<T>(*parsed);
  }
  if (const auto* number = std::get_if<std::int64_t>(&value.data)) {
    if (*number < 0) {
      return fail(wrong("is negative; " + expected));
    }
    return static_cast<T>(*number);
  }
  return fail(wrong("has the wrong type; " + expected));
}

/// A list on the command line: `a,b`, or as in the file, `["a", "b"]`.
Result<std::vector<std::string>> list_flag(std::string_view text) {
  if (text.starts_with('[')) {
    const auto parsed = parse_config("list = " + std::string(text), kCommandLine);
    const auto found = parsed ? parsed->find("list") : decltype(parsed->end()){};
    const auto* items = parsed && parsed->size() == 1 && found != parsed->end()
                            ? std::get_if<std::vector<std::string>>(&found->second.data)
                            : nullptr;
    if (items == nullptr) {
      return fail(wrong("is no list; write a,b or [\"a\", \"b\"], in quotes for the shell"));
    }
    return *items;
  }
  std::vector<std::string> items;
  while (text.find(',') != std::string_view::npos) {
    items.emplace_back(text.substr(0, text.find(',')));
    text.remove_prefix(text.find(',') + 1);
  }
  if (!text.empty() || !items.empty()) {
    items.emplace_back(text);
  }
  return items;
}

/// The settings of a table, each as one writes it: below [coordinator] or on the command line.
std::string below(const std::string& table, const std::set<std::string>& known, bool full) {
  std::vector<std::string> found;
  for (const std::string& key : known) {
    if (key.starts_with(table + ".")) {
      found.push_back((full ? key : key.substr(table.size() + 1)) + " = …");
    }
  }
  return join(found);
}

/// Edit distance with neighbouring letters exchanged counted as one.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::set<std::string>& candidates) {
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    // The right key in the wrong section, or without one.
    const std::string tail = candidate.substr(candidate.rfind('.') + 1);
    const std::string word_tail(word.substr(word.rfind('.') + 1));
    const std::size_t steps = tail == word_tail
                                  ? std::min<std::size_t>(1, distance(word, candidate))
                                  : distance(word, candidate);
    if (steps < best_distance) {
      best_distance = steps;
      best = candidate;
    }
  }
  return best;
}

Result<ConfigReader> ConfigReader::open(const std::string& file,
                                        std::map<std::string, std::string> flags) {
  std::map<std::string, ConfigValue> values;
  if (!file.empty()) {
    GOBLIN_TRY(values, read_config_file(file));
  }
  return ConfigReader(std::move(values), std::move(flags));
}

const ConfigValue* ConfigReader::look_up(const std::string& key) {
  if (const auto flag = flags_.find(key); flag != flags_.end()) {
    ConfigValue& value = flag_values_[key];
    value = {flag->second, quote(flag->second), kCommandLine};
    return &value;
  }
  const auto found = file_.find(key);
  return found == file_.end() ? nullptr : &found->second;
}

void ConfigReader::note(const std::string& key, std::string value) {
  const bool flag = flags_.contains(key);
  const auto found = file_.find(key);
  effective_[key] = {std::move(value), flag                   ? kCommandLine
                                       : found == file_.end() ? "default"
                                                              : found->second.where};
}

template <typename T, typename Convert, typename Show>
T ConfigReader::get(const std::string& key, T fallback, Convert convert, Show show) {
  const ConfigValue* value = look_up(key);
  if (value != nullptr) {
    auto converted = convert(*value);
    if (converted) {
      note(key, show(*converted));
      return *std::move(converted);
    }
    complain(key, converted.error().message);
  }
  note(key, show(fallback));
  return fallback;
}

std::string ConfigReader::string(const std::string& key, const std::string& fallback) {
  return get<std::string>(
      key, fallback,
      [](const ConfigValue& value) -> Result<std::string> {
        if (const auto* text = std::get_if<std::string>(&value.data)) {
          return *text;
        }
        return fail(wrong("has the wrong type; write a text in quotes"));
      },
      [](const std::string& text) { return quote(text); });
}

std::string ConfigReader::required_string(const std::string& key, std::string_view meaning) {
  const std::size_t before = problems_.size();
  std::string text = string(key, "");
  if (text.empty() && problems_.size() == before) {
    if (has(key)) {
      complain(key, "is empty; give " + std::string(meaning));
    } else {
      missing_ = true;
      problems_.push_back(key + " is missing; give " + std::string(meaning) +
                          " in the configuration file or on the command line");
    }
  }
  return text;
}

std::string ConfigReader::choice(const std::string& key, const std::string& fallback,
                                 const std::vector<std::string>& allowed) {
  return get<std::string>(
      key, fallback,
      [&allowed](const ConfigValue& value) -> Result<std::string> {
        const auto* text = std::get_if<std::string>(&value.data);
        if (text != nullptr && std::find(allowed.begin(), allowed.end(), *text) != allowed.end()) {
          return *text;
        }
        return fail(wrong("is not allowed; use one of " + join(allowed)));
      },
      [](const std::string& text) { return quote(text); });
}

std::uint64_t ConfigReader::u64(const std::string& key, std::uint64_t fallback,
                                Range<std::uint64_t> range) {
  const auto show = [](std::uint64_t number) { return std::to_string(number); };
  const bool flag = flags_.contains(key);
  return get<std::uint64_t>(
      key, fallback,
      [&](const ConfigValue& value) -> Result<std::uint64_t> {
        // A quoted number in the file is a mistake; on the command line everything is text.
        if (!flag && std::holds_alternative<std::string>(value.data)) {
          return fail(wrong("has the wrong type; write a whole number without quotes"));
        }
        GOBLIN_TRY(const auto number,
                   number_or_text<std::uint64_t>(value, parse_u64, "write a whole number from 0"));
        return within(number, range, show);
      },
      show);
}

double ConfigReader::real(const std::string& key, double fallback, Range<double> range) {
  return get<double>(
      key, fallback,
      [&](const ConfigValue& value) -> Result<double> {
        double number = 0;
        if (const auto* real = std::get_if<double>(&value.data)) {
          number = *real;
        } else if (const auto* whole = std::get_if<std::int64_t>(&value.data)) {
          number = static_cast<double>(*whole);
        } else {
          const auto* text = std::get_if<std::string>(&value.data);
          const char* end = text == nullptr ? nullptr : text->data() + text->size();
          if (text == nullptr || !flags_.contains(key) ||
              std::from_chars(text->data(), end, number).ptr != end || text->empty()) {
            return fail(wrong("is no number; write one such as 0.5, without quotes"));
          }
        }
        return within(number, range, show_real);
      },
      show_real);
}

bool ConfigReader::boolean(const std::string& key, bool fallback) {
  const bool flag = flags_.contains(key);
  return get<bool>(
      key, fallback,
      [flag](const ConfigValue& value) -> Result<bool> {
        if (const auto* truth = std::get_if<bool>(&value.data)) {
          return *truth;
        }
        const auto* text = std::get_if<std::string>(&value.data);
        if (flag && text != nullptr) {
          if (const auto parsed = parse_bool(*text)) {
            return *parsed;
          }
        }
        return fail(wrong("has the wrong type; write true or false, without quotes"));
      },
      [](bool truth) { return std::string(truth ? "true" : "false"); });
}

std::uint64_t ConfigReader::bytes(const std::string& key, std::uint64_t fallback,
                                  Range<std::uint64_t> range) {
  return get<std::uint64_t>(
      key, fallback,
      [&](const ConfigValue& value) -> Result<std::uint64_t> {
        GOBLIN_TRY(const auto number, number_or_text<std::uint64_t>(
                                          value, parse_bytes, "write a size such as \"256MiB\""));
        return within(number, range, format_bytes);
      },
      format_bytes);
}

std::chrono::milliseconds ConfigReader::duration(const std::string& key,
                                                 std::chrono::milliseconds fallback,
                                                 DurationRange range) {
  return get<std::chrono::milliseconds>(
      key, fallback,
      [&](const ConfigValue& value) -> Result<std::chrono::milliseconds> {
        const auto* text = std::get_if<std::string>(&value.data);
        if (text == nullptr) {
          return fail(wrong("has no unit; write a time such as \"5s\""));
        }
        auto parsed = parse_duration(*text);
        if (!parsed) {
          return fail(wrong("is wrong: " + parsed.error().message));
        }
        return within(*parsed, range, format_duration);
      },
      format_duration);
}

double ConfigReader::percent(const std::string& key, double fallback, Range<double> range) {
  const auto show = [](double share) { return show_real(share * 100) + "%"; };
  return get<double>(
      key, fallback,
      [&](const ConfigValue& value) -> Result<double> {
        const auto* text = std::get_if<std::string>(&value.data);
        if (text == nullptr) {
          return fail(wrong("has the wrong type; write a share such as \"50%\""));
        }
        auto parsed = parse_percent(*text);
        if (!parsed) {
          return fail(wrong("is wrong: " + parsed.error().message));
        }
        return within(*parsed, range, show);
      },
      show);
}

std::vector<std::string> ConfigReader::list(const std::string& key,
                                            const std::vector<std::string>& fallback) {
  const bool flag = flags_.contains(key);
  return get<std::vector<std::string>>(
      key, fallback,
      [flag](const ConfigValue& value) -> Result<std::vector<std::string>> {
        if (const auto* items = std::get_if<std::vector<std::string>>(&value.data)) {
          return *items;
        }
        const auto* text = std::get_if<std::string>(&value.data);
        if (text == nullptr) {
          return fail(wrong("has the wrong type; write a list such as [\"a\", \"b\"]"));
        }
        if (!flag) {
          return std::vector<std::string>{*text};
        }
        return list_flag(*text);
      },
      [](const std::vector<std::string>& items) { return "[" + join(items) + "]"; });
}

bool ConfigReader::has(const std::string& key) const {
  return flags_.contains(key) || file_.contains(key);
}

std::string ConfigReader::origin(const std::string& key) const {
  if (const auto flag = flags_.find(key); flag != flags_.end()) {
    return std::string(kCommandLine) + ": " + key + " = " + quote(flag->second);
  }
  const auto found = file_.find(key);
  if (found != file_.end()) {
    return found->second.where + ": " + key + " = " + found->second.text;
  }
  return key + " (not set)";
}

void ConfigReader::complain(const std::string& key, const std::string& problem) {
  problems_.push_back(origin(key) + " " + problem);
}

Result<void> ConfigReader::finish() const {
  std::set<std::string> known;
  for (const auto& [key, value] : effective_) {
    known.insert(key);
  }
  std::vector<std::string> lines = problems_;
  const auto unknown = [&](const std::string& key, const std::string& where) {
    if (known.contains(key)) {
      return;
    }
    if (const std::string settings = below(key, known, where == kCommandLine); !settings.empty()) {
      lines.push_back(where + ": " + quote(key) + " is a table; " +
                      (where == kCommandLine ? "set one of " + settings
                                             : "write [" + key + "] and below it " + settings));
      return;
    }
    const auto meant = nearest(key, known);
    lines.push_back(where + ": unknown key " + quote(key) +
                    (meant ? "; did you mean " + quote(*meant) + "?" : "; remove it"));
  };
  for (const auto& [key, value] : flags_) {
    unknown(key, kCommandLine);
  }
  for (const auto& [key, value] : file_) {
    unknown(key, value.where);
  }
  if (lines.empty()) {
    return {};
  }
  if (missing_ && !source_.empty()) {
    lines.push_back(source_);
  }
  std::string text = lines.front();
  for (std::size_t i = 1; i < lines.size(); ++i) {
    text += "\n" + lines[i];
  }
  return fail(Code::kInvalidArgument, text);
}

}  // namespace goblin::hosts
