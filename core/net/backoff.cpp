// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <algorithm>

#include "core/net/channel.hpp"

namespace goblin::net {

Backoff::Backoff(std::uint64_t seed, Milliseconds first, Milliseconds last)
    : state_(seed), first_(first), last_(std::max(first, last)) {}

// Uniform between `first` and a ceiling that doubles: a whole network that lost its server comes
// back spread out, and nobody hammers. The generator is splitmix64.
Milliseconds Backoff::next() {
  attempt_ = std::min<std::uint32_t>(attempt_ + 1, 30);
  const auto ceiling = std::min<std::int64_t>(last_.count(), first_.count() << attempt_);
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  z ^= z >> 31;
  const auto span = static_cast<std::uint64_t>(std::max<std::int64_t>(0, ceiling - first_.count()));
  return first_ + Milliseconds(static_cast<std::int64_t>(z % (span + 1)));
}

void Backoff::reset() { attempt_ = 0; }

}  // namespace goblin::net
