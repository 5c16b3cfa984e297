// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A history of the journal, once for each of its calls of the system: that call fails, or is the
// last one. What was acknowledged is there afterwards, and what was not is there whole or not at
// all.
#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <set>

#include "tests/core/store/records.hpp"
#include "tests/fault/faults.hpp"

namespace goblin::fault {
namespace {

using store::LabJournal;
using store::test::sample_accepted;
using store::test::sample_job;
using store::test::TempDir;

using Step = std::function<Result<void>(LabJournal&)>;

Result<void> ignore_value(const Result<std::uint64_t>& result) {
  return result ? Result<void>{} : fail(result.error());
}

std::vector<store::AcceptedRecord> batch(std::uint64_t first, std::uint64_t count,
                                         std::uint64_t job = 1) {
  std::vector<store::AcceptedRecord> records;
  for (std::uint64_t task = first; task < first + count; ++task) {
    records.push_back(sample_accepted(job, task));
  }
  return records;
}

/// Of two jobs, from their submission to their end. Each step changes what is there.
const std::vector<Step>& history() {
  static const std::vector<Step> steps = {
      [](LabJournal& j) { return ignore_value(j.add_job(sample_job(1))); },
      [](LabJournal& j) { return j.set_plan_state(1, wire::Bytes(3000, std::byte{1})); },
      [](LabJournal& j) { return j.record_accepted(batch(0, 30)); },
      [](LabJournal& j) { return ignore_value(j.add_job(sample_job(2))); },
      [](LabJournal& j) { return j.record_accepted(batch(30, 5)); },
      [](LabJournal& j) {
        return j.record_quarantine({1, store::test::digest_of(9), 31, "a wrong result"});
      },
      [](LabJournal& j) { return j.withdraw_accepted(1, 31); },
      [](LabJournal& j) { return j.record_accepted(batch(0, 10, 2)); },
      [](LabJournal& j) {
        return j.set_job_state(1, wire::JobState::kDone, 0, "", 1'700'000'000'000,
                               wire::Bytes(5000, std::byte{2}));
      },
      [](LabJournal& j) { return j.forget_job(2); }};
  return steps;
}

/// Everything that is there, as one text.
std::string contents(LabJournal& journal) {
  const auto jobs = journal.jobs();
  if (!jobs) return "jobs: " + jobs.error().message;
  std::string text;
  for (const store::JobRecord& job : *jobs) {
    text += "job " + std::to_string(job.job) + " " + std::to_string(static_cast<int>(job.state)) +
            " " + std::to_string(job.ended_unix_ms) + " " + std::to_string(job.summary.size()) +
            " " + std::to_string(job.plan_state ? job.plan_state->size() : 0) + "\n";
    const auto accepted = journal.accepted(job.job);
    if (!accepted) return "accepted: " + accepted.error().message;
    for (const auto& record : *accepted) {
      text += " " + std::to_string(record.task);
      if (!store::test::same(record, sample_accepted(job.job, record.task))) text += " is another";
    }
    const auto hosts = journal.quarantines(job.job);
    if (!hosts) return "quarantines: " + hosts.error().message;
    for (const auto& record : *hosts) text += " quarantine " + record.reason;
    text += "\n";
  }
  return text;
}

/// What is there before the first step, after it, …
const std::vector<std::string>& states() {
  static const std::vector<std::string> all_states = [] {
    const TempDir directory;
    auto journal = LabJournal::open(directory / "journal.db", true);
    EXPECT_TRUE(journal);
    std::vector<std::string> all = {contents(**journal)};
    for (const Step& step : history()) {
      EXPECT_TRUE(step(**journal));
      all.push_back(contents(**journal));
    }
    EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
    return all;
  }();
  return all_states;
}

/// Opens, half the steps, closes, opens, the other half, closes. `acknowledged` hears of each step
/// that succeeded; the first error ends it.
Result<void> run(const std::string& path, bool power_safe,
                 const std::function<void(std::uint64_t)>& acknowledged) {
  const std::size_t half = history().size() / 2;
  std::unique_ptr<LabJournal> journal;
  for (std::size_t i = 0; i < history().size(); ++i) {
    if (i == 0 || i == half) {
      journal.reset();
      GOBLIN_TRY(journal, LabJournal::open(path, power_safe));
    }
    GOBLIN_TRY_VOID(history()[i](*journal));
    acknowledged(i + 1);
  }
  return {};
}

void clear(const std::string& path) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    std::filesystem::remove(path + suffix);
  }
}

std::uint64_t calls_of_a_run(On on) {
  const TempDir directory;
  EXPECT_TRUE(run(directory / "journal.db", true, [](std::uint64_t) {}));  // first-time costs
  clear(directory / "journal.db");
  count(on);
  EXPECT_TRUE(run(directory / "journal.db", true, [](std::uint64_t) {}));
  return off();
}

/// After an end at any point: the state of `acknowledged` steps, or of one more, whole.
void expect_state(const std::string& path, std::uint64_t acknowledged) {
  auto journal = LabJournal::open(path, true);
  ASSERT_TRUE(journal) << journal.error().message;
  const std::string found = contents(**journal);
  const bool one_more = acknowledged + 1 < states().size() && found == states()[acknowledged + 1];
  EXPECT_TRUE(found == states()[acknowledged] || one_more)
      << "acknowledged " << acknowledged << "\n"
      << found;
  // And it goes on from there.
  for (std::uint64_t i = acknowledged + (one_more ? 1 : 0); i < history().size(); ++i) {
    const auto done = history()[i](**journal);
    ASSERT_TRUE(done) << "step " << i << ": " << done.error().message;
  }
  EXPECT_EQ(contents(**journal), states().back());
}

class JournalEnds : public ::testing::TestWithParam<How> {};

TEST_P(JournalEnds, AtEveryCallAndNothingAcknowledgedIsLost) {
  const std::uint64_t calls = calls_of_a_run(On::kDisk);
  ASSERT_GT(calls, 60u) << "the calls are not seen";
  const TempDir directory;
  const std::string path = directory / "journal.db";
  (void)states();
  std::uint64_t killed = 0;
  for (std::uint64_t at = 0; at < calls; ++at) {
    SCOPED_TRACE("call " + std::to_string(at));
    clear(path);
    const Ended ended = in_child([&](int fd) {
      arm({.on = On::kDisk, .how = GetParam(), .at = at});
      if (!run(path, true, [&](std::uint64_t step) { tell(fd, step); })) ::_exit(1);
    });
    ASSERT_FALSE(ended.exited(1)) << "a call failed that should not";
    killed += ended.killed() ? 1 : 0;
    expect_state(path, ended.last);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GE(killed, GetParam() == How::kTorn ? calls / 4 : calls - 2);
}

INSTANTIATE_TEST_SUITE_P(Ends, JournalEnds, ::testing::Values(How::kKill, How::kTorn, How::kPower),
                         [](const auto& one) {
                           return one.param == How::kKill   ? "Killed"
                                  : one.param == How::kTorn ? "KilledHalfWayThroughAWrite"
                                                            : "WithoutPower";
                         });

// Without `journal.power-safe` a loss of power takes the last steps back; what is left is a state
// that was once there. That it does take some shows that losses of power are played at all.
TEST(JournalFaults, ALossOfPowerWithoutPowerSafetyLeavesAnEarlierState) {
  const std::uint64_t calls = calls_of_a_run(On::kDisk);
  const TempDir directory;
  const std::string path = directory / "journal.db";
  (void)states();
  int lost = 0;
  for (std::uint64_t at = 0; at < calls; ++at) {
    SCOPED_TRACE("call " + std::to_string(at));
    clear(path);
    const Ended ended = in_child([&](int fd) {
      arm({.on = On::kDisk, .how = How::kPower, .at = at});
      (void)run(path, false, [&](std::uint64_t step) { tell(fd, step); });
    });
    if (!ended.killed()) continue;  // it makes fewer calls
    auto journal = LabJournal::open(path, false);
    GOBLIN_ASSERT_OK(journal);
    const auto found = std::ranges::find(states(), contents(**journal));
    ASSERT_NE(found, states().end()) << contents(**journal);
    lost += found - states().begin() < static_cast<std::ptrdiff_t>(ended.last) ? 1 : 0;
  }
  EXPECT_GT(lost, 5);
}

TEST(JournalFaults, EachCallFailsOnce) {
  const std::uint64_t calls = calls_of_a_run(On::kDisk);
  const TempDir directory;
  const std::string path = directory / "journal.db";
  (void)states();
  int refused = 0;
  std::set<std::string> names;
  for (const int error_number : {EIO, ENOSPC}) {
    for (std::uint64_t at = 0; at < calls; ++at) {
      clear(path);
      std::uint64_t acknowledged = 0;
      arm({.on = On::kDisk, .how = How::kFail, .at = at, .error_number = error_number});
      const auto done = run(path, true, [&](std::uint64_t step) { acknowledged = step; });
      off();
      SCOPED_TRACE("call " + std::to_string(at) + ", " + last_failed());
      if (!done) {
        ++refused;
        names.insert(last_failed());
        const Error& error = done.error();
        // A read that fails in the midst of a check of pages is reported as damage.
        EXPECT_TRUE(error.code == Code::kUnavailable || error.code == Code::kExhausted ||
                    error.code == Code::kCorrupt)
            << error.message;
        EXPECT_NE(error.message.find(path), std::string::npos) << error.message;
      } else {
        EXPECT_EQ(acknowledged, history().size());
      }
      expect_state(path, acknowledged);
      if (::testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(refused, 40);
  for (const char* name : {"open", "pwrite", "fdatasync"})
    EXPECT_TRUE(names.contains(name)) << name;
}

// The same process goes on once the disk does: no step needs a restart of the lab node.
TEST(JournalFaults, TheOpenJournalGoesOnAfterAFault) {
  const std::uint64_t calls = calls_of_a_run(On::kDisk);
  const TempDir directory;
  const std::string path = directory / "journal.db";
  (void)states();
  for (std::uint64_t at = 0; at < calls; ++at) {
    clear(path);
    auto journal = LabJournal::open(path, true);
    GOBLIN_ASSERT_OK(journal);
    arm({.on = On::kDisk, .how = How::kFail, .at = at, .error_number = ENOSPC});
    for (std::size_t i = 0; i < history().size(); ++i) {
      const auto done = history()[i](**journal);
      if (done) continue;
      off();
      SCOPED_TRACE("call " + std::to_string(at) + ", step " + std::to_string(i) + ": " +
                   done.error().message);
      const std::string now = contents(**journal);
      if (now != states()[i + 1]) {
        ASSERT_EQ(now, states()[i]);
        GOBLIN_ASSERT_OK(history()[i](**journal));
      }
    }
    off();
    ASSERT_EQ(contents(**journal), states().back()) << "call " << at;
    journal->reset();
    expect_state(path, history().size());
  }
}

// A library's allocation that fails is an error; our own ends the process, which is a crash like
// any.
TEST(JournalFaults, EachAllocationFailsOnce) {
  const std::uint64_t calls = calls_of_a_run(On::kMemory);
  ASSERT_GT(calls, 500u);
  const TempDir directory;
  const std::string path = directory / "journal.db";
  (void)states();
  int errors = 0;
  int ends = 0;
  // Every one of the first, where the data base is made, then one in eleven.
  for (std::uint64_t at = 0; at < calls; at += at < 200 ? 1 : 11) {
    SCOPED_TRACE("allocation " + std::to_string(at));
    clear(path);
    const Ended ended = in_child([&](int fd) {
      std::set_new_handler(end_without_memory);
      arm({.on = On::kMemory, .how = How::kFail, .at = at});
      const auto done = run(path, true, [&](std::uint64_t step) { tell(fd, step); });
      off();
      if (!done) ::_exit(done.error().code == Code::kExhausted ? 2 : 3);
    });
    ASSERT_FALSE(ended.exited(3)) << "an error that is not kExhausted";
    ASSERT_TRUE(ended.exited(0) || ended.exited(2) || ended.exited(kNoMemory)) << ended.status;
    errors += ended.exited(2) ? 1 : 0;
    ends += ended.exited(kNoMemory) ? 1 : 0;
    expect_state(path, ended.last);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(errors, 20);
  EXPECT_GT(ends, 20);
}

}  // namespace
}  // namespace goblin::fault
