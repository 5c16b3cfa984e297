// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Commits are not fsynced: after a loss of power a blob may hold other bytes than it had. A blob
// that this process did not hash itself is therefore hashed when it is first used.
#include "core/store/blob_cache.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <variant>

#include "core/net/blob_hash.hpp"
#include "core/net/sha256.hpp"
#include "core/store/blob_shelf.hpp"
#include "core/store/files.hpp"

namespace goblin::store {
namespace {

// Written and hashed in turns of so many bytes, so that the second finds them in the cache.
constexpr std::size_t kTurnBytes = 256u << 10;
constexpr std::size_t kReadBytes = 1u << 20;

using EntryPtr = BlobShelf::EntryPtr;

/// The hash that names the blobs of one cache.
class NameHash {
 public:
  explicit NameHash(NamedBy names) {
    if (names == NamedBy::kSha256) {
      hash_.emplace<net::Sha256>();
    }
  }
  void update(wire::ByteView bytes) {
    std::visit([bytes](auto& hash) { hash.update(bytes); }, hash_);
  }
  /// Starts anew afterwards.
  wire::Digest finish() {
    return std::visit([](auto& hash) { return hash.finish(); }, hash_);
  }

 private:
  std::variant<net::BlobHash, net::Sha256> hash_;
};

class FilePin final : public BlobCache::Pin {
 public:
  FilePin(std::shared_ptr<BlobShelf> shelf, EntryPtr entry, net::UniqueFd fd)
      : shelf_(std::move(shelf)), entry_(std::move(entry)), fd_(std::move(fd)) {}
  ~FilePin() override { shelf_->release(entry_); }
  [[nodiscard]] int fd() const override { return fd_.get(); }
  [[nodiscard]] std::uint64_t size() const override { return entry_->size; }

 private:
  std::shared_ptr<BlobShelf> shelf_;
  EntryPtr entry_;
  net::UniqueFd fd_;
};

/// Hashes the first `size` bytes of a file.
Result<void> hash_file(int fd, std::uint64_t size, NameHash& hash) {
  wire::Bytes buffer(static_cast<std::size_t>(std::min<std::uint64_t>(size, kReadBytes)));
  for (std::uint64_t offset = 0; offset < size; offset += buffer.size()) {
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), size - offset));
    const std::span<std::byte> chunk(buffer.data(), count);
    GOBLIN_TRY_VOID(read_all(fd, chunk, offset));
    hash.update(chunk);
  }
  return {};
}

/// The sink and the download share it: a fetch may outlive the Download that it belongs to.
class Arrival final : public net::BlobSink {
 public:
  Arrival(std::shared_ptr<BlobShelf> shelf, NamedBy names, const wire::Digest& digest)
      : shelf_(std::move(shelf)), digest_(digest), hash_(names) {}
  ~Arrival() override { close(); }
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  /// Takes over the part of an earlier try (with its hold). A part that cannot be read is dropped.
  void resume(EntryPtr part) {
    const std::lock_guard lock(mutex_);
    entry_ = std::move(part);
    auto fd = shelf_->open_part(entry_);
    struct stat info {};
    if (fd && ::fstat(fd->get(), &info) == 0 &&
        static_cast<std::uint64_t>(info.st_size) <= entry_->size &&
        hash_file(fd->get(), static_cast<std::uint64_t>(info.st_size), hash_)) {
      fd_ = std::move(*fd);
      written_ = static_cast<std::uint64_t>(info.st_size);
      return;
    }
    discard();
  }

  [[nodiscard]] std::uint64_t offset() const {
    const std::lock_guard lock(mutex_);
    return written_;
  }

  Result<void> begin(std::uint64_t size) override {
    const std::lock_guard lock(mutex_);
    if (closed_) {
      return fail(closed());
    }
    if (entry_ == nullptr) {
      GOBLIN_TRY(auto part, shelf_->make_part(digest_, size));
      entry_ = std::move(part.first);
      fd_ = std::move(part.second);
      return {};
    }
    if (entry_->size != size) {
      const std::uint64_t before = entry_->size;
      discard();
      return fail(Code::kInvalidArgument, "blob " + digest_.hex() + " has " + std::to_string(size) +
                                              " bytes now and had " + std::to_string(before) +
                                              " when its download began; download it anew");
    }
    return {};
  }

  Result<void> write(std::uint64_t offset, wire::ByteView bytes) override {
    const std::lock_guard lock(mutex_);
    if (closed_) {
      return fail(closed());
    }
    if (entry_ == nullptr) {
      return fail(Code::kInvalidArgument, "write before begin for blob " + digest_.hex());
    }
    if (offset != written_ || bytes.size() > entry_->size - written_) {
      return fail(Code::kInvalidArgument, std::to_string(bytes.size()) + " bytes at offset " +
                                              std::to_string(offset) + " of blob " + digest_.hex() +
                                              ", expected offset " + std::to_string(written_) +
                                              " and at most " +
                                              std::to_string(entry_->size - written_) + " bytes");
    }
    while (!bytes.empty()) {
      const wire::ByteView turn = bytes.first(std::min(bytes.size(), kTurnBytes));
      if (auto done = write_all(fd_.get(), turn, written_); !done) {
        // A short write may have left bytes that are not hashed: the file ends where the hash does.
        (void)::ftruncate(fd_.get(), static_cast<off_t>(written_));
        return fail(shelf_->noted(
            done.error().with_context("cache directory '" + shelf_->path() + "'"), entry_->size));
      }
      hash_.update(turn);
      written_ += turn.size();
      bytes = bytes.subspan(turn.size());
    }
    return {};
  }

  Result<std::shared_ptr<BlobCache::Pin>> commit() {
    const std::lock_guard lock(mutex_);
    if (closed_) {
      return fail(closed());
    }
    if (entry_ == nullptr || written_ != entry_->size) {
      return fail(Code::kUnavailable,
                  "blob " + digest_.hex() + " is not complete: " + std::to_string(written_) +
                      " bytes of " +
                      (entry_ == nullptr ? "an unknown number" : std::to_string(entry_->size)) +
                      " are here; fetch the rest");
    }
    const wire::Digest actual = hash_.finish();
    if (actual != digest_) {
      discard();
      return fail(Code::kCorrupt, "the bytes that arrived for blob " + digest_.hex() +
                                      " have the digest " + actual.hex() +
                                      "; they are dropped, fetch them again or elsewhere");
    }
    closed_ = true;
    auto fd = shelf_->promote(entry_);
    shelf_->end_download(digest_);
    if (!fd) {
      drop_hold();
      return fail(fd.error());
    }
    auto pin = std::make_shared<FilePin>(shelf_, std::exchange(entry_, nullptr), std::move(*fd));
    return pin;
  }

  /// The Download is gone: what a fetch still brings is refused; the part stays for a later try.
  void close() {
    const std::lock_guard lock(mutex_);
    drop_hold();
    if (!std::exchange(closed_, true)) {
      shelf_->end_download(digest_);
    }
  }

 private:
  [[nodiscard]] Error closed() const {
    return {Code::kCancelled, "the download of blob " + digest_.hex() + " has ended"};
  }
  void drop_hold() {
    fd_.reset();
    if (entry_ != nullptr) {
      shelf_->release(std::exchange(entry_, nullptr));
    }
  }
  /// The part's bytes are of no use: the next begin() makes a new one.
  void discard() {
    shelf_->discard(entry_);
    drop_hold();
    written_ = 0;
    (void)hash_.finish();
  }

  const std::shared_ptr<BlobShelf> shelf_;
  const wire::Digest digest_;
  mutable std::mutex mutex_;
  EntryPtr entry_;
  net::UniqueFd fd_;
  std::uint64_t written_ = 0;
  NameHash hash_;
  bool closed_ = false;
};

class FileDownload final : public BlobCache::Download {
 public:
  explicit FileDownload(std::shared_ptr<Arrival> arrival) : arrival_(std::move(arrival)) {}
  ~FileDownload() override { arrival_->close(); }
  [[nodiscard]] std::uint64_t offset() const override { return arrival_->offset(); }
  [[nodiscard]] std::shared_ptr<net::BlobSink> sink() override { return arrival_; }
  Result<std::shared_ptr<BlobCache::Pin>> commit() override { return arrival_->commit(); }

 private:
  std::shared_ptr<Arrival> arrival_;
};

class DiskCache final : public BlobCache {
 public:
  DiskCache(std::shared_ptr<BlobShelf> shelf, NamedBy names)
      : shelf_(std::move(shelf)), names_(names) {}
  ~DiskCache() override { shelf_->detach(); }

  Result<std::shared_ptr<Pin>> find(const wire::Digest& digest) override {
    GOBLIN_TRY(BlobShelf::Found found, shelf_->find(digest));
    if (found.pin != nullptr) {
      return found.pin;
    }
    auto pin = std::make_shared<FilePin>(shelf_, found.entry, std::move(found.fd));
    if (!found.verified) {
      NameHash hash(names_);
      auto hashed = hash_file(pin->fd(), pin->size(), hash);
      if (!hashed || hash.finish() != digest) {
        shelf_->discard(found.entry);
        return fail(BlobShelf::not_here(digest));
      }
    }
    shelf_->set_verified(found.entry, pin);
    return pin;
  }

  [[nodiscard]] bool unverified(const wire::Digest& digest) const override {
    return shelf_->unverified(digest);
  }

  Result<std::unique_ptr<Download>> download(const wire::Digest& digest) override {
    GOBLIN_TRY(EntryPtr part, shelf_->begin_download(digest));
    auto arrival = std::make_shared<Arrival>(shelf_, names_, digest);
    if (part != nullptr) {
      arrival->resume(std::move(part));
    }
    return std::make_unique<FileDownload>(std::move(arrival));
  }

  [[nodiscard]] bool looks_sound() const override { return shelf_->looks_sound(); }
  [[nodiscard]] std::optional<Error> trouble() const override { return shelf_->trouble(); }
  Result<Mended> mend() override { return shelf_->mend(); }
  [[nodiscard]] std::uint64_t used_bytes() const override { return shelf_->used(); }
  [[nodiscard]] std::uint64_t cap_bytes() const override { return shelf_->cap(); }

 private:
  const std::shared_ptr<BlobShelf> shelf_;
  const NamedBy names_;
};

}  // namespace

Result<std::unique_ptr<BlobCache>> BlobCache::open(
    const std::string& directory, NamedBy names, std::uint64_t cap_bytes,
    std::function<void(const wire::Digest&)> on_evicted) {
  GOBLIN_TRY(auto fd, open_owned_directory(directory, "cache directory"));
  auto shelf =
      std::make_shared<BlobShelf>(directory, std::move(fd), cap_bytes, std::move(on_evicted));
  GOBLIN_TRY_VOID(shelf->load());
  return std::make_unique<DiskCache>(std::move(shelf), names);
}

}  // namespace goblin::store
