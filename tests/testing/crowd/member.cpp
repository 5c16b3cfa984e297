// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/testing/crowd/member.hpp"

#include <algorithm>
#include <chrono>

#include "hosts/volunteer/lease_math.hpp"
#include "hosts/volunteer/result_frames.hpp"
#include "tests/testing/plugins/tiny_numbers.hpp"

namespace goblin::testing {
namespace {

constexpr net::Milliseconds kFirstPause{100};
constexpr net::Milliseconds kLastPause{2'000};

/// The number that a task of the kind tiny-tasks maps.
std::uint64_t number_of(const wire::Lease& lease) {
  return lease.params.empty() ? 0 : static_cast<std::uint64_t>(lease.params[0].i);
}

}  // namespace

Member::Member(Stage& stage, std::size_t index, std::shared_ptr<const net::Identity> identity)
    : stage_(stage),
      conduct_(stage.options.hosts[index]),
      name_("host " + std::to_string(index)),
      identity_(std::move(identity)),
      changed_(stage.loop) {}

net::Task<void> Member::run() {
  if (conduct_.leaves || conduct_.falls_silent) {
    stage_.loop.spawn(depart());
  }
  net::Backoff backoff(wire::DigestHash{}(identity_->pin()), kFirstPause, kLastPause);
  while (!gone()) {
    const auto end = co_await register_itself();
    coordinator_.reset();
    if (gone()) {
      break;
    }
    stage_.logger.warn(name_ + ": coordinator: " + (end ? "it ended" : end.error().message));
    co_await stage_.loop.sleep(backoff.next());
  }
}

net::Task<Result<void>> Member::register_itself() {
  const auto& config = stage_.config;
  GOBLIN_CO_TRY(coordinator_,
                co_await net::connect_tls(stage_.loop, identity_, config.coordinator,
                                          config.coordinator_port, config.coordinator_pin));
  GOBLIN_CO_TRY_VOID(co_await net::greet_server(stage_.loop, *coordinator_, wire::Role::kHost));
  stage_.loop.spawn(beat(coordinator_));
  while (true) {
    GOBLIN_CO_TRY(net::Frame frame, co_await coordinator_->receive());
    if (frame.type != wire::FrameType::kLabAssignments || gone()) {
      continue;  // of the catalogue a host without runners needs nothing
    }
    GOBLIN_CO_TRY(const wire::LabAssignments message, wire::decode_lab_assignments(frame.message));
    if (!serving_ && !message.labs.empty()) {
      serving_ = true;
      stage_.loop.spawn(serve(message.labs.front()));
    }
  }
}

net::Task<void> Member::serve(wire::LabAssignment lab) {
  net::Backoff backoff(wire::DigestHash{}(identity_->pin()) ^ 1, kFirstPause, kLastPause);
  stage_.loop.spawn(compute_loop());
  while (!gone()) {
    const auto end = co_await session(lab);
    if (silent_) {
      co_return;  // the connection stays as it is
    }
    queue_.clear();
    changed_.set();
    if (outgoing_) {
      outgoing_->close();
    }
    outgoing_.reset();
    lab_.reset();
    if (gone()) {
      co_return;
    }
    stage_.logger.warn(name_ + ": lab node: " + (end ? "it said goodbye" : end.error().message));
    co_await stage_.loop.sleep(backoff.next());
  }
}

net::Task<Result<void>> Member::session(wire::LabAssignment lab) {
  GOBLIN_CO_TRY(lab_,
                co_await net::connect_tls(stage_.loop, identity_, lab.address, lab.port, lab.lab));
  GOBLIN_CO_TRY_VOID(co_await net::greet_server(stage_.loop, *lab_, wire::Role::kHost));
  outgoing_ = std::make_shared<net::Queue<net::Frame>>(stage_.loop);
  stage_.loop.spawn(write_loop(lab_, outgoing_));
  send(net::make_frame(wire::FrameType::kHostOffer,
                       wire::HostOffer{capacity(), wire::HostState::kReady}));
  stage_.loop.spawn(beat(lab_));
  while (true) {
    GOBLIN_CO_TRY(const net::Frame frame, co_await lab_->receive());
    if (frame.type == wire::FrameType::kGoodbye || gone()) {
      co_return Result<void>{};
    }
    take(frame);
  }
}

void Member::take(const net::Frame& frame) {
  if (frame.type == wire::FrameType::kLeases) {
    auto leases = wire::decode_leases(frame.message);
    if (!leases) {
      stage_.logger.error(name_ + ": " + leases.error().message);
      return;
    }
    stage_.begun.set();
    for (auto& lease : leases->leases) {
      queue_.push_back(std::move(lease));
    }
    if (stage_.options.durations.empty()) {
      answer_all();
    } else {
      changed_.set();
    }
  } else if (frame.type == wire::FrameType::kCancelLeases) {
    const auto message = wire::decode_cancel_leases(frame.message);
    if (!message) {
      return;
    }
    std::erase_if(queue_, [&](const wire::Lease& lease) {
      return std::find(message->leases.begin(), message->leases.end(), lease.lease) !=
             message->leases.end();
    });
    changed_.set();
  }
  // kReleaseResults: results stand in their frame, so nothing is kept for the lab node.
}

net::Task<void> Member::compute_loop() {
  while (!gone()) {
    if (queue_.empty()) {
      changed_.reset();
      co_await changed_.wait();
      continue;
    }
    const std::uint64_t lease = queue_.front().lease;
    const auto began = stage_.loop.now();
    const auto ends = began + duration_of(queue_.front());
    while (!gone() && !queue_.empty() && queue_.front().lease == lease &&
           stage_.loop.now() < ends) {
      changed_.reset();
      const auto left = std::chrono::ceil<net::Milliseconds>(ends - stage_.loop.now());
      (void)co_await changed_.wait_for(left);
    }
    if (gone() || queue_.empty() || queue_.front().lease != lease) {
      continue;  // cancelled: on to the next
    }
    wire::Bytes payload;
    wire::TaskResult result = result_of(queue_.front(), payload);
    result.compute_us = volunteer::micros(began, stage_.loop.now());
    queue_.pop_front();
    wire::Results results;
    results.results.push_back(std::move(result));
    send(net::make_frame(wire::FrameType::kResults, results, std::move(payload)));
  }
}

wire::TaskResult Member::result_of(const wire::Lease& lease, wire::Bytes& payload) const {
  wire::TaskResult result;
  result.lease = lease.lease;
  wire::TensorRef output;
  output.spec = {GOBLIN_I64, {}};
  output.inline_offset = 0;
  result.outputs.push_back(output);
  const std::uint64_t value = scatter(number_of(lease)) ^ (conduct_.lies ? 1 : 0);
  const auto bytes = std::as_bytes(std::span(&value, 1));
  payload.assign(bytes.begin(), bytes.end());
  return result;
}

void Member::answer_all() {
  volunteer::ResultFrames frames([this](net::Frame frame) { send(std::move(frame)); });
  for (const wire::Lease& lease : queue_) {
    wire::Bytes payload;
    wire::TaskResult result = result_of(lease, payload);
    frames.add(std::move(result), std::move(payload));
  }
  queue_.clear();
  frames.flush();
}

net::Milliseconds Member::duration_of(const wire::Lease& lease) const {
  const auto& all = stage_.options.durations;
  const auto base = all[number_of(lease) % all.size()];
  return net::Milliseconds(
      static_cast<std::int64_t>(static_cast<double>(base.count()) * conduct_.slowness));
}

net::Task<void> Member::depart() {
  co_await stage_.begun.wait();
  co_await stage_.loop.sleep(conduct_.leaves ? *conduct_.leaves : *conduct_.falls_silent);
  (conduct_.leaves ? left_ : silent_) = true;
  changed_.set();
  if (left_) {
    for (const auto& channel : {lab_, coordinator_}) {
      if (channel) {
        channel->close();
      }
    }
  }
}

wire::HostCapacity Member::capacity() const {
  wire::HostCapacity lent;
  lent.threads = stage_.config.threads;
  lent.slots = stage_.config.slots;
  lent.memory_bytes = stage_.config.memory_bytes;
  lent.cache_bytes = stage_.config.cache_bytes;
  lent.abi_major = GOBLIN_ABI_MAJOR;
  lent.abi_minor = GOBLIN_ABI_MINOR;
  return lent;
}

net::Task<void> Member::beat(std::shared_ptr<net::Channel> channel) {
  while (channel->is_open() && !gone()) {
    if (channel == coordinator_) {
      wire::HostStatus status;
      status.capacity = capacity();
      status.leases = static_cast<std::uint32_t>(queue_.size());
      (void)co_await channel->send(net::make_frame(wire::FrameType::kHostStatus, status));
    } else {
      wire::Heartbeat message;
      if (!queue_.empty()) {
        message.running.push_back(queue_.front().lease);
      }
      (void)co_await channel->send(net::make_frame(wire::FrameType::kHeartbeat, message));
    }
    co_await stage_.loop.sleep(stage_.config.heartbeat);
  }
}

net::Task<void> Member::write_loop(std::shared_ptr<net::Channel> channel,
                                   std::shared_ptr<net::Queue<net::Frame>> queue) {
  while (auto frame = co_await queue->pop()) {
    if (const auto done = co_await channel->send(std::move(*frame)); !done) {
      channel->close();
      co_return;
    }
  }
}

void Member::send(net::Frame frame) {
  if (outgoing_ && !gone()) {
    outgoing_->push(std::move(frame));
  }
}

}  // namespace goblin::testing
