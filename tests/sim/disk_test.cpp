// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The simulated disk does what it says; and the journal's promises hold on it where they are made.
#include <gtest/gtest.h>

#include "core/store/lab_journal.hpp"
#include "tests/sim/world.hpp"

namespace goblin::sim {
namespace {

std::string all_of(Disk& disk, const std::string& name) {
  std::string bytes(disk.size(name), 0);
  std::size_t got = 0;
  EXPECT_EQ(disk.read(name, 0, bytes.data(), bytes.size(), got), Disk::Status::kOk);
  return bytes.substr(0, got);
}

TEST(Disk, AKillKeepsWhatWasWrittenAndALossOfPowerWhatWasSynced) {
  bool lost = false;
  bool kept = false;
  for (std::uint64_t seed = 1; seed < 60; ++seed) {
    Disk disk(seed);
    disk.create("file");
    ASSERT_EQ(disk.write("file", 0, "synced"), Disk::Status::kOk);
    ASSERT_EQ(disk.sync("file"), Disk::Status::kOk);
    ASSERT_EQ(disk.write("file", 6, " and not"), Disk::Status::kOk);
    disk.stop_now();
    EXPECT_EQ(disk.write("file", 0, "after"), Disk::Status::kFailed);
    disk.restart(false);
    ASSERT_EQ(all_of(disk, "file"), "synced and not");
    ASSERT_EQ(disk.write("file", 14, "!"), Disk::Status::kOk);
    disk.restart(true);
    const std::string found = all_of(disk, "file");
    ASSERT_EQ(found.substr(0, 14), "synced and not") << "the kill made it last";
    lost = lost || found.size() == 14;
    kept = kept || found.size() == 15;
  }
  EXPECT_TRUE(lost);
  EXPECT_TRUE(kept);
}

TEST(Disk, StopsInTheMiddleOfAWrite) {
  bool torn = false;
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    Disk disk(seed);
    disk.create("file");
    disk.stop_after(1);
    ASSERT_EQ(disk.write("file", 0, "first"), Disk::Status::kOk);
    ASSERT_EQ(disk.write("file", 5, "second"), Disk::Status::kFailed);
    EXPECT_TRUE(disk.frozen());
    EXPECT_EQ(disk.sync("file"), Disk::Status::kFailed);
    disk.restart(false);
    torn = torn || (disk.size("file") > 5 && disk.size("file") < 11);
    EXPECT_EQ(disk.write("file", 0, "again"), Disk::Status::kOk);
  }
  EXPECT_TRUE(torn);
}

TEST(Disk, AFailedSyncForgetsOrKeeps) {
  for (const bool forgets : {false, true}) {
    Disk disk(1);
    disk.create("file");
    ASSERT_EQ(disk.sync("file"), Disk::Status::kOk);
    ASSERT_EQ(disk.write("file", 0, "bytes"), Disk::Status::kOk);
    disk.set_faults({.sync = 1, .sync_forgets = forgets});
    ASSERT_EQ(disk.sync("file"), Disk::Status::kFailed);
    disk.set_faults({});
    ASSERT_EQ(disk.sync("file"), Disk::Status::kOk);
    EXPECT_EQ(all_of(disk, "file"), "bytes") << "programs see it either way";
    disk.restart(true);
    EXPECT_EQ(all_of(disk, "file"), forgets ? "" : "bytes");
  }
}

TEST(Disk, ARemovalLastsOnceTheFolderIsSynced) {
  bool came_back = false;
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    for (const bool at_once : {false, true}) {
      Disk disk(seed);
      disk.create("file");
      ASSERT_EQ(disk.sync("file", true), Disk::Status::kOk);
      ASSERT_EQ(disk.remove("file", at_once), Disk::Status::kOk);
      EXPECT_FALSE(disk.exists("file"));
      disk.restart(true);
      EXPECT_FALSE(at_once && disk.exists("file"));
      came_back = came_back || disk.exists("file");
    }
  }
  EXPECT_TRUE(came_back);
}

/// Whether an acknowledged job is there after the power was lost.
bool survives(std::uint64_t seed, bool power_safe, bool power_lost) {
  seed_sqlite(seed);
  Disk disk(seed);
  const Mount mount(scratch_folder("journal"), disk);
  const std::string path = scratch_folder("journal") + "/journal.sqlite";
  Random random(seed);
  const JobPlan plan = JobPlan::draw(random, {}, seed + 1);
  {
    auto journal = store::LabJournal::open(path, power_safe);
    EXPECT_TRUE(journal) << journal.error().message;
    EXPECT_TRUE((*journal)->add_job(plan.record()));
    disk.stop_now();
  }
  disk.restart(power_lost);
  auto journal = store::LabJournal::open(path, power_safe);
  EXPECT_TRUE(journal) << journal.error().message;
  return journal && (*journal)->job(1).has_value();
}

TEST(Journal, KeepsWhatItAcknowledgedAsItsSettingSays) {
  bool lost = false;
  for (std::uint64_t seed = 1; seed < 60; ++seed) {
    EXPECT_TRUE(survives(seed, false, false)) << seed;
    EXPECT_TRUE(survives(seed, true, false)) << seed;
    EXPECT_TRUE(survives(seed, true, true)) << seed;
    lost = lost || !survives(seed, false, true);
  }
  // The disk is as bad as it says: what was not promised does not hold.
  EXPECT_TRUE(lost);
}

}  // namespace
}  // namespace goblin::sim
