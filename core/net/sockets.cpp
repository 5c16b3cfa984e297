// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/net/sockets.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/net/stream.hpp"

namespace goblin::net {
namespace {

const sockaddr_in& as_v4(const SocketAddress& a) {
  return reinterpret_cast<const sockaddr_in&>(a.storage);
}
const sockaddr_in6& as_v6(const SocketAddress& a) {
  return reinterpret_cast<const sockaddr_in6&>(a.storage);
}

}  // namespace

std::string SocketAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  if (storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &as_v4(*this).sin_addr, buffer.data(), buffer.size());
  } else if (storage.ss_family == AF_INET6) {
    const in6_addr& v6 = as_v6(*this).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
      inet_ntop(AF_INET, v6.s6_addr + 12, buffer.data(), buffer.size());
    } else {
      inet_ntop(AF_INET6, &v6, buffer.data(), buffer.size());
    }
  } else {
    return "local";
  }
  return buffer.data();
}

std::string SocketAddress::network() const {
  if (storage.ss_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&as_v6(*this).sin6_addr)) {
    return std::string(reinterpret_cast<const char*>(as_v6(*this).sin6_addr.s6_addr), 8);
  }
  return text();
}

std::uint16_t SocketAddress::port() const {
  return storage.ss_family == AF_INET    ? ntohs(as_v4(*this).sin_port)
         : storage.ss_family == AF_INET6 ? ntohs(as_v6(*this).sin6_port)
                                         : std::uint16_t{0};
}

Result<SocketAddress> unix_address(const std::string& path) {
  SocketAddress address;
  auto& un = reinterpret_cast<sockaddr_un&>(address.storage);
  if (path.empty() || path.size() >= sizeof un.sun_path || path.find('\0') != std::string::npos) {
    return fail(Code::kInvalidArgument,
                "socket path '" + path + "' has " + std::to_string(path.size()) + " bytes; 1 to " +
                    std::to_string(sizeof un.sun_path - 1) + " fit: choose a shorter directory");
  }
  un.sun_family = AF_UNIX;
  std::memcpy(un.sun_path, path.c_str(), path.size() + 1);
  address.length = sizeof un;
  return address;
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port,
                                           bool to_listen) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  addrinfo* list = nullptr;
  const std::string service = std::to_string(port);
  const int rc = getaddrinfo(host.empty() ? nullptr : host.c_str(), service.c_str(), &hints, &list);
  if (rc != 0) {
    return fail(Code::kUnavailable,
                "cannot find the address of '" + host + "': " + gai_strerror(rc));
  }
  std::vector<SocketAddress> found;
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, a->ai_addr, a->ai_addrlen);
    address.length = a->ai_addrlen;
    found.push_back(address);
  }
  freeaddrinfo(list);
  return found;
}

Task<Result<UniqueFd>> connect_socket(Reactor& loop, SocketAddress address, TimePoint deadline) {
  UniqueFd socket(
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) {
    co_return fail(errno_error(Code::kExhausted, "cannot open a socket", errno));
  }
  int error = 0;
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.storage),
                address.length) != 0) {
    error = errno;
  }
  if (error == EINPROGRESS) {
    GOBLIN_CO_TRY(const std::unique_ptr<FdWatch> watch, loop.watch(socket.get()));
    const bool ready = co_await wait_ready(loop, *watch, Readiness::kWrite, deadline);
    if (!ready) {
      co_return fail(Code::kUnavailable, "no answer in time");
    }
    socklen_t length = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error != 0) {
    // EAGAIN of a Unix socket: the listener's backlog is full.
    co_return fail(errno_error(Code::kUnavailable, "cannot connect", error));
  }
  co_return std::move(socket);
}

}  // namespace goblin::net
