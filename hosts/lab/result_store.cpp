// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/result_store.hpp"

#include <unistd.h>

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
      const Code code = errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? Code::kExhausted
                                                                             : Code::kUnavailable;
      return fail(code, std::string("cannot write a result to the staging folder: ") +
                            std::strerror(errno) + "; free some disk space there");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

Result<Slot> ResultStore::allocate(std::uint64_t bytes) {
  const std::uint64_t room = (std::max<std::uint64_t>(bytes, 1) + 63) / 64 * 64;
  if (room >= kOwnFileBytes) {
    GOBLIN_TRY(store::Staging::File file, staging_.create(room));
    const Slot slot{file.number, 0, bytes};
    files_.emplace(file.number, File{std::make_shared<const net::UniqueFd>(std::move(file.fd)),
                                     room, room, 1, false});
    return slot;
  }
  auto it = files_.find(arena_);
  if (it != files_.end() && it->second.slots == 0) {
    it->second.used = 0;
  }
  if (it == files_.end() || it->second.used + room > it->second.size) {
    GOBLIN_TRY(store::Staging::File file, staging_.create(kArenaBytes));
    arena_ = file.number;
    it = files_
             .emplace(file.number, File{std::make_shared<const net::UniqueFd>(std::move(file.fd)),
                                        kArenaBytes, 0, 0, true})
             .first;
  }
  File& file = it->second;
  const Slot slot{it->first, file.used, bytes};
  file.used += room;
  ++file.slots;
  return slot;
}

bool ResultStore::release(const Slot& slot) {
  const auto it = files_.find(slot.stage);
  if (it == files_.end() || --it->second.slots > 0 || slot.stage == arena_) {
    return false;
  }
  files_.erase(it);
  // A file that cannot be removed now is removed at the next start: no job names it any more.
  (void)staging_.remove(slot.stage);
  return true;
}

Result<void> ResultStore::adopt(const Slot& slot) {
  auto it = files_.find(slot.stage);
  if (it == files_.end()) {
    GOBLIN_TRY(store::Staging::File file, staging_.reopen(slot.stage));
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
      (void)staging_.remove(number);
    }
  }
  files_.clear();
  arena_ = 0;
}

void ResultStore::clear() {
  for (const auto& [number, file] : files_) {
    (void)staging_.remove(number);
  }
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
