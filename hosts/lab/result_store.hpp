// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Where the results of one job lie between their arrival and the end of their use: in files of the
// lab node's staging folder, so that runners map them and a crash does not lose what was accepted.
// Small results share files ("arenas"); a large one has its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/net/blob_hash.hpp"
#include "core/net/blobs.hpp"
#include "core/store/staging.hpp"

namespace goblin::lab {

/// Room for one result.
struct Slot {
  std::uint64_t stage = 0;  ///< number of the staging file
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// Loop's thread only, but for make_file() and the descriptors, which a worker may write to while
/// the slot is held. Files of released large results are kept for the next ones: their pages are in
/// memory and mapped already, and fresh ones cost more than a copy into them.
class ResultStore {
 public:
  using Remove = std::function<void(std::uint64_t stage)>;
  /// `remove` is told of files that nobody needs: removing a large one takes a while.
  ResultStore(store::Staging& staging, Remove remove)
      : staging_(staging), remove_(std::move(remove)) {}

  /// A slot in a file that is there, 64-byte aligned. Nothing: make_file(), then take().
  std::optional<Slot> find(std::uint64_t bytes);
  /// Room for a result of so many bytes, and for others where it is small. Any thread; blocks on
  /// the disk.
  static Result<store::Staging::File> make_file(store::Staging& staging, std::uint64_t bytes);
  Slot take(store::Staging::File file, std::uint64_t bytes);
  /// All three, for small results: blocks for no longer than an arena takes.
  Result<Slot> allocate(std::uint64_t bytes);
  /// Frees the slot. True when its file is going: unmap it.
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
  static constexpr std::size_t kSpares = 4;  ///< files without a slot that are kept
  static constexpr std::uint64_t kSpareBytes = 512u << 20;
  struct File {
    std::shared_ptr<const net::UniqueFd> fd;
    std::uint64_t size = 0;
    std::uint64_t used = 0;   ///< arenas: bytes given out
    std::uint64_t slots = 0;  ///< held
    bool own = false;         ///< of one result at a time
  };
  static std::uint64_t room_for(std::uint64_t bytes);

  store::Staging& staging_;
  Remove remove_;
  std::map<std::uint64_t, File> files_;
  std::vector<std::uint64_t> spares_;  ///< numbers of files without slots, the oldest first
  std::uint64_t arena_ = 0;            ///< number of the current one
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
  net::BlobHash hash_;
};

/// pwrite until all is written; kExhausted when the disk is full.
Result<void> write_all(int fd, std::uint64_t offset, wire::ByteView bytes);

}  // namespace goblin::lab
