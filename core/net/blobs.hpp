// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Blobs over a channel, both directions: serves what the peer asks for, fetches what we need.
#pragma once

#include <functional>
#include <memory>

#include "core/net/channel.hpp"

namespace goblin::net {

/// Bytes that can be sent: a file, shared memory, or a gathered view. Called on a worker thread,
/// one call at a time.
class BlobSource {
 public:
  virtual ~BlobSource() = default;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// Fills `out` from `offset` on; the caller never asks beyond size().
  virtual Result<void> read(std::uint64_t offset, std::span<std::byte> out) = 0;
};

/// Where fetched bytes go. Called on a worker thread, in ascending order of offset.
class BlobSink {
 public:
  virtual ~BlobSink() = default;
  /// The blob's size, before any byte: kExhausted or kInvalidArgument refuses it.
  virtual Result<void> begin(std::uint64_t size) = 0;
  virtual Result<void> write(std::uint64_t offset, wire::ByteView bytes) = 0;
};

/// Loop's thread only. Destroy it, or shut it down, before its channel. The owner runs the receive
/// loop and passes every frame of types kBlobGet to kBlobCancel to handle(); everything else here
/// sends through the channel.
class BlobExchange {
 public:
  /// Finds a blob that the peer asks for: kNotFound if it may not have it. At most 64 streams are
  /// served at once; they take turns, and share 4 MiB for reading ahead. It answers a source of its
  /// own for each call, or one that several threads may read.
  using Find = std::function<Task<Result<std::shared_ptr<BlobSource>>>(const wire::Digest&)>;

  static std::unique_ptr<BlobExchange> create(Loop& loop, Channel& channel, Find find);
  virtual ~BlobExchange() = default;

  /// kCorrupt when the peer breaks the protocol (unknown stream, more than its credit, wrong
  /// offset, more than 64 streams): close the channel then. kUnavailable after shut_down().
  virtual Result<void> handle(Frame frame) = 0;
  /// Fetches bytes from `offset` to the end; answers the blob's size when the sink has them all.
  /// Grants credit as the sink takes them, at most `window` bytes ahead. The caller checks the
  /// digest. Ends with kUnavailable when the channel closes, with the peer's code when it does not
  /// have the blob or its source fails, with the sink's error when that refuses. Destroying the
  /// Task tells the peer to stop. More than 64 at once wait for each other.
  virtual Task<Result<std::uint64_t>> fetch(wire::Digest digest, std::uint64_t offset,
                                            std::shared_ptr<BlobSink> sink,
                                            std::uint64_t window = 8u << 20) = 0;
  /// Ends every fetch and stream with kUnavailable; call it when the receive loop ends.
  virtual void shut_down() = 0;
};

}  // namespace goblin::net
