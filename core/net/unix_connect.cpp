// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>

#include "core/net/framed_channel.hpp"
#include "core/net/sockets.hpp"
#include "core/net/unix_connect.hpp"

namespace goblin::net {

Result<std::unique_ptr<Channel>> adopt_unix_with(Loop& loop, UniqueFd socket,
                                                 std::shared_ptr<Place> place) {
  int domain = 0;
  int type = 0;
  socklen_t length = sizeof domain;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0 ||
      ::getsockopt(socket.get(), SOL_SOCKET, SO_TYPE, &type, &length) != 0 || domain != AF_UNIX ||
      type != SOCK_STREAM) {
    return fail(Code::kInvalidArgument,
                "descriptor " + std::to_string(socket.get()) + " is no Unix stream socket");
  }
  ucred credentials{};
  length = sizeof credentials;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return fail(errno_error(Code::kUnavailable, "cannot tell who the peer is", errno));
  }
  Peer peer;
  peer.address = "local";
  peer.local = true;
  peer.uid = credentials.uid;
  ::fcntl(socket.get(), F_SETFD, FD_CLOEXEC);
  return frame_channel(loop, unix_stream(std::move(socket)), std::move(peer), std::move(place));
}

Result<std::unique_ptr<Channel>> adopt_unix(Loop& loop, UniqueFd socket) {
  return adopt_unix_with(loop, std::move(socket), nullptr);
}

Task<Result<std::unique_ptr<Channel>>> connect_unix(Loop& loop, std::string path) {
  GOBLIN_CO_TRY(const SocketAddress address, unix_address(path));
  auto socket = co_await connect_socket(reactor(loop), address, loop.now() + Milliseconds(5'000));
  if (!socket) {
    co_return fail(socket.error().with_context("socket " + path));
  }
  co_return adopt_unix(loop, std::move(*socket));
}

}  // namespace goblin::net
