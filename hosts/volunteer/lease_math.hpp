// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Small arithmetic on leases.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

#include "core/net/loop.hpp"
#include "core/wire/peer.hpp"

namespace goblin::volunteer {

inline constexpr std::uint64_t kArenaBytes = 4u << 20;  ///< small outputs, inline inputs of a batch
inline constexpr std::uint64_t kOwnBuffer = 64u
                                            << 10;  ///< an output from here on has its own memfd

/// Leases of one lab node whose inputs come in at once. There are fetchers for two lab nodes, so
/// that one that stalls leaves some to the others.
inline constexpr int kFetchersPerLab = 3;

inline constexpr std::uint64_t kTooMany = std::numeric_limits<std::uint64_t>::max();

inline std::uint64_t add_capped(std::uint64_t a, std::uint64_t b) {
  return b > kTooMany - a ? kTooMany : a + b;
}

/// What a host offers for tasks: its cap, less the scratch of threads beyond those that every task
/// counts with, but at least half of the cap. So no task's memory depends on a host's threads.
inline std::uint64_t offered_memory(std::uint64_t cap, std::uint32_t threads) {
  constexpr std::uint32_t kCounted = 3;
  constexpr std::uint64_t kScratch = 7u << 20;  ///< of a thread, in the largest backend
  const std::uint64_t extra = threads > kCounted ? (threads - kCounted) * kScratch : 0;
  return cap - std::min(extra, cap / 2);
}

/// To a multiple of 64; of the last 63 numbers, kTooMany.
inline std::uint64_t round_up(std::uint64_t bytes) {
  return bytes > kTooMany - 63 ? kTooMany : (bytes + 63) / 64 * 64;
}

/// kTooMany when 64 bits do not hold the sum: more than any cap.
inline std::uint64_t output_bytes(const wire::Lease& lease) {
  std::uint64_t total = 0;
  for (const auto& spec : lease.outputs) {
    total = add_capped(total, round_up(spec.size_bytes().value_or(0)));
  }
  return total;
}

/// Memory that a lease takes on the host, whatever its lab node says.
inline std::uint64_t memory_of(const wire::Lease& lease) {
  return std::max(lease.memory_bytes, output_bytes(lease));
}

inline std::uint64_t micros(net::TimePoint from, net::TimePoint to) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(to - from).count());
}

}  // namespace goblin::volunteer
