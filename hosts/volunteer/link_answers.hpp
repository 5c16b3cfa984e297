// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Answers a lab node that measures the link to this host. Loop's thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "core/net/channel.hpp"
#include "core/net/loop.hpp"
#include "core/wire/peer.hpp"

namespace goblin::volunteer {

class LinkAnswers {
 public:
  explicit LinkAnswers(net::Loop& loop) : loop_(loop) {}

  /// What to send now: nothing before the last frame of a probe. `received`: bytes of the
  /// connection so far, those of frames that are not complete among them. A lab node has at most 16
  /// MiB of answers a minute; beyond it they are empty.
  std::vector<net::Frame> on(const wire::LinkProbe& probe, std::size_t payload_bytes,
                             std::uint64_t received);

 private:
  net::Loop& loop_;
  std::uint32_t number_ = 0;
  net::TimePoint middle_;       ///< when the frame in the middle of the probe came
  std::uint64_t received_ = 0;  ///< until then
  net::TimePoint minute_;       ///< began
  std::uint64_t answered_ = 0;  ///< bytes, in that minute
};

}  // namespace goblin::volunteer
