// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/plugin/output_lines.hpp"

#include <algorithm>
#include <utility>

namespace goblin::plugin {

OutputLines::OutputLines(OutputLine line, TimePoint now) : line_(std::move(line)), refilled_(now) {}

void OutputLines::add(std::string_view text, TimePoint now) {
  for (const char c : text) {
    if (c == '\n') {
      finish_line(now);
      continue;
    }
    if (text_.size() == kLine) {
      finish_line(now);
    }
    // Nobody may draw on the terminal of who reads the log, or begin a line of it.
    const auto byte = static_cast<unsigned char>(c);
    text_ += c == '\t' ? ' ' : byte < 0x20 || byte == 0x7f ? '?' : c;
  }
}

void OutputLines::end(TimePoint now) {
  finish_line(now);
  if (left_out_ > 0) {
    line_("(" + std::to_string(left_out_) + " more bytes)");
    left_out_ = 0;
  }
}

void OutputLines::finish_line(TimePoint now) {
  if (text_.empty()) {
    return;
  }
  const auto passed = std::chrono::duration_cast<std::chrono::seconds>(now - refilled_);
  if (passed.count() > 0) {
    const auto more = static_cast<std::uint64_t>(passed.count());
    budget_ = more > kBurst / kPerSecond ? kBurst : std::min(kBurst, budget_ + more * kPerSecond);
    refilled_ += passed;
  }
  if (text_.size() > budget_) {
    left_out_ += text_.size();
  } else {
    budget_ -= text_.size();
    if (left_out_ > 0) {
      line_("(" + std::to_string(left_out_) + " bytes left out)");
      left_out_ = 0;
    }
    line_(text_);
  }
  text_.clear();
}

}  // namespace goblin::plugin
