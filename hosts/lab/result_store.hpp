// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Where the results of one job lie between their arrival and the end of their use: in files of the
// lab node's staging folder, so that runners map them and a crash does not lose what was accepted.
// Small results share files ("arenas"); a large one has its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "core/net/blobs.hpp"
#include "core/net/sha256.hpp"
#include "core/store/staging.hpp"

namespace goblin::lab {

/// Room for one result.
struct Slot {
  std::uint64_t stage = 0;  ///< number of the staging file
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// Loop's thread only, but for `writable_fd`, whose descriptor may be written by a worker while the
/// slot is held.
class ResultStore {
 public:
  explicit ResultStore(store::Staging& staging) : staging_(staging) {}

  /// 64-byte aligned. Blocks on the disk for a large slot.
  Result<Slot> allocate(std::uint64_t bytes);
  /// Frees the slot; a file without slots is removed, but for the current arena.
  /// True when the slot's file is gone: unmap it.
  bool release(const Slot& slot);
  /// Takes up a slot that the journal names.
  Result<void> adopt(const Slot& slot);
  [[nodiscard]] int fd(const Slot& slot) const;
  [[nodiscard]] std::shared_ptr<const net::UniqueFd> shared_fd(const Slot& slot) const;
  [[nodiscard]] std::uint64_t file_bytes(const Slot& slot) const;
  /// Copies small bytes into the slot.
  Result<void> write(const Slot& slot, std::uint64_t within, wire::ByteView bytes);
  /// Removes every file.
  void clear();
  /// Removes every file but these, and forgets those too: adopt() takes them up again.
  void reset(const std::set<std::uint64_t>& keep);

 private:
  static constexpr std::uint64_t kArenaBytes = 4u << 20;
  static constexpr std::uint64_t kOwnFileBytes = 256u << 10;
  struct File {
    std::shared_ptr<const net::UniqueFd> fd;
    std::uint64_t size = 0;
    std::uint64_t used = 0;   ///< arenas: bytes given out
    std::uint64_t slots = 0;  ///< held
    bool arena = false;
  };
  store::Staging& staging_;
  std::map<std::uint64_t, File> files_;
  std::uint64_t arena_ = 0;  ///< number of the current one
};

/// Takes a result's bytes into its slot and hashes them. Refuses another size than expected.
class SlotSink final : public net::BlobSink {
 public:
  SlotSink(std::shared_ptr<const net::UniqueFd> fd, std::uint64_t offset, std::uint64_t bytes)
      : fd_(std::move(fd)), offset_(offset), bytes_(bytes) {}
  Result<void> begin(std::uint64_t size) override;
  Result<void> write(std::uint64_t offset, wire::ByteView bytes) override;
  /// Nothing is written any more once this returns: the slot may be used for something else.
  void abandon();
  /// So far; any thread.
  [[nodiscard]] std::uint64_t received() const { return received_; }
  /// Whether a write failed here, rather than the peer.
  [[nodiscard]] bool disk_failed() const { return disk_failed_; }
  /// Of everything written.
  wire::Digest digest() { return hash_.finish(); }

 private:
  std::shared_ptr<const net::UniqueFd> fd_;
  std::uint64_t offset_, bytes_;
  std::atomic<bool> disk_failed_{false};
  std::atomic<std::uint64_t> received_{0};
  std::mutex mutex_;
  bool abandoned_ = false;  ///< under the mutex
  net::Sha256 hash_;
};

/// pwrite until all is written; kExhausted when the disk is full.
Result<void> write_all(int fd, std::uint64_t offset, wire::ByteView bytes);

}  // namespace goblin::lab
