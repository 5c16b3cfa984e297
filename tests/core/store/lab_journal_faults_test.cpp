// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Crashes, damage, full disks, foreign files.
#include <gmock/gmock.h>

#include "core/store/peer_registry.hpp"
#include "tests/core/store/records.hpp"

namespace goblin::store::test {
namespace {

std::vector<AcceptedRecord> batch_of(std::uint64_t first, std::uint64_t count) {
  std::vector<AcceptedRecord> batch;
  for (std::uint64_t task = first; task < first + count; ++task) {
    batch.push_back(sample_accepted(1, task));
  }
  return batch;
}

/// A closed journal with one job and `count` accepted tasks.
void make_journal(const std::string& path, std::uint64_t count) {
  auto journal = LabJournal::open(path, false);
  GOBLIN_ASSERT_OK(journal);
  GOBLIN_ASSERT_OK((*journal)->add_job(sample_job(1)));
  GOBLIN_ASSERT_OK((*journal)->record_accepted(batch_of(0, count)));
}

/// Overwrites a big-endian 32-bit field of SQLite's header.
void set_header(const std::string& path, std::size_t offset, std::uint32_t value) {
  std::string bytes = slurp(path);
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[offset + i] = static_cast<char>(value >> (24 - 8 * i));
  }
  spill(path, bytes);
}
constexpr std::size_t kUserVersion = 60;
constexpr std::size_t kApplicationId = 68;

TEST(LabJournalFaults, NothingAcknowledgedIsLostByKill) {
  constexpr std::uint64_t kBatch = 50;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const TempDir directory;
    const std::string path = directory / "journal.db";
    std::uint64_t acknowledged = 0;
    // Three lives of the writer, each killed while it writes; the last leaves no clean close.
    for (int life = 0; life < 3; ++life) {
      Child child([&](int fd) {
        auto journal = LabJournal::open(path, false);
        if (!journal || !(*journal)->add_job(sample_job(1))) {
          ::_exit(1);
        }
        std::uint64_t next = (*journal)->accepted(1)->size();
        for (;;) {
          if (!(*journal)->record_accepted(batch_of(next, kBatch))) {
            ::_exit(1);
          }
          next += kBatch;
          Child::write(fd, next);
        }
      });
      const std::uint64_t acks = 1 + random.below(40);
      for (std::uint64_t i = 0; i < acks; ++i) {
        ASSERT_TRUE(child.read(acknowledged)) << "the writer failed";
      }
      child.kill();
    }
    auto journal = LabJournal::open(path, false);
    GOBLIN_ASSERT_OK(journal);
    const auto accepted = (*journal)->accepted(1);
    GOBLIN_ASSERT_OK(accepted);
    EXPECT_GE(accepted->size(), acknowledged);
    EXPECT_EQ(accepted->size() % kBatch, 0u) << "half a batch is there";
    for (std::uint64_t task = 0; task < accepted->size(); ++task) {
      ASSERT_TRUE(same((*accepted)[task], sample_accepted(1, task))) << "task " << task;
    }
    EXPECT_EQ((*journal)->jobs()->size(), 1u);
  }
}

TEST(LabJournalFaults, SecondProcessIsRefused) {
  const TempDir directory;
  const std::string path = directory / "journal.db";
  Child child([&](int fd) {
    auto journal = LabJournal::open(path, false);
    Child::write(fd, journal.has_value() ? 1 : 0);
    ::pause();
  });
  std::uint64_t opened = 0;
  ASSERT_TRUE(child.read(opened));
  ASSERT_EQ(opened, 1u);
  const auto second = LabJournal::open(path, false);
  GOBLIN_EXPECT_CODE(Code::kUnavailable, second);
  EXPECT_NE(second.error().message.find("another process"), std::string::npos);
  EXPECT_NE(second.error().message.find(path), std::string::npos);
  child.kill();
  GOBLIN_ASSERT_OK(LabJournal::open(path, false));
}

TEST(LabJournalFaults, SecondOpenerOfTheSameProcessIsRefused) {
  const TempDir directory;
  const std::string path = directory / "journal.db";
  auto first = LabJournal::open(path, true);
  GOBLIN_ASSERT_OK(first);
  GOBLIN_EXPECT_CODE(Code::kUnavailable, LabJournal::open(path, true));
  GOBLIN_ASSERT_OK((*first)->add_job(sample_job(1)));
}

TEST(LabJournalFaults, NewerSchemaIsRefusedAndUntouched) {
  const TempDir directory;
  const std::string path = directory / "journal.db";
  make_journal(path, 10);
  set_header(path, kUserVersion, 7);
  const std::string before = slurp(path);
  const auto refused = LabJournal::open(path, false);
  GOBLIN_EXPECT_CODE(Code::kUnsupported, refused);
  EXPECT_NE(refused.error().message.find("schema version 7"), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find("up to 3"), std::string::npos);
  EXPECT_EQ(slurp(path), before);
}

TEST(LabJournalFaults, DataBaseOfAnotherProgramIsRefused) {
  const TempDir directory;
  const std::string path = directory / "journal.db";
  GOBLIN_ASSERT_OK(PeerRegistry::open(path));
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, LabJournal::open(path, false));
  make_journal(directory / "other.db", 1);
  set_header(directory / "other.db", kApplicationId, 0);
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, LabJournal::open(directory / "other.db", false));
}

TEST(LabJournalFaults, FileThatIsNoDataBaseIsRefused) {
  const TempDir directory;
  const std::string path = directory / "journal.db";
  spill(path, std::string(5000, 'x'));
  const auto refused = LabJournal::open(path, false);
  GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
  EXPECT_NE(refused.error().message.find("restore a copy"), std::string::npos);
  EXPECT_EQ(slurp(path), std::string(5000, 'x'));
}

TEST(LabJournalFaults, PathsThatCannotBe) {
  const TempDir directory;
  const auto missing = LabJournal::open(directory / "none/journal.db", false);
  GOBLIN_EXPECT_CODE(Code::kUnavailable, missing);
  EXPECT_NE(missing.error().message.find("directory does not exist"), std::string::npos);
  GOBLIN_EXPECT_CODE(Code::kUnavailable, LabJournal::open(directory.path(), false));
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, LabJournal::open("", false));
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, LabJournal::open(":memory:", false));
}

TEST(LabJournalFaults, CorruptPageIsNamedAtOpening) {
  const TempDir directory;
  const std::string path = directory / "journal.db";
  make_journal(path, 2000);
  std::string bytes = slurp(path);
  std::fill_n(bytes.begin() + 3 * 4096, 4096, '\x5a');
  spill(path, bytes);
  const auto refused = LabJournal::open(path, false);
  GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
  EXPECT_NE(refused.error().message.find("restore a copy"), std::string::npos);
  EXPECT_NE(refused.error().message.find(path), std::string::npos);
}

TEST(LabJournalFaults, FormatThatNobodyWritesIsDamage) {
  const TempDir directory;
  const std::string path = directory / "journal.db";
  make_journal(path, 10);
  constexpr std::size_t kSchemaFormat = 44;
  set_header(path, kSchemaFormat, 0x3f);
  const auto journal = LabJournal::open(path, false);
  GOBLIN_EXPECT_CODE(Code::kCorrupt, journal);
  ASSERT_FALSE(journal);
  EXPECT_NE(journal.error().message.find(".recover"), std::string::npos) << journal.error().message;
}

// Every page is sound, but a table has another name: statements would meet what is not there.
TEST(LabJournalFaults, TablesThatAreNotOursAreDamage) {
  const TempDir directory;
  const std::string path = directory / "journal.db";
  make_journal(path, 10);
  for (const std::string_view name : {"quarantines(", "TABLE accepted"}) {
    std::string bytes = slurp(path);
    const std::size_t at = bytes.find(name);
    ASSERT_NE(at, std::string::npos) << name;
    bytes[at + name.size() - 2] = 'x';
    const std::string changed = directory / "changed.db";
    spill(changed, bytes);
    const auto journal = LabJournal::open(changed, false);
    GOBLIN_EXPECT_CODE(Code::kCorrupt, journal);
  }
}

TEST(LabJournalFaults, TruncatedFileIsNamed) {
  const TempDir directory;
  const std::string path = directory / "journal.db";
  make_journal(path, 2000);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2 / 4096 * 4096);
  GOBLIN_EXPECT_CODE(Code::kCorrupt, LabJournal::open(path, false));
}

// Bits flipped anywhere: never a wrong record, always the right ones or kCorrupt.
TEST(LabJournalFaults, OneThatMustExistIsNotMadeAnew) {
  const TempDir directory;
  const std::string path = directory / "journal.db";
  const auto missing = LabJournal::open(path, false, true);
  GOBLIN_EXPECT_CODE(Code::kNotFound, missing);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, testing::HasSubstr(path + "' is missing"));
  EXPECT_NE(::access(path.c_str(), F_OK), 0) << "a second try must be refused, too";
  make_journal(path, 3);
  GOBLIN_ASSERT_OK(LabJournal::open(path, false, true));
  spill(path, "");
  spill(path + "-wal", "what could still be read");
  for (int i = 0; i < 2; ++i) {
    const auto cut = LabJournal::open(path, false, true);
    GOBLIN_EXPECT_CODE(Code::kNotFound, cut);
    ASSERT_FALSE(cut);
    EXPECT_THAT(cut.error().message, testing::HasSubstr("is empty"));
  }
  EXPECT_EQ(slurp(path), "");
  EXPECT_EQ(slurp(path + "-wal"), "what could still be read");
}

TEST(LabJournalFaults, FlippedBitsNeverChangeAnAcceptedRecord) {
  const TempDir directory;
  const std::string path = directory / "journal.db";
  constexpr std::uint64_t kTasks = 100;
  make_journal(path, kTasks);
  const std::string good = slurp(path);
  int found_at_open = 0;
  int found_at_read = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    spill(path, good);
    std::filesystem::remove(path + "-wal");
    damage(path, random.below(good.size()), static_cast<std::uint8_t>(1u << random.below(8)));
    auto journal = LabJournal::open(path, false);
    if (!journal) {
      ++found_at_open;
      EXPECT_NE(journal.error().code, Code::kInternal) << journal.error().message;
      continue;
    }
    const auto accepted = (*journal)->accepted(1);
    if (!accepted) {
      ++found_at_read;
      EXPECT_EQ(accepted.error().code, Code::kCorrupt) << accepted.error().message;
      continue;
    }
    for (const AcceptedRecord& record : *accepted) {
      EXPECT_TRUE(same(record, sample_accepted(1, record.task))) << "task " << record.task;
    }
  }
  EXPECT_GT(found_at_open, 0);
  EXPECT_GT(found_at_read, 0);
}

TEST(LabJournalFaults, FullDiskIsAClearErrorAndTheJournalGoesOn) {
  const TempDir directory;
  const std::string path = directory / "journal.db";
  auto journal = LabJournal::open(path, false);
  GOBLIN_ASSERT_OK(journal);
  GOBLIN_ASSERT_OK((*journal)->add_job(sample_job(1)));
  std::uint64_t written = 0;
  {
    const FileSizeLimit limit(300'000);
    for (;;) {
      ASSERT_LT(written, 100'000u) << "the limit does not bite";
      const auto done = (*journal)->record_accepted(batch_of(written, 100));
      if (!done) {
        GOBLIN_EXPECT_CODE(Code::kExhausted, done);
        EXPECT_NE(done.error().message.find(path), std::string::npos) << done.error().message;
        break;
      }
      written += 100;
    }
    EXPECT_EQ((*journal)->accepted(1)->size(), written);
  }
  GOBLIN_ASSERT_OK((*journal)->record_accepted(batch_of(written, 100)));
  journal->reset();
  journal = LabJournal::open(path, false);
  GOBLIN_ASSERT_OK(journal);
  EXPECT_EQ((*journal)->accepted(1)->size(), written + 100);
}

TEST(LabJournalFaults, FullFileSystem) {
  const TinyDisk disk(1u << 20);
  if (!disk.mounted()) {
    GTEST_SKIP() << "needs the right to mount";
  }
  auto journal = LabJournal::open(disk / "journal.db", false);
  GOBLIN_ASSERT_OK(journal);
  GOBLIN_ASSERT_OK((*journal)->add_job(sample_job(1)));
  std::uint64_t written = 0;
  for (;;) {
    ASSERT_LT(written, 100'000u);
    const auto done = (*journal)->record_accepted(batch_of(written, 100));
    if (!done) {
      GOBLIN_EXPECT_CODE(Code::kExhausted, done);
      break;
    }
    written += 100;
  }
  ASSERT_GT(written, 0u);
  journal->reset();
  journal = LabJournal::open(disk / "journal.db", false);
  GOBLIN_ASSERT_OK(journal);
  EXPECT_EQ((*journal)->accepted(1)->size(), written);
}

}  // namespace
}  // namespace goblin::store::test
