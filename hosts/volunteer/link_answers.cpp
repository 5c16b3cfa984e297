// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/volunteer/link_answers.hpp"

#include <algorithm>

namespace goblin::volunteer {
namespace {

constexpr std::uint64_t kMostAMinute = 16u << 20;

}  // namespace

std::vector<net::Frame> LinkAnswers::on(const wire::LinkProbe& probe, std::size_t payload_bytes,
                                        std::uint64_t received) {
  const auto now = loop_.now();
  // Whatever lies before the middle, the beginning of a TCP connection's ramp among it, is no part
  // of the measurement.
  if (probe.number != number_ || probe.index <= probe.count / 2) {
    number_ = probe.number;
    middle_ = now;
    received_ = received;
  }
  std::vector<net::Frame> answers;
  if (probe.index + 1 < probe.count) {
    return answers;
  }
  if (now - minute_ >= std::chrono::minutes(1)) {
    minute_ = now;
    answered_ = 0;
  }
  wire::LinkEcho echo;
  echo.number = probe.number;
  echo.count = probe.answers;
  echo.bytes = received - received_;
  echo.micros = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(now - middle_).count());
  const std::uint64_t wanted = payload_bytes * probe.answers;
  const bool within = answered_ + wanted <= kMostAMinute;
  answered_ += within ? wanted : 0;
  for (; echo.index < probe.answers; ++echo.index) {
    answers.push_back(
        net::make_frame(wire::FrameType::kLinkEcho, echo, wire::Bytes(within ? payload_bytes : 0)));
  }
  return answers;
}

}  // namespace goblin::volunteer
