// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/volunteer/lab_connection.hpp"

#include <algorithm>

#include "hosts/link/watched_fetch.hpp"

namespace goblin::volunteer {
namespace {

net::Task<Result<std::shared_ptr<net::BlobSource>>> find_held(const HeldResults& held,
                                                              wire::Digest digest) {
  co_return held.find(digest);
}

}  // namespace

LabConnection::LabConnection(net::Loop& loop, const HostConfig& config, Work& work,
                             std::shared_ptr<const net::Identity> self,
                             wire::LabAssignment assignment, std::function<wire::HostOffer()> offer,
                             std::function<net::Reach()> least_reach, log::Logger logger)
    : loop_(loop),
      config_(config),
      work_(work),
      self_(std::move(self)),
      assignment_(std::move(assignment)),
      offer_(std::move(offer)),
      least_reach_(std::move(least_reach)),
      logger_(std::move(logger)),
      link_answers_(loop),
      until_(loop.now() + net::Milliseconds(assignment_.lease_ms)),
      stop_(loop) {}

LabConnection::~LabConnection() = default;

void LabConnection::renew(const wire::LabAssignment& assignment) {
  assignment_ = assignment;
  until_ = loop_.now() + net::Milliseconds(assignment.lease_ms);
}

void LabConnection::stop(bool orderly) {
  stopped_ = true;
  stop_.set();
  if (outgoing_ && orderly) {
    send(net::make_frame(wire::FrameType::kGoodbye, wire::Goodbye{}));
    outgoing_->close();  // the writer closes the channel after the last frame
  } else if (channel_) {
    channel_->close();
  }
}

net::Task<void> LabConnection::run() {
  const auto self = shared_from_this();
  net::Backoff backoff(wire::DigestHash{}(self_->pin()) ^ wire::DigestHash{}(assignment_.lab),
                       net::Milliseconds(200), net::Milliseconds(15'000));
  while (!stopped_) {
    const auto started = loop_.now();
    const auto end = co_await session();
    if (channel_) {
      received_ += channel_->bytes_received();
      sent_ += channel_->bytes_sent();
      channel_->close();
    }
    if (outgoing_) {
      outgoing_->close();
    }
    if (exchange_) {
      exchange_->shut_down();
    }
    exchange_.reset();
    outgoing_.reset();
    channel_.reset();
    work_.drop(*this);
    held_.clear();
    if (stopped_) {
      break;
    }
    if (loop_.now() - started > std::chrono::seconds(30)) {
      backoff.reset();
    }
    const auto pause = backoff.next();
    trouble_ = "lab node at " + assignment_.address + ":" + std::to_string(assignment_.port) +
               ": " + (end ? std::string("it ended the connection") : end.error().message) +
               "; next attempt in " + std::to_string(pause.count()) + " ms";
    logger_.warn(trouble_);
    (void)co_await stop_.wait_for(pause);
  }
}

net::Task<Result<void>> LabConnection::session() {
  net::ConnectLimits limits;
  limits.least_reach = least_reach_();
  auto connected = co_await net::connect_tls(loop_, self_, assignment_.address, assignment_.port,
                                             assignment_.lab, limits);
  if (!connected) {
    if (connected.error().code != Code::kInvalidArgument) {
      co_return fail(connected.error());
    }
    ++refused_addresses_;
    co_return fail(Code::kInvalidArgument,
                   connected.error().message +
                       " (as wide as the coordinator's); the lab node's owner sets "
                       "listen.public-address to one that volunteers can reach");
  }
  channel_ = std::move(*connected);
  GOBLIN_CO_TRY(const wire::Welcome welcome,
                co_await net::greet_server(loop_, *channel_, wire::Role::kHost));
  if (welcome.role != wire::Role::kLab) {
    co_return fail(Code::kInvalidArgument, "the peer is no lab node");
  }
  HeldResults& held = held_;
  exchange_ = net::BlobExchange::create(
      loop_, *channel_, [&held](const wire::Digest& digest) { return find_held(held, digest); });
  outgoing_ = std::make_shared<net::Queue<net::Frame>>(loop_);
  trouble_.clear();
  logger_.info("connected to lab node " + pin().hex().substr(0, 16) + " at " + assignment_.address +
               ":" + std::to_string(assignment_.port));
  loop_.spawn(write_loop(shared_from_this(), channel_, outgoing_));
  loop_.spawn(beat(shared_from_this(), channel_));
  send_offer();
  while (true) {
    GOBLIN_CO_TRY(net::Frame frame, co_await channel_->receive());
    if (frame.type == wire::FrameType::kGoodbye) {
      co_return Result<void>{};
    }
    GOBLIN_CO_TRY_VOID(handle(std::move(frame)));
  }
}

std::string standing_text(const wire::Standing& standing) {
  if (standing.faults + standing.forgiven == 0) {
    return "";
  }
  std::string text =
      std::to_string(standing.faults + standing.forgiven) + " results of this host were wrong";
  if (standing.suspended_ms > 0) {
    text +=
        ", and it gets no work for " + std::to_string((standing.suspended_ms + 999) / 1000) + " s";
  }
  return text +
         "; a computer that computes wrongly may have bad memory, be too hot or overclocked: "
         "test it, or lend fewer threads";
}

Result<void> LabConnection::handle(net::Frame frame) {
  switch (frame.type) {
    case wire::FrameType::kLeases: {
      GOBLIN_TRY(wire::Leases leases, wire::decode_leases(frame.message));
      work_.add(shared_from_this(), std::move(leases), frame.payload);
      return {};
    }
    case wire::FrameType::kCancelLeases: {
      GOBLIN_TRY(const wire::CancelLeases message, wire::decode_cancel_leases(frame.message));
      for (const auto lease : message.leases) {
        held_.release(lease);
      }
      work_.cancel(*this, message.leases);
      return {};
    }
    case wire::FrameType::kReleaseResults: {
      GOBLIN_TRY(const wire::ReleaseResults message, wire::decode_release_results(frame.message));
      for (const auto lease : message.leases) {
        held_.release(lease);
      }
      work_.wake();
      return {};
    }
    case wire::FrameType::kStanding: {
      GOBLIN_TRY(standing_, wire::decode_standing(frame.message));
      logger_.warn("lab node " + pin().hex().substr(0, 16) + ": " + standing_text(standing_));
      return {};
    }
    case wire::FrameType::kLinkProbe: {
      GOBLIN_TRY(const wire::LinkProbe probe, wire::decode_link_probe(frame.message));
      for (net::Frame& answer :
           link_answers_.on(probe, frame.payload.size(), channel_->bytes_received())) {
        send(std::move(answer));
      }
      return {};
    }
    case wire::FrameType::kBlobGet:
    case wire::FrameType::kBlobInfo:
    case wire::FrameType::kBlobData:
    case wire::FrameType::kBlobCredit:
    case wire::FrameType::kBlobCancel:
      return exchange_->handle(std::move(frame));
    default:
      return fail(Code::kCorrupt, "a lab node sent a frame of type " +
                                      std::to_string(static_cast<unsigned>(frame.type)) +
                                      ", which is not for a host");
  }
}

net::Task<void> LabConnection::write_loop(std::shared_ptr<LabConnection> self,
                                          std::shared_ptr<net::Channel> channel,
                                          std::shared_ptr<net::Queue<net::Frame>> queue) {
  while (auto frame = co_await queue->pop()) {
    if (const auto done = co_await channel->send(std::move(*frame)); !done) {
      break;
    }
  }
  if (self->stopped_) {
    channel->close();
  }
}

net::Task<void> LabConnection::beat(std::shared_ptr<LabConnection> self,
                                    std::shared_ptr<net::Channel> channel) {
  // The lab node answers pings, a fraction of the channel's limit on silence apart: so a connection
  // that has work to wait for stays, and one whose other end is gone is noticed.
  constexpr net::Milliseconds kPing{15'000};
  auto beat_at = self->loop_.now() + self->config_.heartbeat;
  auto ping_at = self->loop_.now() + kPing;
  while (!self->stopped_ && channel->is_open()) {
    const auto left = std::min(beat_at, ping_at) - self->loop_.now();
    const auto pause = std::max(std::chrono::ceil<net::Milliseconds>(left), net::Milliseconds(1));
    (void)co_await self->stop_.wait_for(pause);
    if (self->stopped_ || !channel->is_open()) {
      co_return;
    }
    const auto now = self->loop_.now();
    if (now >= beat_at) {
      beat_at = now + self->config_.heartbeat;
      wire::Heartbeat message;
      message.running = self->work_.running(*self);
      self->send(net::make_frame(wire::FrameType::kHeartbeat, message));
    }
    if (now >= ping_at) {
      ping_at = now + kPing;
      self->send(net::Frame(wire::FrameType::kPing));
    }
  }
}

void LabConnection::send_offer() {
  // First what is being computed: from a host that pauses or ends, the rest goes to others.
  wire::Heartbeat message;
  message.running = work_.running(*this);
  if (!message.running.empty()) {
    send(net::make_frame(wire::FrameType::kHeartbeat, message));
  }
  send(net::make_frame(wire::FrameType::kHostOffer, offer_()));
}

void LabConnection::send(net::Frame frame) {
  if (outgoing_) {
    outgoing_->push(std::move(frame));
  }
}

net::Task<Result<std::uint64_t>> LabConnection::fetch(wire::Digest digest, std::uint64_t offset,
                                                      std::shared_ptr<net::BlobSink> sink) {
  const auto channel = channel_;
  const auto exchange = exchange_;
  if (!exchange) {
    co_return fail(Code::kUnavailable, "the connection to the lab node is gone");
  }
  co_return co_await link::fetch_watched(loop_, *exchange, digest, offset, std::move(sink));
}

}  // namespace goblin::volunteer
