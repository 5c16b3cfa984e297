// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/host_session.hpp"

namespace goblin::lab {
namespace {

/// A result that is being fetched may rest so long.
constexpr net::Milliseconds kSilence{120'000};
/// A change of what a host offers makes the scheduler look at every job: at most so often.
constexpr net::Milliseconds kOfferPause{100};

net::Task<Result<std::shared_ptr<net::BlobSource>>> find_blob(Engine& engine,
                                                              scheduler::HostId host,
                                                              wire::Digest digest) {
  co_return engine.find_blob(host, digest);
}

}  // namespace

HostSession::HostSession(net::Loop& loop, Engine& engine, std::unique_ptr<net::Channel> channel,
                         bool trusted, std::uint64_t group, log::Logger logger)
    : loop_(loop),
      engine_(engine),
      channel_(std::move(channel)),
      trusted_(trusted),
      group_(group),
      logger_(std::move(logger)),
      outgoing_(loop),
      offer_(loop, kOfferPause, [this](const wire::HostOffer& offer) { take(offer); }),
      meter_(loop, [this](net::Frame frame) { send(std::move(frame)); }) {
  blobs_ = net::BlobExchange::create(loop_, *channel_, [this](const wire::Digest& digest) {
    return find_blob(engine_, id_, digest);
  });
}

HostSession::~HostSession() = default;

net::Task<void> HostSession::run() {
  const std::string name = "host " + pin().hex().substr(0, 16);
  logger_.info(name + " has connected from " + channel_->peer().address);
  loop_.spawn(write_loop(shared_from_this()));
  const auto end = co_await read_loop();
  logger_.info(name + " has gone: " + (end ? "it said goodbye" : end.error().message));
  gone_ = true;
  channel_->close();
  outgoing_.close();
  blobs_->shut_down();
  meter_.close();
  if (id_ != 0) {
    engine_.host_left(id_, this);
  }
}

net::Task<void> HostSession::write_loop(std::shared_ptr<HostSession> self) {
  while (auto frame = co_await self->outgoing_.pop()) {
    if (const auto done = co_await self->channel_->send(std::move(*frame)); !done) {
      self->channel_->close();
      co_return;
    }
  }
}

net::Task<Result<void>> HostSession::read_loop() {
  while (true) {
    auto frame = co_await channel_->receive();
    if (!frame) {
      co_return fail(std::move(frame).error());
    }
    if (frame->type == wire::FrameType::kGoodbye) {
      co_return Result<void>{};
    }
    if (auto done = handle(std::move(*frame)); !done) {
      co_return done;
    }
  }
}

void HostSession::take(const wire::HostOffer& offer) {
  if (gone_) {
    return;
  }
  if (id_ == 0) {
    id_ = engine_.host_joined(shared_from_this(), offer.capacity, offer.state, trusted_, group_);
  } else {
    engine_.host_changed(id_, offer.capacity, offer.state);
  }
}

Result<void> HostSession::handle(net::Frame frame) {
  switch (frame.type) {
    case wire::FrameType::kHostOffer: {
      GOBLIN_TRY(const wire::HostOffer offer, wire::decode_host_offer(frame.message));
      offer_.set(offer);
      return {};
    }
    case wire::FrameType::kResults: {
      GOBLIN_TRY(const wire::Results results, wire::decode_results(frame.message));
      return engine_.results(id_, results, frame.payload);
    }
    case wire::FrameType::kHandBack: {
      GOBLIN_TRY(const wire::HandBack message, wire::decode_hand_back(frame.message));
      engine_.handed_back(id_, message);
      return {};
    }
    case wire::FrameType::kHeartbeat: {
      GOBLIN_TRY(const wire::Heartbeat message, wire::decode_heartbeat(frame.message));
      engine_.heartbeat(id_, message);
      return {};
    }
    case wire::FrameType::kLinkEcho: {
      GOBLIN_TRY(const wire::LinkEcho echo, wire::decode_link_echo(frame.message));
      meter_.on(echo, channel_->bytes_received());
      return {};
    }
    case wire::FrameType::kBlobGet:
    case wire::FrameType::kBlobInfo:
    case wire::FrameType::kBlobData:
    case wire::FrameType::kBlobCredit:
    case wire::FrameType::kBlobCancel:
      return blobs_->handle(std::move(frame));
    default:
      return fail(Code::kCorrupt, "a host sent a frame of type " +
                                      std::to_string(static_cast<unsigned>(frame.type)) +
                                      ", which is not for a lab node");
  }
}

net::Task<Result<std::uint64_t>> HostSession::fetch(wire::Digest digest,
                                                    std::shared_ptr<SlotSink> sink) {
  const auto self = shared_from_this();
  std::optional<Result<std::uint64_t>> fetched;
  net::Event done(loop_);
  auto transfer = blobs_->fetch(digest, 0, sink);
  auto running = net::store_and_set(transfer, fetched, done);
  running.start();
  // Results of one host take turns on its link: what counts is that bytes of this one come at all.
  std::uint64_t seen = 0;
  while (!fetched) {
    const bool ended = co_await done.wait_for(kSilence);
    if (!ended && sink->received() == seen) {
      co_return fail(Code::kUnavailable, "the host sent nothing of a result for " +
                                             std::to_string(kSilence.count()) + " ms");
    }
    seen = sink->received();
  }
  co_return std::move(*fetched);
}

}  // namespace goblin::lab
