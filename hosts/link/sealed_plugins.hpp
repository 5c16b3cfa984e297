// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Sealed copies of plugins that were used, so that a runner starts without copying and hashing one
// again. Bounded: beyond a size the longest unused are let go. One thread.
#pragma once

#include <functional>
#include <list>
#include <memory>

#include "core/net/unique_fd.hpp"
#include "core/wire/values.hpp"

namespace goblin::link {

class SealedPlugins {
 public:
  using Fd = std::shared_ptr<const net::UniqueFd>;

  explicit SealedPlugins(std::uint64_t cap_bytes = 64u << 20) : cap_bytes_(cap_bytes) {}

  /// Null when there is none.
  Fd find(const wire::Digest& plugin);
  /// One that is larger than the cap is kept until the next comes.
  void add(const wire::Digest& plugin, Fd fd, std::uint64_t bytes);
  void drop_unless(const std::function<bool(const wire::Digest&)>& wanted);
  [[nodiscard]] std::size_t size() const { return kept_.size(); }

 private:
  struct Kept {
    wire::Digest plugin;
    Fd fd;
    std::uint64_t bytes;
  };
  std::uint64_t cap_bytes_;
  std::list<Kept> kept_;  ///< longest unused first
};

}  // namespace goblin::link
