// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Results that a lab node may still fetch. Small ones on the heap, large ones in memfds that the
// runner wrote into. Loop's thread only, but for the sources, which workers read.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "core/net/blobs.hpp"
#include "core/net/loop.hpp"
#include "core/net/unique_fd.hpp"

namespace goblin::volunteer {

/// Shared memory that is mapped here and in a runner. Its length is sealed. From its answer to the
/// next request that writes there, a runner has it read only (hosts/runner/session.cpp): a careless
/// plugin's thread cannot change what is hashed or sent. A hostile one can: the lab node checks the
/// digest when it has fetched the bytes, and relies on nothing before.
class SharedBuffer {
 public:
  /// A memfd of `bytes` (at least 1), mapped for reading and writing.
  static Result<std::shared_ptr<SharedBuffer>> create(std::uint64_t bytes);
  ~SharedBuffer();
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  SharedBuffer(net::UniqueFd fd, std::byte* data, std::uint64_t size)
      : fd_(std::move(fd)), data_(data), size_(size) {}
  net::UniqueFd fd_;
  std::byte* data_;
  std::uint64_t size_;
};

/// One output tensor that waits to be fetched.
struct HeldOutput {
  wire::Digest digest;
  std::shared_ptr<SharedBuffer> shared;  ///< or
  std::shared_ptr<const wire::Bytes> heap;
  std::uint64_t offset = 0, bytes = 0;
};

class HeldResults {
 public:
  /// Holds them from `now` on.
  void hold(std::uint64_t lease, std::vector<HeldOutput> outputs, net::TimePoint now);
  void release(std::uint64_t lease);
  void clear();
  /// kNotFound when no held result has it.
  Result<std::shared_ptr<net::BlobSource>> find(const wire::Digest& digest) const;
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t count() const { return by_lease_.size(); }
  /// When something of them was last read or released, or they began to be held.
  [[nodiscard]] net::TimePoint collected() const;
  /// Since when the oldest is held; none: nothing is.
  [[nodiscard]] std::optional<net::TimePoint> oldest() const;
  /// Gives up the oldest: find() does not know it any more. Sources of it go on.
  void drop_oldest();

 private:
  bool drop(std::uint64_t lease);
  struct Held {
    std::vector<HeldOutput> outputs;
    net::TimePoint since;
  };
  using Clock = std::atomic<net::TimePoint>;
  std::set<std::pair<net::TimePoint, std::uint64_t>> order_;  ///< since when, which lease
  std::shared_ptr<Clock> collected_ = std::make_shared<Clock>(net::TimePoint{});
  std::unordered_map<std::uint64_t, Held> by_lease_;
  std::unordered_multimap<wire::Digest, HeldOutput> by_digest_;
  std::uint64_t bytes_ = 0;
};

}  // namespace goblin::volunteer
