// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/result_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "tests/hosts/lab/temp_file.hpp"

namespace goblin::lab {
namespace {

using testing::HasSubstr;
constexpr std::uint64_t kMiB = 1 << 20;

ResultStore::Remove remover(store::Staging& staging) {
  return [&staging](std::uint64_t stage) { EXPECT_TRUE(staging.remove(stage)); };
}

struct Store {
  explicit Store(std::uint64_t cap = 0)
      : staging(std::move(store::Staging::open(directory.path() + "/staging", cap)).value()),
        results(*staging, remover(*staging)) {}
  std::size_t files() { return staging->list().value().size(); }

  test::TempDir directory;
  std::unique_ptr<store::Staging> staging;
  ResultStore results;
};

wire::Bytes pattern(std::size_t bytes, int seed) {
  wire::Bytes out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    out[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(seed));
  }
  return out;
}

wire::Bytes read_slot(ResultStore& results, const Slot& slot) {
  wire::Bytes out(slot.bytes);
  EXPECT_EQ(::pread(results.fd(slot), out.data(), out.size(), static_cast<off_t>(slot.offset)),
            static_cast<ssize_t>(out.size()));
  return out;
}

TEST(ResultStore, SmallResultsShareAFileAndDoNotOverlap) {
  Store store;
  std::vector<Slot> slots;
  for (int i = 0; i < 200; ++i) {
    auto slot = store.results.allocate(1 + static_cast<std::uint64_t>(i) * 7);
    ASSERT_TRUE(slot);
    EXPECT_EQ(slot->offset % 64, 0u);
    ASSERT_TRUE(store.results.write(*slot, 0, pattern(slot->bytes, i)));
    slots.push_back(*slot);
  }
  EXPECT_EQ(store.files(), 1u);
  for (int i = 0; i < 200; ++i) {
    const Slot& slot = slots[static_cast<std::size_t>(i)];
    EXPECT_EQ(read_slot(store.results, slot), pattern(slot.bytes, i));
    EXPECT_LE(slot.offset + slot.bytes, store.results.file_bytes(slot));
  }
}

TEST(ResultStore, ALargeResultHasAFileOfItsOwn) {
  Store store;
  auto small = store.results.allocate(100);
  auto large = store.results.allocate(3 * kMiB);
  ASSERT_TRUE(small && large);
  EXPECT_NE(small->stage, large->stage);
  EXPECT_EQ(large->offset, 0u);
  EXPECT_EQ(store.files(), 2u);
}

TEST(ResultStore, AFileOfAReleasedLargeResultServesTheNextOfItsSize) {
  Store store;
  const Slot first = store.results.allocate(4 * kMiB).value();
  const Slot held = store.results.allocate(4 * kMiB).value();
  ASSERT_TRUE(store.results.write(held, 0, pattern(1000, 3)));
  EXPECT_FALSE(store.results.release(first));  // stays mapped
  const Slot second = store.results.allocate(4 * kMiB - 100).value();
  EXPECT_EQ(second.stage, first.stage);
  const Slot third = store.results.allocate(4 * kMiB).value();
  EXPECT_NE(third.stage, first.stage);
  EXPECT_NE(third.stage, held.stage);
  EXPECT_EQ(store.files(), 3u);
  // Half of a file's size would waste it.
  EXPECT_FALSE(store.results.release(third));
  const Slot smaller = store.results.allocate(2 * kMiB).value();
  EXPECT_NE(smaller.stage, third.stage);
  Slot part = held;
  part.bytes = 1000;
  EXPECT_EQ(read_slot(store.results, part), pattern(1000, 3));
}

TEST(ResultStore, KeepsFewFilesThatNobodyUses) {
  Store store;
  std::vector<Slot> slots;
  for (int i = 0; i < 10; ++i) {
    slots.push_back(store.results.allocate(kMiB).value());
  }
  EXPECT_EQ(store.files(), 10u);
  std::size_t gone = 0;
  for (const Slot& slot : slots) {
    gone += store.results.release(slot) ? 1 : 0;
  }
  EXPECT_EQ(gone, 6u);
  EXPECT_EQ(store.files(), 4u);
  store.results.clear();
  EXPECT_EQ(store.files(), 0u);
}

TEST(ResultStore, FilesThatNobodyUsesDoNotOutliveANewPlan) {
  Store store;
  const Slot kept = store.results.allocate(kMiB).value();
  const Slot spare = store.results.allocate(kMiB).value();
  EXPECT_FALSE(store.results.release(spare));
  store.results.reset({kept.stage});
  EXPECT_EQ(store.files(), 1u);
  ASSERT_TRUE(store.results.adopt(kept));
  EXPECT_NE(store.results.allocate(kMiB).value().stage, spare.stage);
}

TEST(ResultStore, AnArenaIsUsedAgainAndAnOldOneGoesWithItsLastResult) {
  Store store;
  for (int i = 0; i < 1000; ++i) {  // many times the arena's size
    auto slot = store.results.allocate(100'000);
    ASSERT_TRUE(slot);
    EXPECT_FALSE(store.results.release(*slot));
  }
  EXPECT_EQ(store.files(), 1u);
  auto first = store.results.allocate(100'000);
  ASSERT_TRUE(first);
  std::vector<Slot> rest;
  while (store.files() == 1) {
    rest.push_back(store.results.allocate(100'000).value());
  }
  const Slot in_new = rest.back();
  rest.pop_back();
  for (const Slot& slot : rest) {
    EXPECT_FALSE(store.results.release(slot));
  }
  EXPECT_EQ(store.files(), 2u);
  EXPECT_TRUE(store.results.release(*first));
  EXPECT_EQ(store.files(), 1u);
  ASSERT_TRUE(store.results.write(in_new, 0, pattern(in_new.bytes, 1)));
  EXPECT_EQ(read_slot(store.results, in_new), pattern(in_new.bytes, 1));
}

TEST(ResultStore, AFullCapIsSaidWithItsRemedy) {
  Store store(8 * kMiB);
  ASSERT_TRUE(store.results.allocate(6 * kMiB));
  const auto refused = store.results.allocate(6 * kMiB);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  EXPECT_TRUE(store.results.allocate(kMiB));
}

TEST(ResultStore, TakesUpWhatTheJournalNames) {
  test::TempDir directory;
  Slot kept;
  {
    auto staging = store::Staging::open(directory.path(), 0).value();
    ResultStore results(*staging, remover(*staging));
    kept = results.allocate(1000).value();
    ASSERT_TRUE(results.write(kept, 0, pattern(1000, 5)));
  }
  auto staging = store::Staging::open(directory.path(), 0).value();
  ResultStore results(*staging, remover(*staging));
  ASSERT_TRUE(results.adopt(kept));
  EXPECT_EQ(read_slot(results, kept), pattern(1000, 5));
  const auto fresh = results.allocate(1000).value();
  EXPECT_NE(fresh.stage, kept.stage);  // never over a result that is in use
  Slot beyond = kept;
  beyond.bytes = 1ULL << 40;
  auto refused = results.adopt(beyond);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  Slot overflow = kept;
  overflow.offset = UINT64_MAX - 63;
  refused = results.adopt(overflow);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  Slot missing = kept;
  missing.stage = 999'999;
  EXPECT_FALSE(results.adopt(missing));
  EXPECT_TRUE(results.release(kept));
  results.clear();
  EXPECT_TRUE(staging->list().value().empty());
}

TEST(SlotSink, HashesWhatItWritesAndRefusesAnotherSize) {
  Store store;
  const Slot slot = store.results.allocate(1000).value();
  for (const std::uint64_t size : {0ULL, 999ULL, 1001ULL, 1ULL << 60}) {
    SlotSink sink(store.results.shared_fd(slot), slot.offset, 1000);
    const auto refused = sink.begin(size);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("1000"));
  }
  SlotSink sink(store.results.shared_fd(slot), slot.offset, 1000);
  ASSERT_TRUE(sink.begin(1000));
  const auto bytes = pattern(1000, 9);
  ASSERT_TRUE(sink.write(0, std::span(bytes).first(300)));
  ASSERT_TRUE(sink.write(300, std::span(bytes).subspan(300)));
  EXPECT_EQ(read_slot(store.results, slot), bytes);
  net::BlobHash hash;
  hash.update(bytes);
  EXPECT_EQ(sink.digest(), hash.finish());
  EXPECT_EQ(sink.received(), 1000U);
}

TEST(SlotSink, WritesNothingOnceAbandonedAndOutlivesItsSlot) {
  Store store;
  const Slot slot = store.results.allocate(1000).value();
  const auto fd = store.results.shared_fd(slot);
  SlotSink sink(fd, slot.offset, 1000);
  ASSERT_TRUE(sink.begin(1000));
  const auto bytes = pattern(1000, 9);
  ASSERT_TRUE(sink.write(0, std::span(bytes).first(300)));
  const auto before = read_slot(store.results, slot);
  sink.abandon();
  const auto late = sink.write(300, std::span(bytes).subspan(300));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kCancelled);
  EXPECT_FALSE(sink.disk_failed());
  EXPECT_EQ(read_slot(store.results, slot), before);
  // The files may go while a transfer still holds its descriptor.
  SlotSink slow(fd, slot.offset, 1000);
  store.results.clear();
  EXPECT_TRUE(slow.write(0, bytes));
}

TEST(SlotSink, TakesNoMoreThanItsSlot) {
  Store store;
  const Slot slot = store.results.allocate(1000).value();
  SlotSink sink(store.results.shared_fd(slot), slot.offset, 1000);
  const auto bytes = pattern(1001, 9);
  const auto refused = sink.write(0, bytes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_EQ(sink.received(), 0U);
}

TEST(WriteAll, AClosedDescriptorIsAnError) {
  const auto bytes = pattern(10, 1);
  const auto refused = write_all(-1, 0, bytes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("staging"));
}

}  // namespace
}  // namespace goblin::lab
