// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The files of a BlobCache and who holds which: "<digest>-<size>.blob" and, while they arrive,
// "<digest>-<size>.part". The size in the name tells a truncated blob at once and reserves a part's
// whole size before its bytes are here. The modification time is the time of last use, so the order
// of eviction survives a restart. Internal to core/store. Any thread.
#pragma once

#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "core/store/blob_cache.hpp"

namespace goblin::store {

struct ShelfEntry {
  wire::Digest digest;
  std::uint64_t size = 0;       ///< of the whole blob, for parts as well
  std::int64_t used_ns = 0;     ///< last use, Unix time
  std::int64_t changed_ns = 0;  ///< the kernel's note of that (ctime), which nobody can set
  std::uint32_t holders = 0;    ///< pins, or the download that runs
  bool part = false;
  bool verified = false;  ///< hashed by this process, and not written to since
  bool dropped = false;   ///< gone from the directory; its bytes are freed by the last holder
  std::weak_ptr<BlobCache::Pin> pin;

  [[nodiscard]] std::string name() const;
};

class BlobShelf {
 public:
  using Entry = ShelfEntry;
  using EntryPtr = std::shared_ptr<ShelfEntry>;

  BlobShelf(std::string path, net::UniqueFd directory, std::uint64_t cap_bytes,
            std::function<void(const wire::Digest&)> on_evicted);
  /// Reads the directory; removes what has a wrong length, evicts what is over the cap. Once.
  Result<void> load();
  [[nodiscard]] bool looks_sound() const;
  [[nodiscard]] std::optional<Error> trouble() const;
  Result<BlobCache::Mended> mend();
  /// Keeps an error of the disk for trouble(), with the room that was wanted, and answers it.
  Error noted(Error error, std::uint64_t wanted = 0);
  /// No more calls of on_evicted.
  void detach();

  [[nodiscard]] std::uint64_t used() const;
  [[nodiscard]] std::uint64_t cap() const { return cap_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] static Error not_here(const wire::Digest& digest);

  struct Found {
    EntryPtr entry;                       ///< held, unless `pin` is set
    net::UniqueFd fd;                     ///< read only
    std::shared_ptr<BlobCache::Pin> pin;  ///< one that lives already
    bool verified = false;
  };
  Result<Found> find(const wire::Digest& digest);
  [[nodiscard]] bool unverified(const wire::Digest& digest) const;
  /// The entry's bytes are right; later finds share the pin.
  void set_verified(const EntryPtr& entry, const std::shared_ptr<BlobCache::Pin>& pin);
  void release(const EntryPtr& entry);
  /// Removes a blob or part whose bytes are wrong.
  void discard(const EntryPtr& entry);

  /// The part of an earlier try, held, or null. Nobody else may download the digest until
  /// end_download(): kUnavailable.
  Result<EntryPtr> begin_download(const wire::Digest& digest);
  void end_download(const wire::Digest& digest);
  Result<net::UniqueFd> open_part(const EntryPtr& entry);
  /// A new part for `size` bytes, held, with its space taken from the cap and, where the file
  /// system can, from the disk.
  Result<std::pair<EntryPtr, net::UniqueFd>> make_part(const wire::Digest& digest,
                                                       std::uint64_t size);
  /// The part, complete and verified, becomes a blob; read only from now on. It stays held.
  Result<net::UniqueFd> promote(const EntryPtr& entry);

 private:
  using Entries = std::unordered_map<wire::Digest, EntryPtr>;
  using OrderKey = std::tuple<std::int64_t, wire::Digest, bool>;
  static OrderKey order_key(const Entry& entry) {
    return {entry.used_ns, entry.digest, entry.part};
  }
  // All with the lock held.
  Result<void> load_locked();
  [[nodiscard]] bool at_path() const;
  void forget_all();
  Result<void> try_to_write();
  Error note(Error error, std::uint64_t wanted = 0);
  void insert(const EntryPtr& entry);
  void hold(const EntryPtr& entry);
  void stamp(Entry& entry);
  void drop(const EntryPtr& entry);
  /// What a directory that came back holds of a digest that is being downloaded.
  void drop_other(const Entries& entries, const wire::Digest& digest);
  Result<void> make_room(std::uint64_t size);
  Result<net::UniqueFd> open_blob(const EntryPtr& entry);
  /// Precondition: something is not held.
  [[nodiscard]] EntryPtr oldest() const { return order_.begin()->second; }

  const std::string path_;
  net::UniqueFd directory_;  // replaced by mend(), with the lock held
  const std::uint64_t cap_;
  mutable std::mutex mutex_;
  std::function<void(const wire::Digest&)> on_evicted_;
  Entries blobs_, parts_;
  std::unordered_set<wire::Digest> downloads_;
  // What nobody holds, least recently used first: a held entry stands outside.
  std::map<OrderKey, EntryPtr> order_;
  std::uint64_t used_ = 0;  // blobs, whole parts, and dropped ones that are still held
  std::uint64_t held_ = 0;  // of it what has holders
  std::int64_t newest_ns_ = 0;
  bool lost_ = false;  // what was here is forgotten, and what is here now is not read yet
  std::optional<Error> trouble_;
  std::uint64_t wanted_ = 0;  // room that the disk did not give
};

}  // namespace goblin::store
