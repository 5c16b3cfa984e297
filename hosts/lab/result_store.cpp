// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/result_store.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace goblin::lab {

Result<void> write_all(int fd, std::uint64_t offset, wire::ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
      return fail(full ? Code::kExhausted : Code::kUnavailable,
                  std::string("cannot write a result to the staging folder: ") +
                      std::strerror(errno) +
                      (full ? "; free some disk space there" : "; look at that disk"));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

std::uint64_t ResultStore::room_for(std::uint64_t bytes) {
  return (std::max<std::uint64_t>(bytes, 1) + 63) / 64 * 64;
}

std::optional<Slot> ResultStore::find(std::uint64_t bytes) {
  const std::uint64_t room = room_for(bytes);
  if (room >= kOwnFileBytes) {
    // The same size, or little more: the rest would be wasted.
    const auto fits = std::find_if(spares_.begin(), spares_.end(), [&](const auto number) {
      const std::uint64_t size = files_.at(number).size;
      return size >= room && size - room <= room / 4;
    });
    if (fits == spares_.end()) {
      return std::nullopt;
    }
    const Slot slot{*fits, 0, bytes};
    spares_.erase(fits);
    files_.at(slot.stage).slots = 1;
    return slot;
  }
  const auto it = files_.find(arena_);
  if (it == files_.end()) {
    return std::nullopt;
  }
  File& file = it->second;
  if (file.slots == 0) {
    file.used = 0;
  }
  if (room > file.size - file.used) {
    return std::nullopt;
  }
  const Slot slot{it->first, file.used, bytes};
  file.used += room;
  ++file.slots;
  return slot;
}

Result<store::Staging::File> ResultStore::make_file(store::Staging& staging, std::uint64_t bytes) {
  const std::uint64_t room = room_for(bytes);
  return staging.create(room >= kOwnFileBytes ? room : kArenaBytes);
}

Slot ResultStore::take(store::Staging::File file, std::uint64_t bytes) {
  const std::uint64_t room = room_for(bytes);
  const Slot slot{file.number, 0, bytes};
  if (room < kOwnFileBytes) {
    // The arena before it is full: it goes with its last slot.
    if (const auto old = files_.find(arena_); old != files_.end() && old->second.slots == 0) {
      remove_(old->first);
      files_.erase(old);
    }
    arena_ = file.number;
  }
  files_.emplace(file.number, File{std::make_shared<const net::UniqueFd>(std::move(file.fd)),
                                   file.size, room, 1, room >= kOwnFileBytes});
  return slot;
}

Result<Slot> ResultStore::allocate(std::uint64_t bytes) {
  if (const auto slot = find(bytes)) {
    return *slot;
  }
  GOBLIN_TRY(store::Staging::File file, make_file(staging_, bytes));
  return take(std::move(file), bytes);
}

bool ResultStore::release(const Slot& slot) {
  const auto it = files_.find(slot.stage);
  if (it == files_.end() || --it->second.slots > 0 || slot.stage == arena_) {
    return false;
  }
  if (it->second.own) {
    std::uint64_t bytes = it->second.size;
    for (const auto number : spares_) {
      bytes += files_.at(number).size;
    }
    if (spares_.size() < kSpares && bytes <= kSpareBytes) {
      spares_.push_back(slot.stage);
      return false;
    }
  }
  files_.erase(it);
  remove_(slot.stage);
  return true;
}

Result<void> ResultStore::adopt(const Slot& slot) {
  auto it = files_.find(slot.stage);
  if (it == files_.end()) {
    GOBLIN_TRY(store::Staging::File file,
               staging_.reopen(slot.stage, store::Staging::Access::kReadWrite));
    const std::uint64_t size = file.size;
    it = files_
             .emplace(slot.stage, File{std::make_shared<const net::UniqueFd>(std::move(file.fd)),
                                       size, size, 0, false})
             .first;
  }
  if (slot.bytes > it->second.size || slot.offset > it->second.size - slot.bytes) {
    return fail(Code::kCorrupt, "the journal names a result beyond the end of staging file " +
                                    std::to_string(slot.stage));
  }
  ++it->second.slots;
  return {};
}

int ResultStore::fd(const Slot& slot) const { return files_.at(slot.stage).fd->get(); }
std::shared_ptr<const net::UniqueFd> ResultStore::shared_fd(const Slot& slot) const {
  return files_.at(slot.stage).fd;
}
std::uint64_t ResultStore::file_bytes(const Slot& slot) const { return files_.at(slot.stage).size; }

Result<void> ResultStore::write(const Slot& slot, std::uint64_t within, wire::ByteView bytes) {
  return write_all(fd(slot), slot.offset + within, bytes);
}

void ResultStore::reset(const std::set<std::uint64_t>& keep) {
  for (const auto& [number, file] : files_) {
    if (!keep.contains(number)) {
      remove_(number);
    }
  }
  spares_.clear();
  files_.clear();
  arena_ = 0;
}

void ResultStore::clear() {
  for (const auto& [number, file] : files_) {
    remove_(number);
  }
  spares_.clear();
  files_.clear();
  arena_ = 0;
}

void SlotSink::abandon() {
  const std::lock_guard<std::mutex> lock(mutex_);
  abandoned_ = true;
}

Result<void> SlotSink::begin(std::uint64_t size) {
  if (size != bytes_) {
    return fail(Code::kInvalidArgument, "a result has " + std::to_string(size) +
                                            " bytes where its task asks for " +
                                            std::to_string(bytes_));
  }
  return {};
}

Result<void> SlotSink::write(std::uint64_t offset, wire::ByteView bytes) {
  if (offset > bytes_ || bytes.size() > bytes_ - offset) {
    return fail(Code::kInvalidArgument, "a result has more bytes than its task asks for");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (abandoned_) {
    return fail(Code::kCancelled, "nobody waits for this result any more");
  }
  hash_.update(bytes);
  auto written = write_all(fd_->get(), offset_ + offset, bytes);
  disk_failed_ = !written;
  received_ += bytes.size();
  return written;
}

}  // namespace goblin::lab
