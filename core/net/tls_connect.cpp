// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>

#include "core/net/accept_loop.hpp"
#include "core/net/framed_channel.hpp"
#include "core/net/tls_stream.hpp"

namespace goblin::net {
namespace {

std::string place(const std::string& host, std::uint16_t port) {
  return host + " port " + std::to_string(port);
}

Task<Result<std::unique_ptr<Channel>>> secure(Loop& loop, UniqueFd socket, SocketAddress address,
                                              std::shared_ptr<const Identity> self, bool server,
                                              std::optional<wire::Digest> expected,
                                              Milliseconds limit, std::shared_ptr<Place> place) {
  // Small frames must not wait for the acknowledgement of earlier ones.
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // Nor behind megabytes that the kernel holds for a slow link: what it has not sent waits with the
  // channel, where urgent frames go ahead.
  const int unsent = 256 << 10;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
  GOBLIN_CO_TRY(std::unique_ptr<TlsStream> stream,
                TlsStream::create(std::move(socket), std::move(self), server, expected));
  GOBLIN_CO_TRY_VOID(co_await stream->handshake(reactor(loop), loop.now() + limit));
  Peer peer;
  peer.pin = stream->peer_pin();
  peer.address = address.text();
  co_return frame_channel(loop, std::move(stream), std::move(peer), std::move(place));
}

class TlsListener final : public Listener {
 public:
  TlsListener(std::unique_ptr<AcceptLoop> accepting, std::uint16_t port)
      : accepting_(std::move(accepting)), port_(port) {}
  Task<Result<std::unique_ptr<Channel>>> accept() override { return accepting_->accept(); }
  void close() override { accepting_->close(); }
  [[nodiscard]] std::uint16_t port() const override { return port_; }

 private:
  std::unique_ptr<AcceptLoop> accepting_;
  std::uint16_t port_;
};

/// An error says which address refused where that is not `host` itself.
Task<Result<UniqueFd>> connect_any(Loop& loop, std::string host,
                                   std::vector<SocketAddress> addresses, Milliseconds limit,
                                   SocketAddress& connected) {
  const TimePoint end = loop.now() + limit;
  Error last{Code::kUnavailable, "it has no address"};
  // Each gets an even share of the time that is left, so that a dead one does not take it all.
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto share = (end - loop.now()) / static_cast<std::int64_t>(addresses.size() - i);
    auto socket = co_await connect_socket(reactor(loop), addresses[i], loop.now() + share);
    if (socket) {
      connected = addresses[i];
      co_return std::move(*socket);
    }
    const std::string text = addresses[i].text();
    last = text == host ? socket.error() : socket.error().with_context(text);
  }
  co_return fail(std::move(last));
}

/// The addresses that reach as far as they must. Each of them, since a name may have any.
Result<std::vector<SocketAddress>> far_enough(std::vector<SocketAddress> addresses, Reach least) {
  std::string refused;
  std::erase_if(addresses, [&](const SocketAddress& address) {
    const Reach reach = reach_of(address.text());
    if (reach >= std::max(least, Reach::kLoopback)) {
      return false;
    }
    refused += (refused.empty() ? "" : ", ") + address.text() + " is a " +
               std::string(reach_name(reach)) + " address";
    return true;
  });
  if (addresses.empty() && !refused.empty()) {
    return fail(Code::kInvalidArgument, refused + ", and " + std::string(reach_name(least)) +
                                            " or wider ones only are connected to from here");
  }
  return addresses;
}

}  // namespace

Task<Result<std::unique_ptr<Channel>>> connect_tls(Loop& loop, std::shared_ptr<const Identity> self,
                                                   std::string host, std::uint16_t port,
                                                   wire::Digest pin, ConnectLimits limits) {
  const auto look_up = [host, port] { return resolve(host, port, false); };
  auto addresses = co_await within(loop, limits.tcp, loop.offload(look_up));
  if (!addresses) {
    co_return fail(Code::kUnavailable, place(host, port) + ": the name was not found in time");
  }
  if (!*addresses) {
    co_return fail(addresses->error());
  }
  if (limits.least_reach) {
    auto allowed = far_enough(std::move(**addresses), *limits.least_reach);
    if (!allowed) {
      co_return fail(allowed.error().with_context(place(host, port)));
    }
    **addresses = std::move(*allowed);
  }
  SocketAddress address;
  auto socket = co_await connect_any(loop, host, std::move(**addresses), limits.tcp, address);
  if (!socket) {
    co_return fail(socket.error().with_context(place(host, port)));
  }
  auto channel = co_await secure(loop, std::move(*socket), address, std::move(self), false, pin,
                                 limits.handshake, nullptr);
  if (!channel) {
    co_return fail(channel.error().with_context(place(host, port)));
  }
  co_return channel;
}

Result<std::unique_ptr<Listener>> listen_tls(Loop& loop, std::shared_ptr<const Identity> self,
                                             const std::string& address, std::uint16_t port,
                                             ListenerLimits limits) {
  GOBLIN_TRY(const std::vector<SocketAddress> found, resolve(address, port, true));
  const SocketAddress& at = found.front();
  UniqueFd socket(::socket(at.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) {
    return fail(errno_error(Code::kExhausted, "cannot open a socket", errno));
  }
  const int on = 1;
  // A restarted daemon takes its port again at once.
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at.storage), at.length) != 0) {
    const int error = errno;
    return fail(errno_error(Code::kUnavailable, "cannot listen on " + place(address, port), error)
                    .with_context(error == EADDRINUSE
                                      ? "the port is in use; stop the program that has it, or "
                                        "choose another port"
                                      : "the address cannot be used"));
  }
  auto handshake = [&loop, self = std::move(self), limit = limits.handshake](
                       UniqueFd accepted, SocketAddress from,
                       std::shared_ptr<Place> place) -> Task<Result<std::unique_ptr<Channel>>> {
    return secure(loop, std::move(accepted), from, self, true, std::nullopt, limit,
                  std::move(place));
  };
  auto accepting =
      AcceptLoop::create(loop, std::move(socket), std::move(limits), std::move(handshake));
  if (!accepting) {
    return fail(accepting.error().with_context(place(address, port)));
  }
  SocketAddress bound;
  bound.length = sizeof bound.storage;
  if (::getsockname((*accepting)->fd(), reinterpret_cast<sockaddr*>(&bound.storage),
                    &bound.length) != 0) {
    return fail(errno_error(Code::kInternal, "cannot tell the port in use", errno));
  }
  return std::make_unique<TlsListener>(std::move(*accepting), bound.port());
}

}  // namespace goblin::net
