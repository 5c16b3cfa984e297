// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/link/sealed_plugins.hpp"

#include <algorithm>

namespace goblin::link {

SealedPlugins::Fd SealedPlugins::find(const wire::Digest& plugin) {
  const auto it = std::find_if(kept_.begin(), kept_.end(),
                               [&](const Kept& one) { return one.plugin == plugin; });
  if (it == kept_.end()) {
    return nullptr;
  }
  kept_.splice(kept_.end(), kept_, it);
  return it->fd;
}

void SealedPlugins::add(const wire::Digest& plugin, Fd fd, std::uint64_t bytes) {
  drop_unless([&](const wire::Digest& other) { return other != plugin; });
  kept_.push_back({plugin, std::move(fd), bytes});
  std::uint64_t total = 0;
  for (const Kept& one : kept_) {
    total += one.bytes;
  }
  while (kept_.size() > 1 && total > cap_bytes_) {
    total -= kept_.front().bytes;
    kept_.pop_front();
  }
}

void SealedPlugins::drop_unless(const std::function<bool(const wire::Digest&)>& wanted) {
  std::erase_if(kept_, [&](const Kept& one) { return !wanted(one.plugin); });
}

}  // namespace goblin::link
