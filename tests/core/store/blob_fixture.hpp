// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Blobs and a cache for tests.
#pragma once

#include "core/net/blob_hash.hpp"
#include "core/store/blob_cache.hpp"
#include "tests/core/store/support.hpp"

namespace goblin::store::test {

struct Blob {
  explicit Blob(std::size_t size, std::uint64_t seed = 1)
      : bytes(random_bytes(size, seed)), digest(net::blob_digest(bytes)) {}
  wire::Bytes bytes;
  wire::Digest digest;
};

class BlobCacheTest : public ::testing::Test {
 protected:
  void open(std::uint64_t cap, NamedBy names = NamedBy::kBlake3) {
    cache_.reset();
    evicted_.clear();
    auto opened = BlobCache::open(
        path_, names, cap, [this](const wire::Digest& digest) { evicted_.push_back(digest); });
    GOBLIN_ASSERT_OK(opened);
    cache_ = std::move(*opened);
  }

  /// Downloads a blob, from where an earlier try stopped, in pieces of `step` bytes.
  Result<std::shared_ptr<BlobCache::Pin>> put(const Blob& blob, std::size_t step = 1u << 20) {
    GOBLIN_TRY(auto download, cache_->download(blob.digest));
    const std::uint64_t start = download->offset();
    GOBLIN_TRY_VOID(download->sink()->begin(blob.bytes.size()));
    for (std::size_t at = start; at < blob.bytes.size(); at += step) {
      const auto piece =
          wire::ByteView(blob.bytes).subspan(at, std::min(step, blob.bytes.size() - at));
      GOBLIN_TRY_VOID(download->sink()->write(at, piece));
    }
    return download->commit();
  }

  /// The first `count` bytes arrive, then the download ends.
  void put_part(const Blob& blob, std::size_t count) {
    auto download = cache_->download(blob.digest);
    GOBLIN_ASSERT_OK(download);
    GOBLIN_ASSERT_OK((*download)->sink()->begin(blob.bytes.size()));
    const std::uint64_t start = (*download)->offset();
    GOBLIN_ASSERT_OK((*download)->sink()->write(
        start, wire::ByteView(blob.bytes).subspan(start, count - start)));
  }

  static wire::Bytes read(const BlobCache::Pin& pin) {
    wire::Bytes bytes(pin.size());
    EXPECT_EQ(::pread(pin.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    return bytes;
  }
  [[nodiscard]] std::string file(const Blob& blob, const std::string& suffix = ".blob") const {
    return path_ + "/" + blob.digest.hex() + "-" + std::to_string(blob.bytes.size()) + suffix;
  }
  [[nodiscard]] bool has(const Blob& blob) { return cache_->find(blob.digest).has_value(); }

  TempDir directory_;
  std::string path_ = directory_ / "cache";
  std::vector<wire::Digest> evicted_;
  std::unique_ptr<BlobCache> cache_;
};

}  // namespace goblin::store::test
