// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Typed configuration. A value comes from the command line, else from the file, else from the
// default. Ask for every key, then call finish(): it reports everything that is wrong at once,
// unknown keys included. One thread at a time.
//
//   GOBLIN_TRY(auto reader, ConfigReader::open(file, flags));
//   config.memory_bytes = reader.bytes("memory", 256u << 20, {.min = 64u << 20});
//   config.heartbeat = reader.duration("heartbeat", 2s, {.min = 100ms});
//   GOBLIN_TRY_VOID(reader.finish());
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "goblin/error.hpp"
#include "hosts/common/config_file.hpp"

namespace goblin::hosts {

/// Both ends are allowed.
template <typename T>
struct Range {
  T min = std::numeric_limits<T>::lowest();
  T max = std::numeric_limits<T>::max();
};
// std::numeric_limits knows no durations.
template <>
struct Range<std::chrono::milliseconds> {
  std::chrono::milliseconds min = std::chrono::milliseconds::min();
  std::chrono::milliseconds max = std::chrono::milliseconds::max();
};
using DurationRange = Range<std::chrono::milliseconds>;

class ConfigReader {
 public:
  /// `file` empty: none. `flags`: values of the command line by key ("listen.port"); lists are
  /// separated by commas.
  static Result<ConfigReader> open(const std::string& file,
                                   std::map<std::string, std::string> flags);
  /// From values that were read before.
  ConfigReader(std::map<std::string, ConfigValue> file, std::map<std::string, std::string> flags)
      : file_(std::move(file)), flags_(std::move(flags)) {}

  /// Where settings were looked for, in words: told with what is missing.
  void set_source(std::string source) { source_ = std::move(source); }

  // Each answers the default when the value is missing or wrong; finish() tells which.
  std::string string(const std::string& key, const std::string& fallback);
  /// A missing or empty value is an error; `meaning` says what to put there.
  std::string required_string(const std::string& key, std::string_view meaning);
  std::string choice(const std::string& key, const std::string& fallback,
                     const std::vector<std::string>& allowed);
  std::uint64_t u64(const std::string& key, std::uint64_t fallback,
                    Range<std::uint64_t> range = {});
  double real(const std::string& key, double fallback, Range<double> range = {});
  bool boolean(const std::string& key, bool fallback);
  /// "256MiB", or a whole number of bytes.
  std::uint64_t bytes(const std::string& key, std::uint64_t fallback,
                      Range<std::uint64_t> range = {});
  /// "250ms", "5s", "2h".
  std::chrono::milliseconds duration(const std::string& key, std::chrono::milliseconds fallback,
                                     DurationRange range = {});
  /// "50%" is 0.5.
  double percent(const std::string& key, double fallback, Range<double> range = {0, 1});
  /// Strings; a single string is a list of one.
  std::vector<std::string> list(const std::string& key, const std::vector<std::string>& fallback);

  [[nodiscard]] bool has(const std::string& key) const;
  /// Where the key's value is, for errors of the caller's own checks: "host.toml:3: memory".
  [[nodiscard]] std::string origin(const std::string& key) const;
  /// Adds such an error.
  void complain(const std::string& key, const std::string& problem);

  /// kInvalidArgument with one line for each problem.
  Result<void> finish() const;

  /// What was asked for so far, in order of keys, for `config check`.
  struct Effective {
    std::string value;
    std::string origin;  ///< "default", "command line", or "host.toml:3"
  };
  [[nodiscard]] const std::map<std::string, Effective>& effective() const { return effective_; }

 private:
  /// The value of a key from the command line or the file, noted as asked for.
  const ConfigValue* look_up(const std::string& key);
  template <typename T, typename Convert, typename Show>
  T get(const std::string& key, T fallback, Convert convert, Show show);
  void note(const std::string& key, std::string value);

  std::map<std::string, ConfigValue> file_;
  std::map<std::string, std::string> flags_;
  std::map<std::string, ConfigValue> flag_values_;
  std::map<std::string, Effective> effective_;
  std::vector<std::string> problems_;
  std::string source_;
  bool missing_ = false;  ///< a required value
};

/// The candidate that a mistyped word most likely means, if any comes near.
std::optional<std::string> nearest(std::string_view word, const std::set<std::string>& candidates);

}  // namespace goblin::hosts
