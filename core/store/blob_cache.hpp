// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A host's cache of inputs on disk, named by digest, least recently used out first, never over its
// cap. Downloads go to part files and resume after a crash.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/net/blobs.hpp"
#include "core/net/unique_fd.hpp"
#include "core/wire/values.hpp"

namespace goblin::store {

/// Any thread; calls may block on the disk.
class BlobCache {
 public:
  /// `directory` is made when missing (0700); a part file or a blob that has the wrong length is
  /// dropped. `on_evicted` is told of every blob that goes.
  static Result<std::unique_ptr<BlobCache>> open(
      const std::string& directory, std::uint64_t cap_bytes,
      std::function<void(const wire::Digest&)> on_evicted);
  virtual ~BlobCache() = default;

  /// While a Pin lives, the blob stays.
  class Pin {
   public:
    virtual ~Pin() = default;
    [[nodiscard]] virtual int fd() const = 0;  ///< read only
    [[nodiscard]] virtual std::uint64_t size() const = 0;
  };
  /// kNotFound when it is not here.
  virtual Result<std::shared_ptr<Pin>> find(const wire::Digest& digest) = 0;

  /// A download. Give sink() to BlobExchange::fetch from offset() on, then commit().
  class Download {
   public:
    virtual ~Download() = default;
    /// Bytes that are here from an earlier try.
    [[nodiscard]] virtual std::uint64_t offset() const = 0;
    [[nodiscard]] virtual std::shared_ptr<net::BlobSink> sink() = 0;
    /// Verifies the digest (hashed while it arrived) and moves the blob into the cache. kCorrupt:
    /// the bytes are others; they are dropped.
    virtual Result<std::shared_ptr<Pin>> commit() = 0;
  };
  /// One download per digest at a time: kUnavailable while another runs. The sink's begin() makes
  /// room and answers kExhausted when what is pinned leaves none.
  virtual Result<std::unique_ptr<Download>> download(const wire::Digest& digest) = 0;

  [[nodiscard]] virtual std::uint64_t used_bytes() const = 0;
  [[nodiscard]] virtual std::uint64_t cap_bytes() const = 0;
};

}  // namespace goblin::store
