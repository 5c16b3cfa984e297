// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Results that a lab node may still fetch. Small ones on the heap, large ones in memfds that the
// runner wrote into. Loop's thread only, but for the sources, which workers read.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "core/net/blobs.hpp"
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
  void hold(std::uint64_t lease, std::vector<HeldOutput> outputs);
  void release(std::uint64_t lease);
  void clear();
  /// kNotFound when no held result has it.
  Result<std::shared_ptr<net::BlobSource>> find(const wire::Digest& digest) const;
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  std::unordered_map<std::uint64_t, std::vector<HeldOutput>> by_lease_;
  std::unordered_multimap<wire::Digest, HeldOutput> by_digest_;
  std::uint64_t bytes_ = 0;
};

}  // namespace goblin::volunteer
