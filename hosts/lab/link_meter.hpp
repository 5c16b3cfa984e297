// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Measures the link to one host: the round trip by empty probes, each direction's rate by frames
// that come one after another, from the one in the middle to the last. Loop's thread only.
#pragma once

#include <functional>

#include "core/net/channel.hpp"
#include "core/net/loop.hpp"
#include "core/wire/peer.hpp"

namespace goblin::lab {

struct LinkMeasure {
  double rtt_s = 0;
  double to_host = 0, from_host = 0;  ///< bytes per second
};

class LinkMeter {
 public:
  LinkMeter(net::Loop& loop, std::function<void(net::Frame)> send);

  /// Moves some 0.5 to 2 MiB each way. kUnavailable: the host does not answer in time, or another
  /// measurement is under way.
  net::Task<Result<LinkMeasure>> measure();
  /// `received`: bytes of the connection so far, those of frames that are not complete among them.
  void on(const wire::LinkEcho& echo, std::uint64_t received);
  /// The connection is gone: nobody will answer.
  void close();

 private:
  /// Sends `count` frames and waits for as many answers.
  net::Task<Result<void>> exchange(std::uint32_t count, std::uint32_t payload_bytes);

  net::Loop& loop_;
  std::function<void(net::Frame)> send_;
  bool measuring_ = false, closed_ = false;
  std::uint32_t number_ = 0, count_ = 0;
  net::Event done_;
  net::TimePoint middle_, last_;
  std::uint64_t at_middle_ = 0, bytes_ = 0;  ///< received, and since the one in the middle
  wire::LinkEcho echo_;                      ///< the last one
};

}  // namespace goblin::lab
