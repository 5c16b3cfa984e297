// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What the scheduler believes hosts hold: digests as small numbers, and a host's cache as a model.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "core/wire/values.hpp"

namespace goblin::scheduler {

using BlobId = std::uint32_t;

/// Digests that tasks name or hosts hold, counted. One thread.
class BlobTable {
 public:
  struct Blob {
    wire::Digest digest;
    std::uint64_t bytes = 0;
    std::uint32_t references = 0;
    std::uint32_t holders = 0;
  };
  /// Takes a reference; drop it with release().
  BlobId acquire(const wire::Digest& digest, std::uint64_t bytes);
  void acquire(BlobId blob) { ++blobs_[blob].references; }
  void release(BlobId blob);
  [[nodiscard]] const Blob& operator[](BlobId blob) const { return blobs_[blob]; }
  void add_holder(BlobId blob) { ++blobs_[blob].holders; }
  void remove_holder(BlobId blob) { --blobs_[blob].holders; }
  [[nodiscard]] std::size_t size() const { return ids_.size(); }

 private:
  std::vector<Blob> blobs_;
  std::vector<BlobId> free_;
  std::unordered_map<wire::Digest, BlobId> ids_;
};

/// Least-recently-used model of a host's input cache. References what it holds in the table, which
/// must outlive it and to which clear() gives everything back.
class HostCache {
 public:
  explicit HostCache(BlobTable& table) : table_(&table) {}

  [[nodiscard]] bool holds(BlobId blob) const { return entries_.contains(blob); }
  /// The host is about to have and use it; the longest unused leave when `capacity` is passed.
  void use(BlobId blob, std::uint64_t capacity);
  void erase(BlobId blob);
  /// The longest unused leave until no more than `capacity` is left.
  void shrink(std::uint64_t capacity);
  void clear();
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  void drop(std::list<BlobId>::iterator at);

  BlobTable* table_;
  std::uint64_t bytes_ = 0;
  std::list<BlobId> order_;  ///< longest unused first
  std::unordered_map<BlobId, std::list<BlobId>::iterator> entries_;
};

}  // namespace goblin::scheduler
