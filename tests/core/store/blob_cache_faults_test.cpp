// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Wrong bytes, damaged files, crashes, full disks.
#include <set>

#include "tests/core/store/blob_fixture.hpp"

namespace goblin::store::test {
namespace {

using Digests = std::vector<wire::Digest>;

TEST_F(BlobCacheTest, WrongBytesAreDropped) {
  open(1000);
  const Blob right(100, 1), wrong(100, 2);
  auto download = cache_->download(right.digest).value();
  GOBLIN_ASSERT_OK(download->sink()->begin(100));
  GOBLIN_ASSERT_OK(download->sink()->write(0, wrong.bytes));
  const auto refused = download->commit();
  GOBLIN_EXPECT_CODE(Code::kCorrupt, refused);
  EXPECT_NE(refused.error().message.find(right.digest.hex()), std::string::npos);
  EXPECT_NE(refused.error().message.find(wrong.digest.hex()), std::string::npos);
  EXPECT_EQ(cache_->used_bytes(), 0u);
  EXPECT_FALSE(has(right));
  EXPECT_FALSE(has(wrong));
  EXPECT_TRUE(evicted_.empty());
  // The same download starts anew, as does another one.
  EXPECT_EQ(download->offset(), 0u);
  GOBLIN_ASSERT_OK(download->sink()->begin(100));
  GOBLIN_ASSERT_OK(download->sink()->write(0, right.bytes));
  GOBLIN_ASSERT_OK(download->commit());
  EXPECT_TRUE(has(right));
}

TEST_F(BlobCacheTest, DamagedPartIsFoundAtTheEnd) {
  open(1000);
  const Blob blob(100);
  put_part(blob, 50);
  cache_.reset();
  damage(file(blob, ".part"), 20);
  open(1000);
  GOBLIN_EXPECT_CODE(Code::kCorrupt, put(blob));
  EXPECT_FALSE(std::filesystem::exists(file(blob, ".part")));
  GOBLIN_ASSERT_OK(put(blob));
}

TEST_F(BlobCacheTest, PeerThatNamesAnotherSizeStartsAnew) {
  open(1000);
  const Blob blob(100);
  put_part(blob, 50);
  auto download = cache_->download(blob.digest).value();
  EXPECT_EQ(download->offset(), 50u);
  const auto refused = download->sink()->begin(99);
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, refused);
  EXPECT_NE(refused.error().message.find("download it anew"), std::string::npos);
  EXPECT_EQ(download->offset(), 0u);
  download.reset();
  EXPECT_EQ(cache_->used_bytes(), 0u);
  GOBLIN_ASSERT_OK(put(blob));
}

TEST_F(BlobCacheTest, DamageAfterARestartIsFoundAtFirstUse) {
  open(1000);
  const Blob blob(300);
  GOBLIN_ASSERT_OK(put(blob));
  cache_.reset();
  damage(file(blob), 299, 1);
  open(1000);
  EXPECT_EQ(cache_->used_bytes(), 300u);
  EXPECT_TRUE(cache_->unverified(blob.digest));
  GOBLIN_EXPECT_CODE(Code::kNotFound, cache_->find(blob.digest));
  EXPECT_FALSE(cache_->unverified(blob.digest));
  EXPECT_EQ(evicted_, Digests({blob.digest}));
  EXPECT_EQ(cache_->used_bytes(), 0u);
  EXPECT_FALSE(std::filesystem::exists(file(blob)));
  GOBLIN_ASSERT_OK(put(blob));
}

TEST_F(BlobCacheTest, WrongLengthIsFoundAtEveryUse) {
  open(1000);
  const Blob blob(300);
  GOBLIN_ASSERT_OK(put(blob));
  ASSERT_EQ(::chmod(file(blob).c_str(), 0600), 0);
  std::filesystem::resize_file(file(blob), 299);
  GOBLIN_EXPECT_CODE(Code::kNotFound, cache_->find(blob.digest));
  EXPECT_EQ(evicted_, Digests({blob.digest}));
  EXPECT_EQ(cache_->used_bytes(), 0u);
  GOBLIN_ASSERT_OK(put(blob));
  std::filesystem::remove(file(blob));
  GOBLIN_EXPECT_CODE(Code::kNotFound, cache_->find(blob.digest));
  EXPECT_EQ(cache_->used_bytes(), 0u);
}

TEST_F(BlobCacheTest, OpeningDropsWrongLengthsAndLeavesOtherFiles) {
  open(1000);
  const Blob shorter(100, 1), part(100, 2), good(100, 3);
  GOBLIN_ASSERT_OK(put(shorter));
  GOBLIN_ASSERT_OK(put(good));
  put_part(part, 50);
  cache_.reset();
  ASSERT_EQ(::chmod(file(shorter).c_str(), 0600), 0);
  std::filesystem::resize_file(file(shorter), 10);
  std::filesystem::resize_file(file(part, ".part"), 101);
  spill(path_ + "/readme", "mine");
  spill(path_ + "/" + good.digest.hex() + "-007.blob", "mine");
  open(1000);
  EXPECT_EQ(cache_->used_bytes(), 100u);
  EXPECT_FALSE(std::filesystem::exists(file(shorter)));
  EXPECT_FALSE(std::filesystem::exists(file(part, ".part")));
  EXPECT_TRUE(has(good));
  EXPECT_EQ(slurp(path_ + "/readme"), "mine");
  EXPECT_EQ(slurp(path_ + "/" + good.digest.hex() + "-007.blob"), "mine");
}

TEST_F(BlobCacheTest, PartsThatNameAnySizeAreWithinTheCap) {
  open(1000);
  const Blob good(600, 1), small(300, 2), huge(100, 3), other(100, 4);
  GOBLIN_ASSERT_OK(put(good));
  const auto forge = [this](const Blob& blob, const std::string& size) {
    spill(path_ + "/" + blob.digest.hex() + "-" + size + ".part", "x");
  };
  forge(huge, "18446744073709551000");
  forge(other, "1500");  // with the other one 884 bytes, if sizes could overflow
  open(1000);
  EXPECT_EQ(cache_->used_bytes(), 600u);
  GOBLIN_ASSERT_OK(put(small));
  EXPECT_EQ(cache_->used_bytes(), 900u);
  EXPECT_TRUE(has(good));
  GOBLIN_ASSERT_OK(put(huge));
  EXPECT_EQ(cache_->used_bytes(), 1000u);
}

TEST_F(BlobCacheTest, TimesStillToComeAreNoOrder) {
  open(1000);
  const Blob a(300, 1), b(300, 2), c(300, 3), d(300, 4);
  for (const Blob* blob : {&a, &b, &c}) {
    GOBLIN_ASSERT_OK(put(*blob));
  }
  cache_.reset();
  const timespec far[2] = {{1LL << 40, 0}, {1LL << 40, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, file(a).c_str(), far, 0), 0);
  open(1000);
  EXPECT_TRUE(has(a));
  EXPECT_TRUE(has(b));
  EXPECT_TRUE(has(c));
  GOBLIN_ASSERT_OK(put(d));
  EXPECT_EQ(evicted_, Digests({a.digest}));
}

TEST_F(BlobCacheTest, SymbolicLinkIsNoBlob) {
  open(1000);
  const Blob blob(100);
  GOBLIN_ASSERT_OK(put(blob));
  std::filesystem::rename(file(blob), directory_ / "elsewhere");
  std::filesystem::create_symlink(directory_ / "elsewhere", file(blob));
  GOBLIN_EXPECT_CODE(Code::kNotFound, cache_->find(blob.digest));
}

TEST_F(BlobCacheTest, DownloadGoesOnAfterAKill) {
  const Blob blob(2'000'000);
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::uint64_t acknowledged = 0;
    while (acknowledged < blob.bytes.size()) {
      Child child([&](int fd) {
        open(4'000'000);
        auto download = cache_->download(blob.digest);
        if (!download || !(*download)->sink()->begin(blob.bytes.size())) {
          ::_exit(1);
        }
        std::uint64_t at = (*download)->offset();
        Child::write(fd, at);
        while (at < blob.bytes.size()) {
          const auto piece =
              wire::ByteView(blob.bytes)
                  .subspan(at, std::min<std::size_t>(10'000, blob.bytes.size() - at));
          if (!(*download)->sink()->write(at, piece)) {
            ::_exit(1);
          }
          at += piece.size();
          Child::write(fd, at);
        }
        ::pause();
      });
      std::uint64_t at = 0;
      ASSERT_TRUE(child.read(at)) << "the download cannot be resumed";
      ASSERT_GE(at, acknowledged) << "bytes that had arrived are lost";
      acknowledged = at;
      for (std::uint64_t i = random.below(120); i > 0 && acknowledged < blob.bytes.size(); --i) {
        ASSERT_TRUE(child.read(acknowledged));
      }
      child.kill();
    }
    open(4'000'000);
    auto pin = put(blob);
    GOBLIN_ASSERT_OK(pin);
    EXPECT_EQ(read(**pin), blob.bytes);
    pin->reset();
    cache_.reset();
    std::filesystem::remove_all(path_);
  }
}

TEST_F(BlobCacheTest, DirectoryThatVanishedIsMadeAgain) {
  open(1000);
  const Blob kept(300, 1), lost(200, 2), half(100, 3);
  const auto pin = put(kept);
  GOBLIN_ASSERT_OK(pin);
  GOBLIN_ASSERT_OK(put(lost));
  auto download = cache_->download(half.digest).value();
  GOBLIN_ASSERT_OK(download->sink()->begin(100));
  EXPECT_TRUE(cache_->looks_sound());
  std::filesystem::remove_all(path_);
  EXPECT_FALSE(cache_->looks_sound());
  const Blob other(50, 4);
  EXPECT_FALSE(put(other));
  const auto trouble = cache_->trouble();
  ASSERT_TRUE(trouble);
  EXPECT_NE(trouble->message.find(path_), std::string::npos) << trouble->message;

  const auto mended = cache_->mend();
  GOBLIN_ASSERT_OK(mended);
  EXPECT_EQ(*mended, BlobCache::Mended::kAnew);
  EXPECT_FALSE(cache_->trouble());
  EXPECT_TRUE(cache_->looks_sound());
  EXPECT_EQ(std::set(evicted_.begin(), evicted_.end()), std::set({kept.digest, lost.digest}));
  EXPECT_EQ(read(**pin), kept.bytes) << "what is pinned can be read";
  // What was under way says so, and can be fetched again.
  GOBLIN_ASSERT_OK(download->sink()->write(0, half.bytes));
  GOBLIN_EXPECT_CODE(Code::kUnavailable, download->commit());
  EXPECT_TRUE(cache_->trouble());
  GOBLIN_ASSERT_OK(cache_->mend());
  download.reset();
  GOBLIN_ASSERT_OK(put(half));
  GOBLIN_ASSERT_OK(put(kept));
  GOBLIN_ASSERT_OK(put(other));
  EXPECT_EQ(cache_->used_bytes(), 100u + 300 + 50 + 300) << "the pinned one takes its room still";
}

TEST_F(BlobCacheTest, DirectoryThatCameBackHoldsWhatIsBeingDownloaded) {
  open(1000);
  const Blob blob(300, 1), half(200, 2), more(700, 3);
  GOBLIN_ASSERT_OK(put(blob));
  put_part(half, 100);
  const std::string away = directory_ / "away";
  std::filesystem::rename(path_, away);
  GOBLIN_ASSERT_OK(cache_->mend());
  const auto whole = cache_->download(blob.digest).value();
  const auto rest = cache_->download(half.digest).value();
  std::filesystem::remove_all(path_);
  std::filesystem::rename(away, path_);
  GOBLIN_ASSERT_OK(cache_->mend());
  for (const auto& [download, wanted] : {std::pair(whole.get(), &blob), {rest.get(), &half}}) {
    GOBLIN_ASSERT_OK(download->sink()->begin(wanted->bytes.size()));
    GOBLIN_ASSERT_OK(download->sink()->write(0, wanted->bytes));
    const auto pin = download->commit();
    GOBLIN_ASSERT_OK(pin);
    EXPECT_EQ(read(**pin), wanted->bytes);
  }
  EXPECT_EQ(cache_->used_bytes(), 500u) << "each counts once";
  EXPECT_TRUE(has(blob));
  GOBLIN_ASSERT_OK(put(more));
  EXPECT_EQ(cache_->used_bytes(), 1000u);
  EXPECT_FALSE(has(half));
  EXPECT_TRUE(has(blob));
}

TEST_F(BlobCacheTest, MendingASoundDirectoryLosesNothing) {
  open(1000);
  const Blob blob(300);
  GOBLIN_ASSERT_OK(put(blob));
  const auto mended = cache_->mend();
  GOBLIN_ASSERT_OK(mended);
  EXPECT_EQ(*mended, BlobCache::Mended::kSame);
  EXPECT_TRUE(has(blob));
  EXPECT_TRUE(evicted_.empty());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path_), {}), 1);
}

TEST_F(BlobCacheTest, DirectoryThatCannotBeMadeAgainSaysWhy) {
  open(1000);
  const Blob blob(300);
  GOBLIN_ASSERT_OK(put(blob));
  std::filesystem::rename(path_, directory_ / "aside");
  spill(path_, "mine");
  for (int i = 0; i < 2; ++i) {
    const auto refused = cache_->mend();
    GOBLIN_EXPECT_CODE(Code::kInvalidArgument, refused);
    EXPECT_NE(refused.error().message.find("is a file"), std::string::npos);
    EXPECT_TRUE(cache_->trouble());
    EXPECT_FALSE(has(blob));
    EXPECT_EQ(evicted_, Digests({blob.digest}));
  }
  EXPECT_EQ(slurp(path_), "mine");
  // The directory comes back with what it holds.
  std::filesystem::remove(path_);
  std::filesystem::rename(directory_ / "aside", path_);
  GOBLIN_ASSERT_OK(cache_->mend());
  EXPECT_TRUE(has(blob));
  EXPECT_FALSE(cache_->trouble());
}

TEST_F(BlobCacheTest, FullDiskIsTroubleUntilThereIsRoom) {
  const TinyDisk disk(1u << 20);
  if (!disk.mounted()) {
    GTEST_SKIP() << "needs the right to mount";
  }
  path_ = disk / "cache";
  open(100u << 20);
  spill(disk / "foreign", std::string(800'000, 'x'));
  const Blob blob(600'000);
  GOBLIN_EXPECT_CODE(Code::kExhausted, put(blob));
  EXPECT_TRUE(cache_->trouble());
  const auto refused = cache_->mend();
  GOBLIN_EXPECT_CODE(Code::kExhausted, refused);
  EXPECT_NE(refused.error().message.find("free space"), std::string::npos);
  std::filesystem::remove(disk / "foreign");
  GOBLIN_ASSERT_OK(cache_->mend());
  EXPECT_FALSE(cache_->trouble());
  GOBLIN_ASSERT_OK(put(blob));
  cache_.reset();
}

TEST_F(BlobCacheTest, ABlobOverTheCapIsNoTroubleOfTheDisk) {
  open(1000);
  GOBLIN_EXPECT_CODE(Code::kExhausted, put(Blob(1001)));
  EXPECT_FALSE(cache_->trouble());
}

TEST_F(BlobCacheTest, OneProcessADirectory) {
  open(1000);
  const auto second = BlobCache::open(path_, NamedBy::kBlake3, 1000, nullptr);
  GOBLIN_EXPECT_CODE(Code::kUnavailable, second);
  EXPECT_NE(second.error().message.find(path_), std::string::npos);
  cache_.reset();
  GOBLIN_ASSERT_OK(BlobCache::open(path_, NamedBy::kBlake3, 1000, nullptr));
}

TEST_F(BlobCacheTest, WriteThatFailsLeavesAPartThatGoesOn) {
  open(100'000'000);
  const Blob blob(3'000'000);
  {
    auto download = cache_->download(blob.digest).value();
    GOBLIN_ASSERT_OK(download->sink()->begin(blob.bytes.size()));
    const FileSizeLimit limit(1'000'001);
    const auto refused = download->sink()->write(0, blob.bytes);
    GOBLIN_EXPECT_CODE(Code::kExhausted, refused);
    EXPECT_NE(refused.error().message.find(path_), std::string::npos) << refused.error().message;
    EXPECT_GT(download->offset(), 0u);
    EXPECT_LE(download->offset(), 1'000'001u);
  }
  auto pin = put(blob);
  GOBLIN_ASSERT_OK(pin);
  EXPECT_EQ(read(**pin), blob.bytes);
}

TEST_F(BlobCacheTest, FullFileSystemGivesWayToWhatIsWanted) {
  const TinyDisk disk(1u << 20);
  if (!disk.mounted()) {
    GTEST_SKIP() << "needs the right to mount";
  }
  path_ = disk / "cache";
  open(100u << 20);
  const Blob a(400'000, 1), b(400'000, 2), c(500'000, 3), d(2'000'000, 4);
  GOBLIN_ASSERT_OK(put(a));
  GOBLIN_ASSERT_OK(put(b));
  GOBLIN_ASSERT_OK(put(c));
  EXPECT_EQ(evicted_, Digests({a.digest}));
  const auto refused = put(d);
  GOBLIN_EXPECT_CODE(Code::kExhausted, refused);
  EXPECT_NE(refused.error().message.find("are free there"), std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(has(b));
  EXPECT_TRUE(has(c));
  cache_.reset();
}

}  // namespace
}  // namespace goblin::store::test
