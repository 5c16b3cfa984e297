// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/standings.hpp"

#include <gtest/gtest.h>

#include "tests/core/store/support.hpp"

namespace goblin::lab {
namespace {

wire::Digest key(std::uint8_t name) {
  wire::Digest digest;
  digest.bytes[0] = name;
  return digest;
}

constexpr Clocks kThen{5'000'000, 1'700'000'000'000};

TEST(Standings, AKeyThatIsNotKnownHasNone) {
  const Standings standings;
  EXPECT_EQ(standings.of(key(1), kThen), scheduler::Standing{});
}

TEST(Standings, WhatChangedIsDueOnce) {
  Standings standings;
  standings.set(key(1), {.passed = 3}, kThen);
  standings.set(key(1), {.passed = 4}, kThen);
  standings.set(key(2), {.faults = 1}, kThen);
  const auto due = standings.take_due();
  ASSERT_EQ(due.changed.size(), 2u);
  EXPECT_EQ(due.changed[0].passed, 4u);
  EXPECT_TRUE(standings.take_due().empty());
}

TEST(Standings, ASuspensionEndsByTheCalendarWhateverTheSchedulersClock) {
  Standings before;
  before.set(key(1), {.faults = 2, .suspended_until = kThen.now + 60'000'000}, kThen);
  Standings after;
  after.restore(before.take_due().changed);
  EXPECT_TRUE(after.take_due().empty());
  // Twenty seconds later, in a process whose clock began anew.
  const Clocks later{77, kThen.unix_ms + 20'000};
  EXPECT_EQ(after.of(key(1), later).suspended_until, 77u + 40'000'000);
  EXPECT_EQ(after.of(key(1), {77, kThen.unix_ms + 60'000}).suspended_until, 0u);
  EXPECT_EQ(after.of(key(1), later).faults, 2u);
}

TEST(Standings, ASuspendedKeyIsNotForgotten) {
  Standings standings;
  standings.set(key(1), {.faults = 2, .suspended_until = kThen.now + 1'000'000}, kThen);
  standings.set(key(2), {.passed = 9}, kThen);
  (void)standings.take_due();
  standings.forget(key(1), kThen);
  standings.forget(key(2), kThen);
  standings.forget(key(3), kThen);
  EXPECT_EQ(standings.of(key(1), kThen).faults, 2u);
  EXPECT_EQ(standings.of(key(2), kThen).passed, 0u);
  auto due = standings.take_due();
  ASSERT_EQ(due.forgotten.size(), 1u);
  EXPECT_EQ(due.forgotten[0], key(2));
  standings.forget(key(1), {kThen.now, kThen.unix_ms + 5000});
  EXPECT_EQ(standings.take_due().forgotten.size(), 1u);
}

TEST(Standings, TheJournalKeepsThem) {
  const store::test::TempDir dir;
  {
    auto journal = store::LabJournal::open(dir.path() + "/journal.sqlite", false);
    ASSERT_TRUE(journal.has_value()) << journal.error().message;
    Standings standings;
    for (std::uint8_t name = 1; name <= 5; ++name) {
      standings.set(key(name), {.passed = name, .faults = 1, .forgiven = 2}, kThen);
    }
    ASSERT_TRUE(write_standings(**journal, standings.take_due()).has_value());
    standings.set(key(2), {.passed = 200, .suspended_until = kThen.now + 1000}, kThen);
    standings.forget(key(5), kThen);
    ASSERT_TRUE(write_standings(**journal, standings.take_due()).has_value());
  }
  auto journal = store::LabJournal::open(dir.path() + "/journal.sqlite", false, true);
  ASSERT_TRUE(journal.has_value()) << journal.error().message;
  const auto records = (*journal)->standings();
  ASSERT_TRUE(records.has_value());
  EXPECT_EQ(records->size(), 4u);
  Standings again;
  again.restore(*records);
  EXPECT_EQ(again.of(key(2), kThen).passed, 200u);
  EXPECT_EQ(again.of(key(2), kThen).suspended_until, kThen.now + 1000);
  EXPECT_EQ(again.of(key(4), kThen).forgiven, 2u);
  EXPECT_EQ(again.of(key(5), kThen).faults, 0u);
}

}  // namespace
}  // namespace goblin::lab
