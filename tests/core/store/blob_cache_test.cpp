// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/store/blob_cache.hpp"

#include <atomic>
#include <ctime>
#include <thread>

#include "core/net/sha256.hpp"
#include "tests/core/store/blob_fixture.hpp"

namespace goblin::store::test {
namespace {

using Digests = std::vector<wire::Digest>;

TEST_F(BlobCacheTest, BlobsComeBackWhole) {
  open(10'000'000);
  for (const std::size_t size : {0u, 1u, 1000u, 262'144u, 3'000'001u}) {
    const Blob blob(size, size + 1);
    auto stored = put(blob, 300'000);
    GOBLIN_ASSERT_OK(stored);
    EXPECT_EQ((*stored)->size(), size);
    EXPECT_EQ(read(**stored), blob.bytes);
    auto found = cache_->find(blob.digest);
    GOBLIN_ASSERT_OK(found);
    EXPECT_EQ(read(**found), blob.bytes);
  }
  EXPECT_TRUE(evicted_.empty());
  EXPECT_EQ(cache_->used_bytes(), 3'263'146u);
  EXPECT_EQ(cache_->cap_bytes(), 10'000'000u);
}

TEST_F(BlobCacheTest, PluginsAreNamedBySha256) {
  open(100'000, NamedBy::kSha256);
  Blob plugin(50'000);
  GOBLIN_EXPECT_CODE(Code::kCorrupt, put(plugin));  // named by BLAKE3
  plugin.digest = net::sha256(plugin.bytes);
  put_part(plugin, 20'000);
  GOBLIN_ASSERT_OK(put(plugin));
  open(100'000, NamedBy::kSha256);  // found on disk, and hashed
  EXPECT_TRUE(has(plugin));
  open(100'000, NamedBy::kBlake3);
  EXPECT_FALSE(has(plugin));
}

TEST_F(BlobCacheTest, UnknownBlobIsNotFound) {
  open(1000);
  GOBLIN_EXPECT_CODE(Code::kNotFound, cache_->find(digest_of(1)));
}

TEST_F(BlobCacheTest, PinsAreReadOnlyAndShared) {
  open(1000);
  const Blob blob(100);
  GOBLIN_ASSERT_OK(put(blob));
  const auto first = cache_->find(blob.digest).value();
  const auto second = cache_->find(blob.digest).value();
  EXPECT_EQ(first, second);
  EXPECT_EQ(::write(first->fd(), "x", 1), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST_F(BlobCacheTest, WhatSomebodyWroteToIsHashedAgain) {
  open(1u << 20);
  const Blob changed(10'000, 1);
  const Blob rewritten(10'000, 2);
  const Blob left(10'000, 3);
  const Blob hidden(10'000, 4);
  for (const Blob* blob : {&changed, &rewritten, &left, &hidden}) {
    GOBLIN_ASSERT_OK(put(*blob));
    EXPECT_TRUE(has(*blob));
  }
  const auto write = [this](const Blob& blob, std::byte value) {
    const std::string path = file(blob);
    ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
    const net::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::pwrite(fd.get(), &value, 1, 5'000), 1);
  };
  write(changed, changed.bytes[5'000] ^ std::byte{1});
  write(rewritten, rewritten.bytes[5'000]);
  struct stat before {};
  ASSERT_EQ(::stat(file(hidden).c_str(), &before), 0);
  write(hidden, hidden.bytes[5'000] ^ std::byte{1});
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, file(hidden).c_str(), times, 0), 0);
  EXPECT_FALSE(has(changed));
  EXPECT_FALSE(has(hidden)) << "a change under the old time stamp";
  EXPECT_TRUE(has(rewritten));
  EXPECT_TRUE(has(left));
  EXPECT_EQ(evicted_, Digests({changed.digest, hidden.digest}));
  GOBLIN_ASSERT_OK(put(changed));
  EXPECT_TRUE(has(changed));
}

TEST_F(BlobCacheTest, LeastRecentlyUsedGoesFirst) {
  open(1000);
  const Blob a(300, 1), b(300, 2), c(300, 3), d(300, 4), e(700, 5);
  GOBLIN_ASSERT_OK(put(a));
  GOBLIN_ASSERT_OK(put(b));
  GOBLIN_ASSERT_OK(put(c));
  EXPECT_TRUE(has(a));
  GOBLIN_ASSERT_OK(put(d));
  EXPECT_EQ(evicted_, Digests({b.digest}));
  GOBLIN_ASSERT_OK(put(e));
  EXPECT_EQ(evicted_, Digests({b.digest, c.digest, a.digest}));
  EXPECT_TRUE(has(d));
  EXPECT_FALSE(has(a));
  EXPECT_EQ(cache_->used_bytes(), 1000u);
  EXPECT_FALSE(std::filesystem::exists(file(b)));
}

TEST_F(BlobCacheTest, OrderSurvivesARestart) {
  open(1000);
  const Blob a(300, 1), b(300, 2), c(300, 3), d(300, 4);
  GOBLIN_ASSERT_OK(put(a));
  GOBLIN_ASSERT_OK(put(b));
  GOBLIN_ASSERT_OK(put(c));
  EXPECT_TRUE(has(a));
  open(1000);
  EXPECT_EQ(cache_->used_bytes(), 900u);
  GOBLIN_ASSERT_OK(put(d));
  EXPECT_EQ(evicted_, Digests({b.digest}));
}

TEST_F(BlobCacheTest, LongUseCountsUntilItEnds) {
  open(1000);
  const Blob a(300, 1), b(300, 2), c(300, 3), d(300, 4);
  auto pin = put(a).value();
  GOBLIN_ASSERT_OK(put(b));
  GOBLIN_ASSERT_OK(put(c));
  pin.reset();
  GOBLIN_ASSERT_OK(put(d));
  EXPECT_EQ(evicted_, Digests({b.digest}));
}

TEST_F(BlobCacheTest, PinnedIsNeverEvicted) {
  open(1000);
  const Blob a(600, 1), b(300, 2), c(500, 3);
  auto pin = put(a).value();
  GOBLIN_ASSERT_OK(put(b));
  const auto refused = put(c);
  GOBLIN_EXPECT_CODE(Code::kExhausted, refused);
  EXPECT_NE(refused.error().message.find("600 bytes of its cap of 1000 bytes are in use"),
            std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(has(b)) << "nothing is evicted for a blob that does not fit anyway";
  EXPECT_EQ(read(*pin), a.bytes);
  pin.reset();
  GOBLIN_ASSERT_OK(put(c));
  EXPECT_EQ(evicted_, Digests({b.digest, a.digest}));
}

TEST_F(BlobCacheTest, LargerThanTheCapIsRefused) {
  open(1000);
  GOBLIN_ASSERT_OK(put(Blob(1000, 1)));
  const auto refused = put(Blob(1001, 2));
  GOBLIN_EXPECT_CODE(Code::kExhausted, refused);
  EXPECT_NE(refused.error().message.find("raise the cap"), std::string::npos);
  EXPECT_TRUE(evicted_.empty());
}

TEST_F(BlobCacheTest, RunningDownloadsCountWithTheirWholeSize) {
  open(1000);
  const Blob a(600, 1), b(600, 2);
  auto download = cache_->download(a.digest).value();
  GOBLIN_ASSERT_OK(download->sink()->begin(600));
  EXPECT_EQ(cache_->used_bytes(), 600u);
  GOBLIN_EXPECT_CODE(Code::kExhausted, put(b));
  download.reset();
  // What is left of it is worth less than a blob that is wanted, and is no blob to report.
  GOBLIN_ASSERT_OK(put(b));
  EXPECT_TRUE(evicted_.empty());
  EXPECT_EQ(cache_->used_bytes(), 600u);
  EXPECT_FALSE(std::filesystem::exists(file(a, ".part")));
}

TEST_F(BlobCacheTest, DownloadResumes) {
  open(1'000'000);
  const Blob blob(700'000);
  put_part(blob, 300'001);
  EXPECT_EQ(cache_->used_bytes(), 700'000u);
  EXPECT_EQ(cache_->download(blob.digest).value()->offset(), 300'001u);
  open(1'000'000);
  EXPECT_EQ(cache_->used_bytes(), 700'000u);
  EXPECT_EQ(cache_->download(blob.digest).value()->offset(), 300'001u);
  put_part(blob, 700'000);
  EXPECT_FALSE(has(blob));
  auto pin = put(blob);
  GOBLIN_ASSERT_OK(pin);
  EXPECT_EQ(read(**pin), blob.bytes);
}

TEST_F(BlobCacheTest, OneDownloadADigest) {
  open(1000);
  const Blob blob(100);
  auto first = cache_->download(blob.digest).value();
  GOBLIN_EXPECT_CODE(Code::kUnavailable, cache_->download(blob.digest));
  GOBLIN_ASSERT_OK(cache_->download(digest_of(9)));
  auto late = first->sink();
  first.reset();
  auto second = cache_->download(blob.digest);
  GOBLIN_ASSERT_OK(second);
  GOBLIN_EXPECT_CODE(Code::kCancelled, late->begin(100));
  GOBLIN_EXPECT_CODE(Code::kCancelled, late->write(0, blob.bytes));
  late.reset();
  GOBLIN_EXPECT_CODE(Code::kUnavailable, cache_->download(blob.digest));
  second->reset();
  GOBLIN_ASSERT_OK(put(blob));
  GOBLIN_EXPECT_CODE(Code::kUnavailable, cache_->download(blob.digest));
}

TEST_F(BlobCacheTest, IncompleteIsNotCommitted) {
  open(1000);
  const Blob blob(100);
  auto download = cache_->download(blob.digest).value();
  GOBLIN_EXPECT_CODE(Code::kUnavailable, download->commit());
  GOBLIN_ASSERT_OK(download->sink()->begin(100));
  GOBLIN_ASSERT_OK(download->sink()->write(0, wire::ByteView(blob.bytes).first(99)));
  const auto refused = download->commit();
  GOBLIN_EXPECT_CODE(Code::kUnavailable, refused);
  EXPECT_NE(refused.error().message.find("99 bytes of 100"), std::string::npos);
  GOBLIN_ASSERT_OK(download->sink()->write(99, wire::ByteView(blob.bytes).subspan(99)));
  GOBLIN_ASSERT_OK(download->commit());
  GOBLIN_EXPECT_CODE(Code::kCancelled, download->commit());
}

TEST_F(BlobCacheTest, SinkTakesOnlyWhatFollows) {
  open(1000);
  const Blob blob(100);
  auto download = cache_->download(blob.digest).value();
  auto sink = download->sink();
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, sink->write(0, blob.bytes));
  GOBLIN_ASSERT_OK(sink->begin(100));
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, sink->write(1, wire::ByteView(blob.bytes).first(1)));
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, sink->write(0, wire::Bytes(101)));
  GOBLIN_ASSERT_OK(sink->write(0, wire::ByteView(blob.bytes).first(60)));
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, sink->write(0, wire::ByteView(blob.bytes).first(60)));
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, sink->write(60, wire::Bytes(41)));
  GOBLIN_ASSERT_OK(sink->write(60, wire::ByteView(blob.bytes).subspan(60)));
  GOBLIN_ASSERT_OK(download->commit());
}

TEST_F(BlobCacheTest, SmallerCapEvictsAtOpening) {
  open(1000);
  const Blob a(300, 1), b(300, 2), c(300, 3);
  GOBLIN_ASSERT_OK(put(a));
  GOBLIN_ASSERT_OK(put(b));
  GOBLIN_ASSERT_OK(put(c));
  open(400);
  EXPECT_EQ(evicted_, Digests({b.digest, a.digest}));
  EXPECT_EQ(cache_->used_bytes(), 300u);
  EXPECT_TRUE(has(c));
}

TEST_F(BlobCacheTest, PinsAndDownloadsMayOutliveTheCache) {
  open(1000);
  const Blob a(300, 1), b(800, 2);
  auto pin = put(a).value();
  auto download = cache_->download(b.digest).value();
  cache_.reset();
  EXPECT_EQ(read(*pin), a.bytes);
  pin.reset();
  // Room is made without telling an owner that is gone.
  GOBLIN_ASSERT_OK(download->sink()->begin(800));
  EXPECT_TRUE(evicted_.empty());
  EXPECT_FALSE(std::filesystem::exists(file(a)));
}

TEST_F(BlobCacheTest, ManyThreads) {
  static constexpr std::uint64_t kCap = 40'000;
  open(kCap);
  std::vector<Blob> blobs;
  for (std::uint64_t i = 0; i < 12; ++i) {
    blobs.emplace_back(5'000 + 100 * i, i + 1);
  }
  std::atomic<int> hits = 0;
  std::vector<std::thread> threads;
  for (std::uint64_t id = 0; id < 4; ++id) {
    threads.emplace_back([this, id, &blobs, &hits] {
      Random random(id + 1);
      for (int i = 0; i < 400; ++i) {
        const Blob& blob = blobs[random.below(blobs.size())];
        auto pin = cache_->find(blob.digest);
        if (!pin) {
          pin = put(blob, 1000);
        } else {
          ++hits;
        }
        if (pin) {
          EXPECT_EQ(read(**pin), blob.bytes);
        } else {
          EXPECT_TRUE(pin.error().code == Code::kUnavailable ||
                      pin.error().code == Code::kExhausted)
              << pin.error().message;
        }
        EXPECT_LE(cache_->used_bytes(), kCap);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_GT(hits, 0);
  std::uint64_t on_disk = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    on_disk += entry.file_size();
  }
  EXPECT_LE(on_disk, cache_->used_bytes());
}

// Prints what docs quote; asserts nothing about time.
TEST_F(BlobCacheTest, Throughput) {
  open(128u << 20);
  const Blob blob(64u << 20);
  const std::clock_t start = std::clock();
  GOBLIN_ASSERT_OK(put(blob));
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("%.2f GB written and hashed in a second of processor time\n", 0.067108864 / seconds);
}

}  // namespace
}  // namespace goblin::store::test
