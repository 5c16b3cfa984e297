// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/job.hpp"

namespace goblin::lab {

net::Task<Result<std::uint32_t>> MappedRunner::segment(std::uint64_t key, int fd,
                                                       std::uint64_t size, bool writable) {
  if (writable && key < (1ULL << 60)) {
    key |= kWritable;  // an arena may be mapped for reading already
  }
  if (const auto it = segments_.find(key); it != segments_.end()) {
    co_return it->second;
  }
  auto mapped = co_await client_->map(fd, size, writable);
  if (!mapped) {
    co_return fail(mapped.error().with_context("mapping a file for the runner"));
  }
  segments_.emplace(key, *mapped);
  co_return *mapped;
}

net::Task<void> MappedRunner::forget(std::uint64_t key) {
  std::vector<std::uint32_t> segments;
  for (const auto name : {key, key | kWritable}) {
    if (const auto it = segments_.find(name); it != segments_.end()) {
      segments.push_back(it->second);
      segments_.erase(it);
    }
  }
  if (segments.empty()) {
    co_return;
  }
  // A runner that is gone has nothing mapped; its next request says that it is gone.
  (void)co_await client_->unmap(std::move(segments));
}

SlotLayout SlotLayout::of(const std::vector<wire::TensorSpec>& outputs) {
  SlotLayout layout;
  for (const auto& spec : outputs) {
    const std::uint64_t bytes = spec.size_bytes().value_or(0);
    layout.offsets.push_back(layout.total);
    layout.sizes.push_back(bytes);
    layout.total += (bytes + 63) / 64 * 64;
  }
  return layout;
}

}  // namespace goblin::lab
