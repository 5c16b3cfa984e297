// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/store/staging.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <set>
#include <thread>

#include "tests/core/store/support.hpp"

namespace goblin::store::test {
namespace {

std::unique_ptr<Staging> open(const std::string& path, std::uint64_t cap = 0) {
  auto staging = Staging::open(path, cap);
  EXPECT_TRUE(staging.has_value()) << staging.error().message;
  return std::move(*staging);
}

TEST(Staging, FilesKeepTheirBytes) {
  const TempDir directory;
  const std::string path = directory / "a/b/staging";
  auto staging = open(path);
  auto file = staging->create(100'000);
  GOBLIN_ASSERT_OK(file);
  EXPECT_EQ(file->number, 1u);
  EXPECT_EQ(file->size, 100'000u);
  ASSERT_EQ(::pwrite(file->fd.get(), "goblin", 6, 99'994), 6);
  EXPECT_EQ(staging->used_bytes(), 100'000u);
  EXPECT_TRUE(std::filesystem::exists(path + "/0000000000000001.bin"));
  staging.reset();
  staging = open(path);
  EXPECT_EQ(staging->used_bytes(), 100'000u);
  EXPECT_EQ(staging->list().value(), std::vector<std::uint64_t>{1});
  auto again = staging->reopen(1, Staging::Access::kRead);
  GOBLIN_ASSERT_OK(again);
  char bytes[6] = {};
  ASSERT_EQ(::pread(again->fd.get(), bytes, 6, 99'994), 6);
  EXPECT_EQ(std::string(bytes, 6), "goblin");
  ASSERT_EQ(::pread(again->fd.get(), bytes, 1, 0), 1);
  EXPECT_EQ(bytes[0], 0);
  EXPECT_EQ(again->size, 100'000u);
}

TEST(Staging, WhoOnlyReadsCannotWrite) {
  const TempDir directory;
  auto staging = open(directory / "staging");
  const std::uint64_t number = staging->create(10)->number;
  auto reader = staging->reopen(number, Staging::Access::kRead);
  GOBLIN_ASSERT_OK(reader);
  EXPECT_EQ(::pwrite(reader->fd.get(), "x", 1, 0), -1);
  EXPECT_EQ(::ftruncate(reader->fd.get(), 0), -1);
  auto writer = staging->reopen(number, Staging::Access::kReadWrite);
  GOBLIN_ASSERT_OK(writer);
  EXPECT_EQ(::pwrite(writer->fd.get(), "x", 1, 0), 1);
}

TEST(Staging, BlocksAreAllocated) {
  const TempDir directory;
  auto staging = open(directory / "staging");
  auto file = staging->create(10u << 20);
  GOBLIN_ASSERT_OK(file);
  struct stat info {};
  ASSERT_EQ(::fstat(file->fd.get(), &info), 0);
  EXPECT_EQ(info.st_size, 10 << 20);
  EXPECT_GE(info.st_blocks * 512, 10 << 20);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat((directory / "staging").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST(Staging, AResidentFileIsZeroAndInThePageCache) {
  const TempDir directory;
  auto staging = open(directory / "staging");
  constexpr std::size_t kSize = (5u << 20) + 100;
  auto file = staging->create_resident(kSize);
  GOBLIN_ASSERT_OK(file);
  auto* const bytes =
      static_cast<unsigned char*>(::mmap(nullptr, kSize, PROT_READ, MAP_SHARED, file->fd.get(), 0));
  ASSERT_NE(bytes, MAP_FAILED);
  std::vector<unsigned char> pages((kSize + 4095) / 4096);
  ASSERT_EQ(::mincore(bytes, kSize, pages.data()), 0);
  EXPECT_EQ(std::count_if(pages.begin(), pages.end(), [](auto page) { return (page & 1) == 0; }),
            0);
  EXPECT_EQ(std::count(bytes, bytes + kSize, 0), static_cast<std::ptrdiff_t>(kSize));
  ::munmap(bytes, kSize);
}

TEST(Staging, NumbersAreNeverUsedTwice) {
  const TempDir directory;
  std::set<std::uint64_t> seen;
  for (int life = 0; life < 3; ++life) {
    auto staging = open(directory / "staging");
    for (int i = 0; i < 1500; ++i) {
      auto file = staging->create(0);
      GOBLIN_ASSERT_OK(file);
      EXPECT_TRUE(seen.insert(file->number).second) << file->number;
      GOBLIN_ASSERT_OK(staging->remove(file->number));
    }
  }
}

TEST(Staging, NumbersAreNeverUsedTwiceAfterAKill) {
  const TempDir directory;
  std::set<std::uint64_t> seen;
  for (std::uint64_t life = 0; life < 5; ++life) {
    Child child([&](int fd) {
      auto staging = Staging::open(directory / "staging", 0);
      for (;;) {
        auto file = (*staging)->create(0);
        Child::write(fd, file->number);
        if (!(*staging)->remove(file->number)) {
          ::_exit(1);
        }
      }
    });
    for (std::uint64_t i = 0; i < 700 + 100 * life; ++i) {
      std::uint64_t number = 0;
      ASSERT_TRUE(child.read(number));
      EXPECT_TRUE(seen.insert(number).second) << number;
    }
    child.kill();
  }
}

TEST(Staging, RemovedFilesAreGone) {
  const TempDir directory;
  auto staging = open(directory / "staging");
  const std::uint64_t number = staging->create(50)->number;
  GOBLIN_ASSERT_OK(staging->remove(number));
  EXPECT_EQ(staging->used_bytes(), 0u);
  EXPECT_TRUE(staging->list()->empty());
  GOBLIN_EXPECT_CODE(Code::kNotFound, staging->reopen(number, Staging::Access::kRead));
  GOBLIN_EXPECT_CODE(Code::kNotFound, staging->remove(number));
  GOBLIN_EXPECT_CODE(Code::kNotFound, staging->reopen(12345, Staging::Access::kRead));
}

TEST(Staging, CapIsKept) {
  const TempDir directory;
  auto staging = open(directory / "staging", 1000);
  const std::uint64_t first = staging->create(600)->number;
  const auto refused = staging->create(401);
  GOBLIN_EXPECT_CODE(Code::kExhausted, refused);
  EXPECT_NE(refused.error().message.find("600 bytes of its cap of 1000"), std::string::npos)
      << refused.error().message;
  GOBLIN_EXPECT_CODE(Code::kExhausted, staging->create(~0ull));
  GOBLIN_ASSERT_OK(staging->create(400));
  GOBLIN_ASSERT_OK(staging->remove(first));
  GOBLIN_ASSERT_OK(staging->create(600));
}

TEST(Staging, FullDiskIsAClearErrorAndLeavesNothing) {
  const TempDir directory;
  auto staging = open(directory / "staging");
  {
    const FileSizeLimit limit(1 << 20);
    const auto refused = staging->create(2 << 20);
    GOBLIN_EXPECT_CODE(Code::kExhausted, refused);
    EXPECT_NE(refused.error().message.find("2097152 bytes"), std::string::npos)
        << refused.error().message;
  }
  GOBLIN_EXPECT_CODE(Code::kExhausted, staging->create(1ull << 62));
  EXPECT_EQ(staging->used_bytes(), 0u);
  EXPECT_TRUE(staging->list()->empty());
  staging.reset();
  EXPECT_TRUE(open(directory / "staging")->list()->empty());
}

TEST(Staging, FullFileSystemNamesTheFreeSpace) {
  const TinyDisk disk(1u << 20);
  if (!disk.mounted()) {
    GTEST_SKIP() << "needs the right to mount";
  }
  auto staging = open(disk / "staging");
  const auto refused = staging->create(2u << 20);
  GOBLIN_EXPECT_CODE(Code::kExhausted, refused);
  EXPECT_NE(refused.error().message.find("are free there"), std::string::npos)
      << refused.error().message;
  GOBLIN_ASSERT_OK(staging->create(512u << 10));
}

TEST(Staging, ChangedLengthIsFound) {
  const TempDir directory;
  auto staging = open(directory / "staging");
  auto file = staging->create(1000);
  ASSERT_EQ(::ftruncate(file->fd.get(), 10), 0);
  GOBLIN_EXPECT_CODE(Code::kCorrupt, staging->reopen(file->number, Staging::Access::kRead));
}

TEST(Staging, LostNoteOfNumbersIsAnError) {
  const TempDir directory;
  const std::string path = directory / "staging";
  open(path)->create(1).value();
  const std::string next = slurp(path + "/next");
  for (const std::string& bad : {std::string("x"), std::string(), std::string("0\n"),
                                 std::string("1\n"), std::string("-5")}) {
    spill(path + "/next", bad);
    const auto refused = Staging::open(path, 0);
    GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
    EXPECT_NE(refused.error().message.find("write one there"), std::string::npos);
  }
  std::filesystem::remove(path + "/next");
  GOBLIN_EXPECT_CODE(Code::kCorrupt, Staging::open(path, 0));
  spill(path + "/next", next);
  EXPECT_GT(open(path)->create(1)->number, 1u);
}

TEST(Staging, OtherFilesAreLeftAlone) {
  const TempDir directory;
  const std::string path = directory / "staging";
  open(path);
  spill(path + "/notes.txt", "mine");
  spill(path + "/1.bin", "mine");
  auto staging = open(path);
  EXPECT_TRUE(staging->list()->empty());
  EXPECT_EQ(slurp(path + "/notes.txt"), "mine");
}

TEST(Staging, DirectoriesThatCannotBe) {
  const TempDir directory;
  auto first = open(directory / "staging");
  const auto second = Staging::open(directory / "staging", 0);
  GOBLIN_EXPECT_CODE(Code::kUnavailable, second);
  EXPECT_NE(second.error().message.find("another process"), std::string::npos);
  spill(directory / "file", "x");
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, Staging::open(directory / "file", 0));
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, Staging::open("", 0));
  ASSERT_EQ(::mkdir((directory / "open").c_str(), 0700), 0);
  ASSERT_EQ(::chmod((directory / "open").c_str(), 0777), 0);
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, Staging::open(directory / "open", 0));
}

TEST(Staging, ManyThreads) {
  const TempDir directory;
  auto staging = open(directory / "staging", 4000);
  std::vector<std::thread> threads;
  std::array<std::vector<std::uint64_t>, 4> numbers;
  for (auto& mine : numbers) {
    threads.emplace_back([&staging, &mine] {
      for (int i = 0; i < 300; ++i) {
        auto file = staging->create(1000);
        if (file) {
          mine.push_back(file->number);
          EXPECT_TRUE(staging->remove(file->number).has_value());
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::set<std::uint64_t> all;
  std::size_t count = 0;
  for (const auto& mine : numbers) {
    all.insert(mine.begin(), mine.end());
    count += mine.size();
  }
  EXPECT_EQ(all.size(), count);
  EXPECT_EQ(count, 1200u);
  EXPECT_EQ(staging->used_bytes(), 0u);
}

}  // namespace
}  // namespace goblin::store::test
