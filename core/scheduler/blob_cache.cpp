// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/scheduler/blob_cache.hpp"

namespace goblin::scheduler {

BlobId BlobTable::acquire(const wire::Digest& digest, std::uint64_t bytes) {
  const auto [it, fresh] = ids_.try_emplace(digest, 0);
  if (fresh) {
    if (free_.empty()) {
      it->second = static_cast<BlobId>(blobs_.size());
      blobs_.emplace_back();
    } else {
      it->second = free_.back();
      free_.pop_back();
    }
    blobs_[it->second] = {digest, bytes, 0, 0};
  }
  ++blobs_[it->second].references;
  return it->second;
}

void BlobTable::release(BlobId blob) {
  if (--blobs_[blob].references > 0) return;
  ids_.erase(blobs_[blob].digest);
  free_.push_back(blob);
}

void HostCache::use(BlobId blob, std::uint64_t capacity) {
  const auto it = entries_.find(blob);
  if (it != entries_.end()) {
    order_.splice(order_.end(), order_, it->second);
    return;
  }
  const std::uint64_t size = (*table_)[blob].bytes;
  if (size > capacity) return;
  // Make room first, so that what comes in is never what goes out.
  while (bytes_ > capacity - size) drop(order_.begin());
  table_->acquire(blob);
  table_->add_holder(blob);
  bytes_ += size;
  entries_.emplace(blob, order_.insert(order_.end(), blob));
}

void HostCache::erase(BlobId blob) {
  const auto it = entries_.find(blob);
  if (it != entries_.end()) drop(it->second);
}

void HostCache::shrink(std::uint64_t capacity) {
  while (bytes_ > capacity) drop(order_.begin());
}

void HostCache::clear() {
  while (!order_.empty()) drop(order_.begin());
}

void HostCache::drop(std::list<BlobId>::iterator at) {
  const BlobId blob = *at;
  bytes_ -= (*table_)[blob].bytes;
  entries_.erase(blob);
  order_.erase(at);
  table_->remove_holder(blob);
  table_->release(blob);
}

}  // namespace goblin::scheduler
