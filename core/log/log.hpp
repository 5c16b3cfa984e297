// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Logging for daemons: to standard error (one line an event) and to a rotated file. spdlog stays
// behind this header. No research data, names or paths of the researcher may be logged on a host.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "goblin/error.hpp"

namespace goblin::log {

enum class Level { kDebug, kInfo, kWarn, kError, kOff };

/// "debug", "info", "warn", "error", "off"; kInvalidArgument lists them.
Result<Level> parse_level(std::string_view text);

struct Options {
  Level level = Level::kInfo;
  std::string file;  ///< empty: standard error only
  std::uint64_t rotate_bytes = 10u << 20;
  std::uint32_t keep_files = 5;
  bool to_stderr = true;
};

/// Any thread. A cheap handle: copy it.
class Logger {
 public:
  /// A logger that drops everything.
  Logger();
  static Result<Logger> create(const std::string& program, const Options& options);
  void write(Level level, std::string_view text) const;
  void debug(std::string_view text) const { write(Level::kDebug, text); }
  void info(std::string_view text) const { write(Level::kInfo, text); }
  void warn(std::string_view text) const { write(Level::kWarn, text); }
  void error(std::string_view text) const { write(Level::kError, text); }
  [[nodiscard]] bool enabled(Level level) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace goblin::log
