// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What a plugin prints, cut into lines for a log. A plugin may print anything, without end: lines
// are short and printable, and what is too much is counted instead. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace goblin::plugin {

using OutputLine = std::function<void(std::string_view)>;

class OutputLines {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kLine = 500;              ///< longer lines are cut into several
  static constexpr std::uint64_t kBurst = 16u << 10;     ///< so many bytes at once,
  static constexpr std::uint64_t kPerSecond = 1u << 10;  ///< and so many more each second

  /// `line` gets each line, without its end.
  OutputLines(OutputLine line, TimePoint now);
  void add(std::string_view text, TimePoint now);
  /// The rest, where the last line has no end.
  void end(TimePoint now);

 private:
  void finish_line(TimePoint now);

  OutputLine line_;
  std::string text_;  ///< of the line that has not ended
  TimePoint refilled_;
  std::uint64_t budget_ = kBurst;
  std::uint64_t left_out_ = 0;  ///< bytes since the last line
};

}  // namespace goblin::plugin
