// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A cache's directory that vanished, or cannot be written to, while its process runs.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "core/store/blob_shelf.hpp"
#include "core/store/files.hpp"

namespace goblin::store {
namespace {

/// No blob's name: what a crash leaves of it is in nobody's way, and the next try removes it.
constexpr const char* kProbe = ".probe";

}  // namespace

bool BlobShelf::at_path() const {
  struct stat here {};
  struct stat ours {};
  return ::stat(path_.c_str(), &here) == 0 && ::fstat(directory_.get(), &ours) == 0 &&
         here.st_dev == ours.st_dev && here.st_ino == ours.st_ino;
}

bool BlobShelf::looks_sound() const {
  const std::lock_guard lock(mutex_);
  return at_path() && ::faccessat(directory_.get(), ".", W_OK | X_OK, 0) == 0;
}

std::optional<Error> BlobShelf::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

Error BlobShelf::noted(Error error, std::uint64_t wanted) {
  const std::lock_guard lock(mutex_);
  return note(std::move(error), wanted);
}

Error BlobShelf::note(Error error, std::uint64_t wanted) {
  trouble_ = error;
  wanted_ = error.code == Code::kExhausted ? wanted : 0;
  return error;
}

/// Removes nothing: whoever moved the directory away may want its files.
void BlobShelf::forget_all() {
  for (auto* entries : {&blobs_, &parts_}) {
    for (const auto& [digest, entry] : *entries) {
      entry->dropped = true;
      if (entry->holders == 0) {
        order_.erase(order_key(*entry));
        used_ -= entry->size;
      }
      if (!entry->part && on_evicted_) {
        on_evicted_(digest);
      }
    }
    entries->clear();
  }
}

Result<void> BlobShelf::try_to_write() {
  const std::string what = "cache directory '" + path_ + "'";
  const std::uint64_t evictable = used_ - held_;
  const std::uint64_t free = free_bytes(directory_.get());
  if (wanted_ > free && wanted_ - free > evictable) {
    return fail(disk_error(what + ": " + bytes_text(wanted_) + " are wanted and " +
                               bytes_text(free) + " are free there",
                           ENOSPC));
  }
  ::unlinkat(directory_.get(), kProbe, 0);
  const net::UniqueFd fd(
      ::openat(directory_.get(), kProbe, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) {
    return fail(disk_error("cannot make a file in " + what, errno));
  }
  constexpr std::array<std::byte, 4096> kZeros{};
  auto written = write_all(fd.get(), kZeros, 0);
  ::unlinkat(directory_.get(), kProbe, 0);
  // What a full disk lacks for this, blobs make room for.
  if (!written && (written.error().code != Code::kExhausted || evictable == 0)) {
    return fail(written.error().with_context(what));
  }
  return {};
}

Result<BlobCache::Mended> BlobShelf::mend() {
  const std::lock_guard lock(mutex_);
  auto outcome = BlobCache::Mended::kSame;
  if (!at_path()) {
    forget_all();
    lost_ = true;
    auto directory = open_owned_directory(path_, "cache directory");
    if (!directory) {
      return fail(note(std::move(directory).error()));
    }
    directory_ = std::move(*directory);
  }
  if (lost_) {  // it may be our own directory that came back
    outcome = BlobCache::Mended::kAnew;
    if (auto loaded = load_locked(); !loaded) {
      return fail(note(std::move(loaded).error()));
    }
    lost_ = false;
  }
  if (auto tried = try_to_write(); !tried) {
    return fail(note(std::move(tried).error(), wanted_));
  }
  trouble_.reset();
  wanted_ = 0;
  return outcome;
}

}  // namespace goblin::store
