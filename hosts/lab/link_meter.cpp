// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/link_meter.hpp"

#include <algorithm>

namespace goblin::lab {
namespace {

constexpr net::Milliseconds kAnswer{30'000};
constexpr int kRoundTrips = 3;
constexpr std::uint32_t kFrames = 16;
/// A measurement that was over so soon is repeated with more.
constexpr double kLeastSeconds = 0.05;

double seconds(net::TimePoint from, net::TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

/// Clocks count whole microseconds.
double rate(std::uint64_t bytes, double took) {
  return static_cast<double>(bytes) / std::max(took, 1e-6);
}

}  // namespace

LinkMeter::LinkMeter(net::Loop& loop, std::function<void(net::Frame)> send)
    : loop_(loop), send_(std::move(send)), done_(loop) {}

net::Task<Result<void>> LinkMeter::exchange(std::uint32_t count, std::uint32_t payload_bytes) {
  wire::LinkProbe probe;
  probe.number = ++number_;
  probe.count = probe.answers = count_ = count;
  bytes_ = 0;
  done_.reset();
  for (; probe.index < count; ++probe.index) {
    send_(net::make_frame(wire::FrameType::kLinkProbe, probe, wire::Bytes(payload_bytes)));
  }
  (void)co_await done_.wait_for(kAnswer);
  if (closed_) {
    co_return fail(Code::kUnavailable, "the host has gone");
  }
  if (!done_.is_set()) {
    co_return fail(Code::kUnavailable, "the host did not answer a probe of its link within " +
                                           std::to_string(kAnswer.count() / 1000) + " s");
  }
  co_return Result<void>{};
}

net::Task<Result<LinkMeasure>> LinkMeter::measure() {
  if (measuring_) {
    co_return fail(Code::kUnavailable, "the link is being measured already");
  }
  measuring_ = true;
  struct Reset {
    bool& flag;
    ~Reset() { flag = false; }
  } const reset{measuring_};
  LinkMeasure measure;
  for (int i = 0; i < kRoundTrips; ++i) {
    const auto start = loop_.now();
    GOBLIN_CO_TRY_VOID(co_await exchange(1, 0));
    const double took = seconds(start, last_);
    measure.rtt_s = i == 0 ? took : std::min(measure.rtt_s, took);
  }
  for (std::uint32_t frames = kFrames; frames <= wire::kMaxLinkFrames; frames *= 4) {
    GOBLIN_CO_TRY_VOID(co_await exchange(frames, wire::kLinkProbeBytes));
    const double down = static_cast<double>(echo_.micros) * 1e-6;
    const double up = seconds(middle_, last_);
    measure.to_host = rate(echo_.bytes, down);
    measure.from_host = rate(bytes_, up);
    if (std::min(down, up) >= kLeastSeconds) {
      break;
    }
  }
  if (!(measure.to_host > 0) || !(measure.from_host > 0)) {
    co_return fail(Code::kUnavailable, "the host has answered enough probes of its link for now");
  }
  co_return measure;
}

void LinkMeter::close() {
  closed_ = true;
  done_.set();
}

void LinkMeter::on(const wire::LinkEcho& echo, std::uint64_t received) {
  if (echo.number != number_ || done_.is_set()) {
    return;
  }
  last_ = loop_.now();
  if (echo.index <= count_ / 2) {
    middle_ = last_;
    at_middle_ = received;
  }
  bytes_ = received - at_middle_;
  if (echo.index + 1 >= count_) {
    echo_ = echo;
    done_.set();
  }
}

}  // namespace goblin::lab
