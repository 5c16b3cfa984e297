// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A cache on disk of inputs, or of plugins' files, named by digest, least recently used out first,
// never over its cap. Downloads go to part files and resume after a crash.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/net/blobs.hpp"
#include "core/net/unique_fd.hpp"
#include "core/wire/values.hpp"

namespace goblin::store {

/// The hash whose digests name what a cache holds.
enum class NamedBy {
  kBlake3,  ///< data: net::BlobHash
  kSha256,  ///< plugins' files: net::Sha256
};

/// Any thread; calls may block on the disk.
class BlobCache {
 public:
  /// `directory` is made when missing (0700); a part file or a blob that has the wrong length is
  /// dropped. `on_evicted` is told of every blob that goes; it runs on the thread that made room,
  /// with the cache's lock held: it must not call the cache (post to a loop instead).
  /// The cap counts lengths of blobs and the whole lengths of unfinished downloads. kUnavailable:
  /// another process uses the directory.
  static Result<std::unique_ptr<BlobCache>> open(
      const std::string& directory, NamedBy names, std::uint64_t cap_bytes,
      std::function<void(const wire::Digest&)> on_evicted);
  virtual ~BlobCache() = default;

  /// While a Pin lives, the blob stays.
  class Pin {
   public:
    virtual ~Pin() = default;
    [[nodiscard]] virtual int fd() const = 0;  ///< read only
    [[nodiscard]] virtual std::uint64_t size() const = 0;
  };
  /// kNotFound when it is not here. A blob that an earlier process left, or that somebody wrote to,
  /// is hashed (BLAKE3 6 GB/s, SHA-256 1.5); one that holds other bytes is dropped and not found.
  virtual Result<std::shared_ptr<Pin>> find(const wire::Digest& digest) = 0;
  /// It is here, and find() will hash it: not on a loop's thread.
  [[nodiscard]] virtual bool unverified(const wire::Digest& digest) const = 0;

  /// A download. Give sink() to BlobExchange::fetch from offset() on, then commit().
  class Download {
   public:
    virtual ~Download() = default;
    /// Bytes that are here from an earlier try.
    [[nodiscard]] virtual std::uint64_t offset() const = 0;
    [[nodiscard]] virtual std::shared_ptr<net::BlobSink> sink() = 0;
    /// Verifies the digest (hashed while it arrived) and moves the blob into the cache. kCorrupt:
    /// the bytes are others; they are dropped. kUnavailable: bytes are missing.
    virtual Result<std::shared_ptr<Pin>> commit() = 0;
  };
  /// One download per digest at a time: kUnavailable while another runs or when the blob
  /// is here already. The sink's begin() makes room and answers kExhausted when what is pinned, or
  /// the disk, leaves none. Without commit() what arrived stays for the next try.
  virtual Result<std::unique_ptr<Download>> download(const wire::Digest& digest) = 0;

  /// A system call or two: the directory is still at its path and may be written to. False calls
  /// for mend().
  [[nodiscard]] virtual bool looks_sound() const = 0;
  /// Why the disk refused something, since mend() last succeeded or a blob began to arrive. With
  /// it, a failure of this cache is the disk's or the directory's, not that of what was asked for.
  [[nodiscard]] virtual std::optional<Error> trouble() const = 0;
  enum class Mended {
    kSame,  ///< nothing is lost
    kAnew,  ///< the directory was gone: it was made again, or found anew; on_evicted was told
  };
  /// Makes the directory again when it is not at its path any more, with what lies in it, and tries
  /// whether it can be written to, and whether what the disk had no room for would find room now.
  /// Blobs of a lost directory that are pinned stay usable. Errors as open(), or of the disk; the
  /// lost blobs are forgotten then, too.
  virtual Result<Mended> mend() = 0;

  [[nodiscard]] virtual std::uint64_t used_bytes() const = 0;
  [[nodiscard]] virtual std::uint64_t cap_bytes() const = 0;
};

}  // namespace goblin::store
