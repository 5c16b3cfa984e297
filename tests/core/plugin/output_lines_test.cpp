// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/plugin/output_lines.hpp"

#include <gmock/gmock.h>

#include <vector>

namespace goblin::plugin {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class Output : public testing::Test {
 protected:
  OutputLines::TimePoint now_{std::chrono::hours(1)};
  std::vector<std::string> said_;
  OutputLines lines_{[this](std::string_view line) { said_.emplace_back(line); }, now_};
};

TEST_F(Output, LinesComeWhenTheyEnd) {
  lines_.add("one\ntw", now_);
  EXPECT_THAT(said_, ElementsAre("one"));
  lines_.add("o\n\n", now_);
  EXPECT_THAT(said_, ElementsAre("one", "two"));
  lines_.add("three", now_);
  lines_.end(now_);
  EXPECT_THAT(said_, ElementsAre("one", "two", "three"));
}

TEST_F(Output, ControlCharactersDoNotReachATerminal) {
  lines_.add(std::string_view("a\tb\rc\x1b[2Jd\0e\x7f \xc3\x97\n", 17), now_);
  EXPECT_THAT(said_, ElementsAre("a b?c?[2Jd?e? \xc3\x97"));
}

TEST_F(Output, LongLinesAreCut) {
  lines_.add(std::string(OutputLines::kLine + 3, 'x') + "\n", now_);
  EXPECT_THAT(said_, ElementsAre(std::string(OutputLines::kLine, 'x'), "xxx"));
}

TEST_F(Output, WhatIsTooMuchIsCounted) {
  const std::string line(255, 'x');
  for (int i = 0; i < 1000; ++i) {
    lines_.add(line + "\n", now_);
  }
  const std::size_t most = OutputLines::kBurst / line.size();
  EXPECT_THAT(said_, SizeIs(most));
  // Later there is room again, for as much as there was time, and it says what is missing.
  now_ += std::chrono::seconds(1);
  for (int i = 0; i < 1000; ++i) {
    lines_.add(line + "\n", now_);
  }
  EXPECT_THAT(said_, SizeIs(most + 1 + 4));
  EXPECT_EQ(said_[most], "(" + std::to_string((1000 - most) * line.size()) + " bytes left out)");
  said_.clear();
  lines_.end(now_);
  EXPECT_THAT(said_, ElementsAre("(" + std::to_string(996 * line.size()) + " more bytes)"));
  now_ += std::chrono::hours(24 * 365 * 100);
  said_.clear();
  for (int i = 0; i < 1000; ++i) {
    lines_.add(line + "\n", now_);
  }
  EXPECT_THAT(said_, SizeIs(most)) << "no more than a burst, however long it was silent";
}

TEST_F(Output, NothingSaidIsNothingLogged) {
  lines_.add("\n\n", now_);
  lines_.end(now_);
  EXPECT_THAT(said_, IsEmpty());
}

}  // namespace
}  // namespace goblin::plugin
