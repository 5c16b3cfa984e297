// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/store/blob_shelf.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>

#include "core/store/files.hpp"

namespace goblin::store {
namespace {

constexpr std::size_t kHexDigits = 64;
constexpr std::string_view kBlobSuffix = ".blob";
constexpr std::string_view kPartSuffix = ".part";

std::optional<ShelfEntry> parse_name(std::string_view name) {
  ShelfEntry entry;
  entry.part = name.ends_with(kPartSuffix);
  if ((!entry.part && !name.ends_with(kBlobSuffix)) || name.size() <= kHexDigits + 6 ||
      name[kHexDigits] != '-') {
    return std::nullopt;
  }
  const auto digest = wire::Digest::from_hex(name.substr(0, kHexDigits));
  const std::string_view digits =
      name.substr(kHexDigits + 1, name.size() - kHexDigits - 1 - kBlobSuffix.size());
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), entry.size);
  if (!digest || error != std::errc() || end != digits.data() + digits.size()) {
    return std::nullopt;
  }
  entry.digest = *digest;
  // Upper-case digits or leading zeros would be another name for the same blob.
  return entry.name() == name ? std::optional(entry) : std::nullopt;
}

/// Some file systems keep times of 64 bits of seconds, which no count of nanoseconds can hold.
std::int64_t nanoseconds(const timespec& time) {
  constexpr std::int64_t kMaxSeconds = 9'000'000'000;
  const auto seconds = std::clamp<std::int64_t>(time.tv_sec, -kMaxSeconds, kMaxSeconds);
  return seconds * 1'000'000'000LL + time.tv_nsec;
}

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return nanoseconds(now);
}

}  // namespace

std::string ShelfEntry::name() const {
  return digest.hex() + "-" + std::to_string(size) + std::string(part ? kPartSuffix : kBlobSuffix);
}

BlobShelf::BlobShelf(std::string path, net::UniqueFd directory, std::uint64_t cap_bytes,
                     std::function<void(const wire::Digest&)> on_evicted)
    : path_(std::move(path)),
      directory_(std::move(directory)),
      cap_(cap_bytes),
      on_evicted_(std::move(on_evicted)) {}

Result<void> BlobShelf::load() {
  const std::lock_guard lock(mutex_);
  return load_locked();
}

Result<void> BlobShelf::load_locked() {
  std::vector<std::string> unwanted;
  std::vector<EntryPtr> here;
  const std::int64_t now = now_ns();
  auto listed = visit_files(directory_.get(), [&](const std::string& name) {
    auto entry = parse_name(name);
    struct stat info {};
    if (!entry || ::fstatat(directory_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      return;
    }
    const auto length = static_cast<std::uint64_t>(info.st_size);
    if (entry->part ? length > entry->size : length != entry->size) {
      unwanted.push_back(name);
      return;
    }
    // A time still to come says nothing of the last use.
    entry->used_ns = std::min(nanoseconds(info.st_mtim), now);
    here.push_back(std::make_shared<Entry>(*entry));
  });
  if (!listed) {
    return fail(listed.error().with_context("cache directory '" + path_ + "'"));
  }
  // What was used last stays, as far as the cap goes. A part's name says any size: sizes are
  // compared with what is left, never added up before.
  std::sort(here.begin(), here.end(), [](const EntryPtr& left, const EntryPtr& right) {
    return order_key(*left) > order_key(*right);
  });
  for (const EntryPtr& entry : here) {
    if (entry->size > cap_ - used_ || (entry->part ? parts_ : blobs_).contains(entry->digest)) {
      unwanted.push_back(entry->name());
      if (!entry->part && on_evicted_) {
        on_evicted_(entry->digest);
      }
    } else {
      insert(entry);
    }
  }
  for (const std::string& name : unwanted) {
    ::unlinkat(directory_.get(), name.c_str(), 0);
  }
  return {};
}

void BlobShelf::detach() {
  const std::lock_guard lock(mutex_);
  on_evicted_ = nullptr;
}

std::uint64_t BlobShelf::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

void BlobShelf::release(const EntryPtr& entry) {
  const std::lock_guard lock(mutex_);
  if (--entry->holders != 0) {
    return;
  }
  held_ -= entry->size;
  if (entry->dropped) {
    used_ -= entry->size;
    return;
  }
  stamp(*entry);
  order_.emplace(order_key(*entry), entry);
}

Result<BlobShelf::Found> BlobShelf::find(const wire::Digest& digest) {
  const std::lock_guard lock(mutex_);
  const auto at = blobs_.find(digest);
  if (at == blobs_.end()) {
    return fail(not_here(digest));
  }
  const EntryPtr entry = at->second;
  Found found;
  found.pin = entry->pin.lock();
  if (found.pin == nullptr) {
    GOBLIN_TRY(found.fd, open_blob(entry));
    hold(entry);
    found.entry = entry;
    found.verified = entry->verified;
  }
  stamp(*entry);
  return found;
}

bool BlobShelf::unverified(const wire::Digest& digest) const {
  const std::lock_guard lock(mutex_);
  const auto at = blobs_.find(digest);
  return at != blobs_.end() && !at->second->verified && at->second->pin.expired();
}

void BlobShelf::set_verified(const EntryPtr& entry, const std::shared_ptr<BlobCache::Pin>& pin) {
  const std::lock_guard lock(mutex_);
  entry->verified = true;
  entry->pin = pin;
}

void BlobShelf::discard(const EntryPtr& entry) {
  const std::lock_guard lock(mutex_);
  drop(entry);
}

Error BlobShelf::not_here(const wire::Digest& digest) {
  return {Code::kNotFound, "blob " + digest.hex() + " is not in the cache"};
}

Result<BlobShelf::EntryPtr> BlobShelf::begin_download(const wire::Digest& digest) {
  const std::lock_guard lock(mutex_);
  if (blobs_.contains(digest)) {
    return fail(Code::kUnavailable,
                "blob " + digest.hex() + " is in the cache already; find it again");
  }
  if (!downloads_.insert(digest).second) {
    return fail(Code::kUnavailable,
                "blob " + digest.hex() + " is being downloaded already; wait for that");
  }
  const auto at = parts_.find(digest);
  if (at == parts_.end()) {
    return EntryPtr();
  }
  hold(at->second);
  return at->second;
}

void BlobShelf::end_download(const wire::Digest& digest) {
  const std::lock_guard lock(mutex_);
  downloads_.erase(digest);
}

Result<std::pair<BlobShelf::EntryPtr, net::UniqueFd>> BlobShelf::make_part(
    const wire::Digest& digest, std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  drop_other(parts_, digest);
  GOBLIN_TRY_VOID(make_room(size));  // the cap: no trouble of the disk
  auto entry = std::make_shared<Entry>();
  entry->digest = digest;
  entry->size = size;
  entry->part = true;
  ::unlinkat(directory_.get(), entry->name().c_str(), 0);  // one that could not be removed once
  net::UniqueFd fd(::openat(directory_.get(), entry->name().c_str(),
                            O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) {
    return fail(
        note(disk_error("cannot make a part file in cache directory '" + path_ + "'", errno)));
  }
  for (;;) {
    auto allocated = allocate_blocks(fd.get(), size, true);
    if (allocated) {
      break;
    }
    // The disk is fuller than the cap foresaw: what is cached is worth less than what is wanted,
    // but only if it makes the room.
    const std::uint64_t free = free_bytes(directory_.get());
    if (allocated.error().code != Code::kExhausted || order_.empty() || free >= size ||
        free + (used_ - held_) < size) {
      ::unlinkat(directory_.get(), entry->name().c_str(), 0);
      return fail(note(allocated.error().with_context("cache directory '" + path_ + "'"), size));
    }
    drop(oldest());
  }
  trouble_.reset();
  insert(entry);
  hold(entry);
  return std::pair(entry, std::move(fd));
}

Result<net::UniqueFd> BlobShelf::open_part(const EntryPtr& entry) {
  const std::lock_guard lock(mutex_);
  net::UniqueFd fd(
      ::openat(directory_.get(), entry->name().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) {
    return fail(
        note(disk_error("cannot open a part file in cache directory '" + path_ + "'", errno)));
  }
  return fd;
}

Result<net::UniqueFd> BlobShelf::promote(const EntryPtr& entry) {
  const std::lock_guard lock(mutex_);
  if (entry->dropped) {
    return fail(note({Code::kUnavailable, "blob " + entry->digest.hex() + " arrived in a cache '" +
                                              path_ + "' that has gone; fetch it again"}));
  }
  drop_other(blobs_, entry->digest);
  const std::string old_name = entry->name();
  Entry blob = *entry;
  blob.part = false;
  net::UniqueFd fd(::openat(directory_.get(), old_name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd || ::fchmod(fd.get(), 0400) != 0 ||
      ::renameat(directory_.get(), old_name.c_str(), directory_.get(), blob.name().c_str()) != 0) {
    return fail(note(disk_error("cannot keep a blob in cache directory '" + path_ + "'", errno)));
  }
  parts_.erase(entry->digest);
  entry->part = false;
  entry->verified = true;
  blobs_.emplace(entry->digest, entry);
  return fd;
}

void BlobShelf::insert(const EntryPtr& entry) {
  (entry->part ? parts_ : blobs_).emplace(entry->digest, entry);
  order_.emplace(order_key(*entry), entry);
  used_ += entry->size;
  newest_ns_ = std::max(newest_ns_, entry->used_ns);
}

void BlobShelf::hold(const EntryPtr& entry) {
  if (entry->holders++ == 0) {
    order_.erase(order_key(*entry));
    held_ += entry->size;
  }
}

/// Notes the use of a held entry. Times of use are strictly ascending, so that the order never
/// depends on the clock's steps.
void BlobShelf::stamp(Entry& entry) {
  newest_ns_ = std::max(newest_ns_ + 1, now_ns());
  entry.used_ns = newest_ns_;
  const timespec time{newest_ns_ / 1'000'000'000LL, newest_ns_ % 1'000'000'000LL};
  const timespec times[2] = {time, time};
  // A failure costs a wrong order after the next restart, nothing else.
  (void)::utimensat(directory_.get(), entry.name().c_str(), times, AT_SYMLINK_NOFOLLOW);
  struct stat info {};
  entry.changed_ns =
      ::fstatat(directory_.get(), entry.name().c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0
          ? nanoseconds(info.st_ctim)
          : 0;
}

void BlobShelf::drop(const EntryPtr& entry) {
  if (entry->dropped) {
    return;
  }
  entry->dropped = true;
  ::unlinkat(directory_.get(), entry->name().c_str(), 0);
  (entry->part ? parts_ : blobs_).erase(entry->digest);
  if (entry->holders == 0) {
    order_.erase(order_key(*entry));
    used_ -= entry->size;
  }
  if (!entry->part && on_evicted_) {
    on_evicted_(entry->digest);
  }
}

void BlobShelf::drop_other(const Entries& entries, const wire::Digest& digest) {
  if (const auto at = entries.find(digest); at != entries.end()) {
    drop(EntryPtr(at->second));
  }
}

Result<void> BlobShelf::make_room(std::uint64_t size) {
  if (size > cap_) {
    return fail(Code::kExhausted, "a blob of " + bytes_text(size) +
                                      " does not fit into cache directory '" + path_ +
                                      "' with its cap of " + bytes_text(cap_) + "; raise the cap");
  }
  if (used_ <= cap_ - size) {
    return {};
  }
  if (held_ > cap_ - size) {
    return fail(Code::kExhausted,
                "cache directory '" + path_ + "' has no room for " + bytes_text(size) + ": " +
                    bytes_text(held_) + " of its cap of " + bytes_text(cap_) +
                    " are in use by tasks and downloads; try again when they end, or raise the "
                    "cap");
  }
  while (used_ > cap_ - size) {
    drop(oldest());
  }
  return {};
}

/// kNotFound, and the entry is dropped, when the file is gone or has another length.
Result<net::UniqueFd> BlobShelf::open_blob(const EntryPtr& entry) {
  net::UniqueFd fd(
      ::openat(directory_.get(), entry->name().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd && errno != ENOENT && errno != ELOOP) {
    return fail(note(disk_error("cannot open a blob in cache directory '" + path_ + "'", errno)));
  }
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      static_cast<std::uint64_t>(info.st_size) != entry->size) {
    drop(entry);
    return fail(not_here(entry->digest));
  }
  // Every use sets the time: another one means that somebody wrote to the file. Whoever sets it
  // back cannot set back the time of that change.
  if (nanoseconds(info.st_mtim) != entry->used_ns ||
      nanoseconds(info.st_ctim) != entry->changed_ns) {
    entry->verified = false;
  }
  return fd;
}

}  // namespace goblin::store
