// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What both halves of a blob exchange share. For this folder's .cpp files only.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "core/net/blobs.hpp"

namespace goblin::net {

inline constexpr std::size_t kMaxBlobStreams = 64;
/// Payload of one frame. Large enough for full speed, small enough that another stream, or a
/// heartbeat, does not wait long behind it.
inline constexpr std::uint64_t kBlobPiece = 256u << 10;

/// So many may be inside at once; the others wait in the order in which they came.
class Turnstile {
 public:
  Turnstile(Loop& loop, std::size_t places) : loop_(loop), free_(places) {}

  /// A place; leaving is destroying it.
  class Place {
   public:
    Place() = default;
    explicit Place(Turnstile& of) : of_(&of) {}
    Place(Place&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    Place& operator=(Place&& other) noexcept {
      if (this != &other) {
        leave();
        of_ = std::exchange(other.of_, nullptr);
      }
      return *this;
    }
    ~Place() { leave(); }

   private:
    void leave() {
      if (of_ != nullptr) {
        std::exchange(of_, nullptr)->give_back();
      }
    }
    Turnstile* of_ = nullptr;
  };

  Task<Place> enter() {
    if (free_ == 0 || !queue_.empty()) {
      const Waiting me(*this);
      while (queue_.front() != &me || free_ == 0) {
        me.turn->reset();
        co_await me.turn->wait();
      }
    }
    --free_;
    co_return Place(*this);
  }
  /// A place if one is free and nobody waits for it.
  std::optional<Place> try_enter() {
    if (free_ == 0 || !queue_.empty()) {
      return std::nullopt;
    }
    --free_;
    return Place(*this);
  }

 private:
  struct Waiting {
    explicit Waiting(Turnstile& t) : of(t), turn(std::make_unique<Event>(t.loop_)) {
      place = of.queue_.insert(of.queue_.end(), this);
    }
    ~Waiting() {
      of.queue_.erase(place);
      of.call_next();
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    Turnstile& of;
    std::unique_ptr<Event> turn;
    std::list<const Waiting*>::iterator place;
  };

  void give_back() {
    ++free_;
    call_next();
  }
  void call_next() {
    if (free_ != 0 && !queue_.empty()) {
      queue_.front()->turn->set();
    }
  }

  Loop& loop_;
  std::size_t free_;
  std::list<const Waiting*> queue_;
};

/// Sends small frames in order for callers that cannot wait: destructors and handle().
class Outbox {
 public:
  Outbox(Loop& loop, Channel& channel) : frames_(loop), task_(run(channel)) { task_.start(); }
  template <typename Message>
  void push(wire::FrameType type, const Message& message) {
    frames_.push(make_frame(type, message));
  }

 private:
  Task<void> run(Channel& channel) {
    while (auto frame = co_await frames_.pop()) {
      auto sent = co_await channel.send(std::move(*frame));
      if (!sent) {
        co_return;  // the receive loop learns why
      }
    }
  }

  Queue<Frame> frames_;
  Task<void> task_;
};

/// The half that answers a peer's requests.
class BlobServer {
 public:
  BlobServer(Loop& loop, Channel& channel, Outbox& outbox, BlobExchange::Find find);
  ~BlobServer();
  Result<void> on_get(const wire::BlobGet& get);
  Result<void> on_credit(const wire::BlobCredit& credit);
  void on_cancel(std::uint32_t stream);
  void shut_down();

 private:
  struct Stream;
  struct Piece {
    std::uint64_t offset = 0;
    wire::Bytes bytes;
    Turnstile::Place buffer;
  };
  Task<void> serve(std::shared_ptr<Stream> stream);
  Task<void> serve_blob(Stream& stream);
  Task<Result<std::vector<Piece>>> next_pieces(Stream& stream);

  Loop& loop_;
  Channel& channel_;
  Outbox& outbox_;
  BlobExchange::Find find_;
  Turnstile buffers_;  ///< bounds the memory of read-ahead, whatever the number of streams
  Turnstile sending_;  ///< whose piece is next
  std::map<std::uint32_t, std::shared_ptr<Stream>> streams_;
  std::vector<std::shared_ptr<Stream>> ended_;  ///< until their coroutines have left
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

/// The half that asks.
class BlobClient : public std::enable_shared_from_this<BlobClient> {
 public:
  BlobClient(Loop& loop, Channel& channel, Outbox& outbox);
  Result<void> on_info(const wire::BlobInfo& info);
  Result<void> on_data(const wire::BlobData& data, wire::Bytes payload);
  Result<void> on_cancel(const wire::BlobCancel& cancel);
  void shut_down();
  static Task<Result<std::uint64_t>> fetch(std::shared_ptr<BlobClient> self, wire::Digest digest,
                                           std::uint64_t offset, std::shared_ptr<BlobSink> sink,
                                           std::uint64_t window);

 private:
  struct Stream;
  class Guard;
  Task<Result<std::uint64_t>> take_all(Stream& stream, std::shared_ptr<BlobSink> sink,
                                       std::uint64_t window);
  void abandon(std::uint32_t id);

  Loop& loop_;
  Channel* channel_;  ///< null after shut_down()
  Outbox* outbox_;
  Turnstile open_;
  std::uint32_t next_id_ = 0;
  std::map<std::uint32_t, std::shared_ptr<Stream>> streams_;
};

}  // namespace goblin::net
