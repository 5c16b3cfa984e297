// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Small arithmetic on leases.
#pragma once

#include <chrono>
#include <cstdint>

#include "core/net/loop.hpp"
#include "core/wire/peer.hpp"

namespace goblin::volunteer {

inline constexpr std::uint64_t kArenaBytes = 4u << 20;  ///< small outputs, inline inputs of a batch
inline constexpr std::uint64_t kOwnBuffer = 64u
                                            << 10;  ///< an output from here on has its own memfd

inline std::uint64_t round_up(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

inline std::uint64_t output_bytes(const wire::Lease& lease) {
  std::uint64_t total = 0;
  for (const auto& spec : lease.outputs) {
    total += round_up(spec.size_bytes().value_or(0));
  }
  return total;
}

inline std::uint64_t micros(net::TimePoint from, net::TimePoint to) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(to - from).count());
}

}  // namespace goblin::volunteer
