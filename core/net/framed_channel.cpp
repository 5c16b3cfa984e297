// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/net/framed_channel.hpp"

#include <array>
#include <deque>
#include <iterator>

#include "core/net/frame_reader.hpp"

namespace goblin::net {
namespace {

/// receive() lets others run after so many bytes, each frame counted as 16 KiB more.
constexpr std::uint64_t kTurnBytes = 2u << 20;
/// From so many queued bytes on, send() writes at once instead of at the end of the loop's turn.
constexpr std::size_t kWriteNow = 512u << 10;
constexpr std::size_t kParts = 96;

struct Queued {
  std::array<std::byte, wire::kHeaderBytes> header;
  Frame frame;
  std::size_t sent = 0;

  [[nodiscard]] std::size_t size() const {
    return header.size() + frame.message.size() + frame.payload.size();
  }
};

/// Pieces of blobs fill the queue for seconds where a link is slow: the rest goes ahead, or no task
/// would be leased meanwhile. A blob's end stays behind its pieces, a farewell behind all.
bool gives_way(wire::FrameType type) {
  return type == wire::FrameType::kBlobData || type == wire::FrameType::kBlobCancel;
}
bool goes_ahead(wire::FrameType type) {
  return !gives_way(type) && type != wire::FrameType::kGoodbye;
}

std::uint64_t at_rate_ms(std::uint64_t bytes, std::uint32_t bytes_per_s) {
  return bytes_per_s == 0 ? 0 : bytes * 1000 / bytes_per_s;
}

/// The connection; the Channel and the coroutines that are inside its functions share it.
class Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Loop& l, std::unique_ptr<ByteStream> stream, Peer p, std::shared_ptr<Place> place)
      : loop(reactor(l)),
        peer(std::move(p)),
        stream_(std::move(stream)),
        reader_(*stream_),
        place_(std::move(place)),
        read_timer_(loop.timer()),
        write_timer_(loop.timer()),
        drained_(l) {}

  Result<void> watch() {
    GOBLIN_TRY(watch_, loop.watch(stream_->fd()));
    if (place_ != nullptr) {
      place_->gives_way_by([weak = weak_from_this()] {
        if (const auto self = weak.lock()) {
          self->close({Code::kUnavailable, "it had not greeted when others needed its place"});
        }
      });
    }
    return {};
  }
  void set_state(wire::PeerState to) {
    state = to;
    if (to == wire::PeerState::kOpen && place_ != nullptr) {
      place_->admitted();
    }
  }

  // ---- both sides
  void close(Error error) {
    if (closed_) {
      return;
    }
    if (!write_failed_ && !queue_.empty()) {
      flush();
      if (closed_) {
        return;
      }
    }
    closed_ = std::move(error);
    read_timer_->cancel();
    write_timer_->cancel();
    watch_.reset();
    stream_->say_goodbye();
    queue_.clear();
    queued_ = queued_ahead_ = 0;
    drained_.set();
    stream_.reset();
    place_.reset();
    if (waiting_reader_) {
      loop.post([self = shared_from_this()] { self->wake_reader(); });
    }
  }
  [[nodiscard]] const std::optional<Error>& closed() const { return closed_; }
  [[nodiscard]] bool is_open() const { return !closed_ && !write_failed_; }
  [[nodiscard]] std::uint64_t bytes_sent() const { return sent_; }
  [[nodiscard]] std::uint64_t bytes_received() const { return reader_.bytes_received(); }

  // ---- receiving
  void begin_receive() { receive_since_ = loop.now(); }

  /// True: take() has a frame for the caller.
  Result<bool> advance() {
    while (true) {
      const bool began = reader_.in_frame();
      auto done = reader_.advance(state, peer.local);
      if (!done) {
        return done;
      }
      if (!began) {
        receive_since_ = loop.now();
      }
      if (!*done) {
        return false;
      }
      frame_ = reader_.take();
      turn_bytes_ += frame_.message.size() + frame_.payload.size() + (16u << 10);
      if (frame_.type == wire::FrameType::kPing) {
        // A flood of pings earns no growing queue.
        if (!pong_queued_ && queued_ <= limits.send_queue_bytes) {
          pong_queued_ = true;
          enqueue(Frame(wire::FrameType::kPong));
        }
      } else if (frame_.type != wire::FrameType::kPong) {
        return true;
      }
      receive_since_ = loop.now();
    }
  }
  Frame take() { return std::move(frame_); }
  bool turn_is_over() {
    if (turn_bytes_ < kTurnBytes) {
      return false;
    }
    turn_bytes_ = 0;
    return true;
  }

  void wait_for_bytes(std::coroutine_handle<> reader) {
    waiting_reader_ = reader;
    turn_bytes_ = 0;
    watch_->on_readable([this] { wake_reader(); });
    arm_read_deadline();
  }
  void forget_reader() { waiting_reader_ = {}; }

  // ---- sending
  Result<void> check(const Frame& frame) const {
    const auto type = static_cast<std::uint16_t>(frame.type);
    const wire::FrameCaps caps = wire::frame_caps(type, state);
    const std::string what = "frame type " + std::to_string(type);
    if (!caps.accepted) {
      return fail(Code::kInvalidArgument, what + " cannot be sent in this state");
    }
    if (frame.message.size() > caps.message_bytes || frame.payload.size() > caps.payload_bytes) {
      return fail(Code::kInvalidArgument,
                  what + ": message of " + std::to_string(frame.message.size()) +
                      " and payload of " + std::to_string(frame.payload.size()) +
                      " bytes; at most " + std::to_string(caps.message_bytes) + " and " +
                      std::to_string(caps.payload_bytes) + " fit: send less at a time");
    }
    if (frame.fds.size() > (stream_->carries_fds() ? wire::kMaxFrameFds : 0)) {
      return fail(Code::kInvalidArgument, what + ": " + std::to_string(frame.fds.size()) +
                                              " descriptors; at most 16 travel, over Unix "
                                              "sockets only");
    }
    return {};
  }

  void enqueue(Frame frame) {
    if (!is_open()) {
      return;
    }
    Queued entry;
    wire::write_header(
        {static_cast<std::uint16_t>(frame.type), static_cast<std::uint32_t>(frame.message.size()),
         static_cast<std::uint32_t>(frame.payload.size())},
        entry.header);
    entry.frame = std::move(frame);
    queued_ += entry.size();
    auto place = queue_.end();
    if (goes_ahead(entry.frame.type)) {
      queued_ahead_ += entry.size();
      while (place != queue_.begin() && std::prev(place)->sent == 0 &&
             gives_way(std::prev(place)->frame.type)) {
        --place;
      }
    }
    queue_.insert(place, std::move(entry));
    if (blocked_) {
      return;
    }
    if (queued_ >= kWriteNow) {
      flush();
    } else if (!flush_posted_) {
      flush_posted_ = true;
      loop.post([weak = weak_from_this()] {
        if (auto self = weak.lock()) {
          self->flush_posted_ = false;
          if (!self->closed_ && !self->blocked_) {
            self->flush();
          }
        }
      });
    }
  }
  [[nodiscard]] bool over_limit() const { return queued_ > limits.send_queue_bytes; }
  /// For a frame that goes ahead: only those like it are before it.
  [[nodiscard]] bool over_limit_ahead() const { return queued_ahead_ > limits.send_queue_bytes; }
  Event& drained() { return drained_; }
  [[nodiscard]] Error send_error() const {
    return closed_ ? *closed_ : Error{Code::kUnavailable, write_error_};
  }

  Reactor& loop;
  Peer peer;
  wire::PeerState state = wire::PeerState::kGreeting;
  ChannelLimits limits;

 private:
  void wake_reader() {
    const auto self = shared_from_this();
    if (auto reader = std::exchange(waiting_reader_, {})) {
      reader.resume();
    }
  }

  // One timer, moved only when it fires: a busy connection sets none.
  void arm_read_deadline() {
    if (const auto deadline = read_deadline(); deadline && !read_timer_armed_) {
      read_timer_armed_ = true;
      read_timer_->start(*deadline, [this] {
        read_timer_armed_ = false;
        const auto now_due = read_deadline();
        if (!waiting_reader_ || !now_due) {
          return;
        }
        if (loop.now() < *now_due) {
          arm_read_deadline();
        } else if (reader_.in_frame()) {
          close({Code::kUnavailable, "the peer sent a frame too slowly"});
        } else {
          close({Code::kUnavailable,
                 "the peer sent nothing for " + std::to_string(limits.idle.count()) + " ms"});
        }
      });
    }
  }
  [[nodiscard]] std::optional<TimePoint> read_deadline() const {
    if (reader_.in_frame()) {
      if (limits.frame.count() == 0) {
        return std::nullopt;
      }
      return receive_since_ + limits.frame +
             Milliseconds(at_rate_ms(reader_.frame_bytes(), limits.min_bytes_per_s));
    }
    return limits.idle.count() == 0 ? std::nullopt
                                    : std::optional<TimePoint>(receive_since_ + limits.idle);
  }

  void flush() {
    blocked_ = false;
    while (!queue_.empty() && !blocked_) {
      auto n = write_front();
      if (!n) {
        return fail_writes(n.error());
      }
      blocked_ = *n == 0;
    }
    auto flushed = stream_->flush();
    if (!flushed) {
      return fail_writes(flushed.error());
    }
    blocked_ = blocked_ || !*flushed;
    if (blocked_) {
      watch_->on_writable([this] {
        const auto self = shared_from_this();
        flush();
      });
      if (!stalled_since_) {
        begin_stall();
      }
      arm_write_deadline();
    } else {
      stalled_since_.reset();
    }
    if (!over_limit() || !over_limit_ahead()) {
      drained_.set();
    }
  }

  /// Writes what one call takes of the frames at the front.
  Result<std::size_t> write_front() {
    std::array<iovec, kParts> parts;
    std::size_t count = 0;
    // Descriptors are attributed by the frame of the last byte that comes with them: such a frame
    // is written alone.
    std::span<const UniqueFd> fds;
    for (Queued& entry : queue_) {
      const bool with_fds = !entry.frame.fds.empty();
      if (count + 3 > parts.size() || (with_fds && count != 0)) {
        break;
      }
      std::size_t skip = entry.sent;
      const auto add = [&](std::span<const std::byte> bytes) {
        const std::size_t skipped = std::min(skip, bytes.size());
        skip -= skipped;
        if (skipped < bytes.size()) {
          parts[count++] = {const_cast<std::byte*>(bytes.data() + skipped), bytes.size() - skipped};
        }
      };
      add(entry.header);
      add(entry.frame.message);
      add(entry.frame.payload);
      if (with_fds) {
        fds = entry.frame.fds;
        break;
      }
    }
    GOBLIN_TRY(const std::size_t written, stream_->write({parts.data(), count}, fds));
    if (written != 0 && !fds.empty()) {
      queue_.front().frame.fds.clear();  // they have gone with the first byte
    }
    std::size_t left = written;
    while (left != 0) {
      Queued& front = queue_.front();
      const std::size_t n = std::min(left, front.size() - front.sent);
      front.sent += n;
      left -= n;
      if (front.sent == front.size()) {
        if (front.frame.type == wire::FrameType::kPong) {
          pong_queued_ = false;
        }
        if (goes_ahead(front.frame.type)) {
          queued_ahead_ -= front.size();
        }
        queue_.pop_front();
      }
    }
    queued_ -= written;
    sent_ += written;
    return written;
  }

  // Bytes have waited for the peer without a break since then.
  void begin_stall() {
    stalled_since_ = loop.now();
    sent_at_stall_ = sent_;
  }
  void arm_write_deadline() {
    if (limits.frame.count() == 0 || write_timer_armed_) {
      return;
    }
    write_timer_armed_ = true;
    write_timer_->start(*stalled_since_ + limits.frame, [this] {
      write_timer_armed_ = false;
      if (!stalled_since_) {
        return;
      }
      if (loop.now() >= *stalled_since_ + limits.frame) {
        const std::uint64_t least = std::uint64_t{limits.min_bytes_per_s} *
                                    static_cast<std::uint64_t>(limits.frame.count()) / 1000;
        if (sent_ - sent_at_stall_ <
            std::max<std::uint64_t>(1, std::min<std::uint64_t>(least, queued_))) {
          close({Code::kUnavailable, "the peer takes what is sent to it too slowly"});
          return;
        }
        begin_stall();
      }
      arm_write_deadline();
    });
  }

  /// The peer may have said why before it went: receive() still reads what is there.
  void fail_writes(const Error& error) {
    write_failed_ = true;
    write_error_ = error.message;
    queue_.clear();
    queued_ = queued_ahead_ = 0;
    blocked_ = true;
    stalled_since_.reset();
    drained_.set();
  }

  std::unique_ptr<ByteStream> stream_;
  FrameReader reader_;
  std::shared_ptr<Place> place_;
  std::unique_ptr<FdWatch> watch_;
  std::optional<Error> closed_;

  std::unique_ptr<Timer> read_timer_;
  bool read_timer_armed_ = false;
  std::coroutine_handle<> waiting_reader_;
  TimePoint receive_since_;
  std::uint64_t turn_bytes_ = 0;
  Frame frame_;

  std::deque<Queued> queue_;
  std::size_t queued_ = 0;
  std::size_t queued_ahead_ = 0;  ///< of frames that go ahead
  std::uint64_t sent_ = 0;
  bool blocked_ = false;
  bool flush_posted_ = false;
  bool pong_queued_ = false;
  bool write_failed_ = false;
  std::string write_error_;
  std::unique_ptr<Timer> write_timer_;
  bool write_timer_armed_ = false;
  std::optional<TimePoint> stalled_since_;
  std::uint64_t sent_at_stall_ = 0;
  Event drained_;
};

class BytesAwaiter {
 public:
  explicit BytesAwaiter(Core& core) : core_(core) {}
  BytesAwaiter(const BytesAwaiter&) = delete;
  BytesAwaiter& operator=(const BytesAwaiter&) = delete;
  ~BytesAwaiter() { core_.forget_reader(); }
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> self) { core_.wait_for_bytes(self); }
  void await_resume() const noexcept {}

 private:
  Core& core_;
};

Task<Result<Frame>> receive_frame(std::shared_ptr<Core> core) {
  if (core->turn_is_over()) {
    Yield yield(core->loop);
    co_await yield;
  }
  core->begin_receive();
  while (true) {
    if (core->closed()) {
      co_return fail(*core->closed());
    }
    auto done = core->advance();
    if (!done) {
      core->close(done.error());
      co_return fail(done.error());
    }
    if (*done) {
      co_return core->take();
    }
    BytesAwaiter bytes(*core);
    co_await bytes;
  }
}

Task<Result<void>> send_frame(std::shared_ptr<Core> core, Frame frame) {
  if (!core->is_open()) {
    co_return fail(core->send_error());
  }
  GOBLIN_CO_TRY_VOID(core->check(frame));
  const bool ahead = goes_ahead(frame.type);
  core->enqueue(std::move(frame));
  while (core->is_open() && (ahead ? core->over_limit_ahead() : core->over_limit())) {
    core->drained().reset();
    co_await core->drained().wait();
  }
  if (!core->is_open()) {
    co_return fail(core->send_error());
  }
  co_return {};
}

class FramedChannel final : public Channel {
 public:
  explicit FramedChannel(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  ~FramedChannel() override { close(); }

  Task<Result<Frame>> receive() override { return receive_frame(core_); }
  Task<Result<void>> send(Frame frame) override { return send_frame(core_, std::move(frame)); }
  void close() override { core_->close({Code::kUnavailable, "the connection was closed here"}); }
  [[nodiscard]] bool is_open() const override { return core_->is_open(); }
  [[nodiscard]] const Peer& peer() const override { return core_->peer; }
  [[nodiscard]] std::uint64_t bytes_sent() const override { return core_->bytes_sent(); }
  [[nodiscard]] std::uint64_t bytes_received() const override { return core_->bytes_received(); }
  void set_state(wire::PeerState state) override { core_->set_state(state); }
  void set_limits(const ChannelLimits& limits) override { core_->limits = limits; }

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace

Result<std::unique_ptr<Channel>> frame_channel(Loop& loop, std::unique_ptr<ByteStream> stream,
                                               Peer peer, std::shared_ptr<Place> place) {
  auto core = std::make_shared<Core>(loop, std::move(stream), std::move(peer), std::move(place));
  GOBLIN_TRY_VOID(core->watch());
  return std::make_unique<FramedChannel>(std::move(core));
}

}  // namespace goblin::net
