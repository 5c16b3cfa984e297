// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/log/log.hpp"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <vector>

namespace goblin::log {
namespace {

constexpr std::string_view kLevels = "debug, info, warn, error, off";

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
    case Level::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

/// An event is one line, and no text can forge another one or steer a terminal.
std::string one_line(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      line += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      std::array<char, 8> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\x%02x", byte);
      line += escaped.data();
    } else {
      line += c;
    }
  }
  return line;
}

/// spdlog would make missing directories and throw a text without a remedy.
Result<void> check_file(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return fail(Code::kInvalidArgument,
                "log file '" + path + "' is a directory; name a file in it");
  }
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  if (fd < 0) {
    const int reason = errno;
    const std::string what =
        "cannot open log file '" + path + "': " + std::generic_category().message(reason);
    if (reason == ENOENT || reason == ENOTDIR) {
      return fail(Code::kUnavailable, what + "; make its directory or choose another path");
    }
    return fail(reason == ENOSPC || reason == EDQUOT ? Code::kExhausted : Code::kUnavailable,
                what + "; give this user the right to write it or choose another path");
  }
  ::close(fd);
  return {};
}

}  // namespace

struct Logger::State {
  explicit State(std::string program, std::vector<spdlog::sink_ptr> sinks)
      : logger(std::move(program), sinks.begin(), sinks.end()) {}
  spdlog::logger logger;
};

Result<Level> parse_level(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, Level>, 5> kNames = {{{"debug", Level::kDebug},
                                                                         {"info", Level::kInfo},
                                                                         {"warn", Level::kWarn},
                                                                         {"error", Level::kError},
                                                                         {"off", Level::kOff}}};
  for (const auto& [name, level] : kNames) {
    if (name == text) {
      return level;
    }
  }
  return fail(Code::kInvalidArgument, "log level '" + std::string(text) + "' is unknown; use " +
                                          "one of " + std::string(kLevels));
}

Logger::Logger() = default;

Result<Logger> Logger::create(const std::string& program, const Options& options) {
  std::vector<spdlog::sink_ptr> sinks;
  try {
    if (options.to_stderr) {
      sinks.push_back(std::make_shared<spdlog::sinks::stderr_sink_mt>());
    }
    if (!options.file.empty()) {
      if (options.rotate_bytes == 0) {
        return fail(Code::kInvalidArgument,
                    "log file '" + options.file + "': rotate_bytes is 0; use 1 or more");
      }
      if (auto checked = check_file(options.file); !checked) {
        return fail(checked.error());
      }
      spdlog::file_event_handlers handlers;
      handlers.after_open = [](const spdlog::filename_t&, std::FILE* file) {
        // Children do not inherit it; others of this computer do not read it.
        ::fcntl(::fileno(file), F_SETFD, FD_CLOEXEC);
        ::fchmod(::fileno(file), 0640);
      };
      sinks.push_back(std::make_shared<spdlog::sinks::rotating_file_sink_mt>(
          options.file, options.rotate_bytes, options.keep_files, false, handlers));
    }
    if (sinks.empty() || options.level == Level::kOff) {
      return Logger();
    }
    Logger result;
    result.state_ = std::make_shared<State>(program, std::move(sinks));
    spdlog::logger& logger = result.state_->logger;
    logger.set_level(to_spdlog(options.level));
    // %v last: the text is the only part that a caller decides.
    logger.set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %n[%P] %v");
    // A line that was logged is in the file even when the process is killed the moment after.
    logger.flush_on(spdlog::level::info);
    return result;
  } catch (const std::exception& error) {
    return fail(Code::kUnavailable,
                "cannot log to '" + options.file + "': " + error.what() + "; choose another path");
  }
}

void Logger::write(Level level, std::string_view text) const {
  if (enabled(level)) {
    state_->logger.log(to_spdlog(level), one_line(text));
  }
}

bool Logger::enabled(Level level) const {
  return state_ != nullptr && level != Level::kOff && state_->logger.should_log(to_spdlog(level));
}

}  // namespace goblin::log
