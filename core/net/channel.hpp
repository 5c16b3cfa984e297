// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Connections that carry frames: TLS 1.3 between machines, Unix sockets within one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/net/loop.hpp"
#include "core/net/reach.hpp"
#include "core/net/unique_fd.hpp"
#include "core/wire/frame.hpp"
#include "core/wire/peer.hpp"

namespace goblin::net {

struct Frame {
  // A constructor, so that a temporary is safe in a co_await expression (task.hpp).
  explicit Frame(wire::FrameType t = {}, wire::Bytes m = {}, wire::Bytes p = {})
      : type(t), message(std::move(m)), payload(std::move(p)) {}

  wire::FrameType type;
  wire::Bytes message;
  wire::Bytes payload;
  std::vector<UniqueFd> fds;  ///< Unix sockets only, at most wire::kMaxFrameFds
};

/// major << 16 | minor << 8 | patch of this build.
std::uint32_t own_release_number();

/// A frame from a message of core/wire.
template <typename Message>
Frame make_frame(wire::FrameType type, Message&& message, wire::Bytes payload = {}) {
  static_assert(kSafeInAwait<Message>, "name the message, then make its frame: see task.hpp");
  return Frame(type, encode(message), std::move(payload));
}

/// Who is at the other end.
struct Peer {
  wire::Digest pin;     ///< SHA-256 of its public key (SPKI); zero on Unix sockets
  std::string address;  ///< numeric IP address; "local" on Unix sockets
  bool local = false;
  std::uint32_t uid = 0;  ///< local: of the peer process, as the kernel says
};

struct ChannelLimits {
  std::size_t send_queue_bytes = 4u << 20;   ///< send() waits while more than this is queued
  Milliseconds idle{60'000};                 ///< receive() waits so long for a frame to begin, then
                                             ///< closes; 0: for ever
  Milliseconds frame{30'000};                ///< a frame that began must end within this, plus its
  std::uint32_t min_bytes_per_s = 16 << 10;  ///< length at this rate; 0: no deadline. A peer that
                                             ///< takes less than this rate of what is queued for it
                                             ///< during `frame` is closed, too
};

/// Loop's thread only. Destroying it closes the connection.
class Channel {
 public:
  virtual ~Channel() = default;
  /// The next frame. One coroutine at a time; destroying it midway loses nothing. kUnavailable at
  /// the peer's orderly end, a lost connection or a deadline; kCorrupt for a frame that breaks the
  /// rules (the channel is closed then). Answers kPing itself and swallows kPong.
  virtual Task<Result<Frame>> receive() = 0;
  /// Queues a frame, in order, then waits while the queue is over its limit. Any number of
  /// coroutines. Frames queued in one turn of the loop leave together. kInvalidArgument for a frame
  /// that the peer would have to refuse (too long for its type, descriptors over TLS).
  virtual Task<Result<void>> send(Frame frame) = 0;
  /// Closes now: pending receive and send calls end with kUnavailable. What is queued leaves only
  /// as far as the kernel takes it at once, so a last small frame gets out.
  virtual void close() = 0;
  [[nodiscard]] virtual bool is_open() const = 0;
  [[nodiscard]] virtual const Peer& peer() const = 0;
  /// Payload and header bytes so far, both directions (before TLS).
  [[nodiscard]] virtual std::uint64_t bytes_sent() const = 0;
  [[nodiscard]] virtual std::uint64_t bytes_received() const = 0;
  /// kGreeting until the greeting functions below have succeeded.
  virtual void set_state(wire::PeerState state) = 0;
  virtual void set_limits(const ChannelLimits& limits) = 0;
};

/// A peer's Ed25519 key and self-signed certificate, kept in a directory (key 0600).
class Identity {
 public:
  /// Loads `directory`/identity.key and .crt, or makes them. kCorrupt when they do not belong
  /// together, kUnavailable when the directory cannot be used or others may read the key.
  static Result<std::shared_ptr<const Identity>> load_or_create(const std::string& directory);
  virtual ~Identity() = default;
  /// SHA-256 of the public key; what others pin.
  [[nodiscard]] virtual const wire::Digest& pin() const = 0;
};

/// Connects over TLS 1.3, ALPN "goblin/1", within `limits`; fails with
/// kUnavailable (cannot reach), kCorrupt (another key than `pin`: the message shows both pins) or
/// kInvalidArgument (each address that `host` has reaches less far than `least_reach`: nothing was
/// sent there).
struct ConnectLimits {
  Milliseconds tcp{5'000};
  Milliseconds handshake{5'000};
  std::optional<Reach> least_reach{};  ///< none: anywhere
};
Task<Result<std::unique_ptr<Channel>>> connect_tls(Loop& loop, std::shared_ptr<const Identity> self,
                                                   std::string host, std::uint16_t port,
                                                   wire::Digest pin, ConnectLimits limits = {});
Task<Result<std::unique_ptr<Channel>>> connect_unix(Loop& loop, std::string path);
/// One end of a socket pair, for instance to a runner.
Result<std::unique_ptr<Channel>> adopt_unix(Loop& loop, UniqueFd socket);

struct ListenerLimits {
  // A connection over one of the first two is closed at once, unless another whose peer has not
  // been greeted yet can give way. Whoever was admitted never does.
  std::uint32_t connections = 1000;  ///< open at once, handshakes included
  std::uint32_t per_address = 200;   ///< the same, of one IPv4 address or one IPv6 /64
  std::uint32_t handshakes = 256;    ///< and greetings at once: one more ends the oldest of the
                                     ///< address that has most of them
  Milliseconds handshake{5'000};     ///< must be done within this
  /// Told why connections are closed: not of every one, but of the first in a minute.
  std::function<void(const std::string& why)> refused;
};

class Listener {
 public:
  virtual ~Listener() = default;
  /// The next connection whose handshake is done. Handshakes run beside each other: a silent or
  /// slow client holds up nobody, and is dropped at its deadline. kUnavailable after close().
  virtual Task<Result<std::unique_ptr<Channel>>> accept() = 0;
  virtual void close() = 0;
  /// The port in use (when 0 was asked for).
  [[nodiscard]] virtual std::uint16_t port() const = 0;
};

/// kUnavailable names address and port when they are taken.
Result<std::unique_ptr<Listener>> listen_tls(Loop& loop, std::shared_ptr<const Identity> self,
                                             const std::string& address, std::uint16_t port,
                                             ListenerLimits limits = {});
/// Socket mode 0600 (or 0660 with `group`); a stale socket file is replaced, one in use is an
/// error (kUnavailable). The file goes with the listener. `limits.connections` counts.
Result<std::unique_ptr<Listener>> listen_unix(Loop& loop, const std::string& path,
                                              bool group = false, ListenerLimits limits = {});

/// The greeting. The connecting side sends Hello and waits for Welcome; a refusal comes back as an
/// error that says which side to upgrade or what to do.
/// kUnsupported: versions; kInvalidArgument: not authorised or the wrong role; kUnavailable: busy,
/// shutting down, or a connection lost; kCorrupt: not a greeting. The channel is closed on error.
Task<Result<wire::Welcome>> greet_server(Loop& loop, Channel& channel, wire::Role self,
                                         Milliseconds deadline = Milliseconds(10'000));
/// Whether a peer may stay: kNone admits it.
class Authorise {
 public:
  template <typename F>  // NOLINTNEXTLINE(google-explicit-constructor): a function is one
  requires std::is_invocable_r_v<wire::Refusal, F&, const Peer&, const wire::Hello&> Authorise(
      F&& decide)
      : decide_(std::forward<F>(decide)) {
    static_assert(kSafeInAwait<F>, "name the function, then pass it: see task.hpp");
  }
  wire::Refusal operator()(const Peer& peer, const wire::Hello& hello) const {
    return decide_(peer, hello);
  }

 private:
  std::function<wire::Refusal(const Peer&, const wire::Hello&)> decide_;
};
/// The accepting side reads Hello within `deadline`, lets `authorise` decide, and answers Welcome.
Task<Result<wire::Hello>> greet_client(Loop& loop, Channel& channel, wire::Role self,
                                       Authorise authorise,
                                       Milliseconds deadline = Milliseconds(5'000));

/// Delays between attempts to reconnect: exponential with full jitter, 0.2 s to 60 s.
class Backoff {
 public:
  explicit Backoff(std::uint64_t seed, Milliseconds first = Milliseconds(200),
                   Milliseconds last = Milliseconds(60'000));
  Milliseconds next();
  void reset();

 private:
  std::uint64_t state_;
  Milliseconds first_, last_;
  std::uint32_t attempt_ = 0;
};

}  // namespace goblin::net
