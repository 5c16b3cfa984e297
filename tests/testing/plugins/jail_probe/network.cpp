// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Reaching anybody, on this computer or elsewhere.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "tests/testing/plugins/jail_probe/probes.hpp"

namespace goblin::testing {
namespace {

/// Opens a socket, uses it, closes it.
template <typename Use>
int with_socket(int family, int type, int protocol, Use use) {
  const int fd = ::socket(family, type | SOCK_CLOEXEC, protocol);
  if (fd < 0) {
    return errno;
  }
  const int error = use(fd);
  ::close(fd);
  return error;
}

int opens(int family, int type, int protocol) {
  return with_socket(family, type, protocol, [](int) { return 0; });
}

sockaddr_in address(const char* host, std::int64_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, host, &to.sin_addr);
  return to;
}

int connects(int fd, const void* to, std::size_t size) {
  return failed(::connect(fd, static_cast<const sockaddr*>(to), static_cast<socklen_t>(size)));
}

int loopback(const Target& target) {
  return with_socket(AF_INET, SOCK_STREAM, 0, [&](int fd) {
    const sockaddr_in to = address("127.0.0.1", target.port);
    return connects(fd, &to, sizeof to);
  });
}

int datagram(const Target& target) {
  return with_socket(AF_INET, SOCK_DGRAM, 0, [&](int fd) {
    const sockaddr_in to = address("127.0.0.1", target.port);
    return failed(::sendto(fd, "x", 1, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to));
  });
}

int local_network(const Target& /*target*/) {
  return with_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0, [](int fd) {
    const sockaddr_in to = address("192.168.255.254", 445);
    const int error = connects(fd, &to, sizeof to);
    return error == EINPROGRESS ? 0 : error;
  });
}

int listens(const Target& /*target*/) {
  return with_socket(AF_INET, SOCK_STREAM, 0, [](int fd) { return failed(::listen(fd, 1)); });
}

int unix_socket(const Target& target, bool abstract) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  const std::string name = (abstract ? "" : "/tmp/") +
                           ("goblin-probe-" + std::to_string(target.port)) +
                           (abstract ? "" : ".sock");
  char* at = to.sun_path + (abstract ? 1 : 0);
  std::memcpy(at, name.data(), name.size());
  const std::size_t size = offsetof(sockaddr_un, sun_path) + name.size() + 1;
  return with_socket(AF_UNIX, SOCK_STREAM, 0, [&](int fd) { return connects(fd, &to, size); });
}

int pair(const Target& /*target*/) {
  int fds[2];
  const int error = failed(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
  if (error == 0) {
    ::close(fds[0]);
    ::close(fds[1]);
  }
  return error;
}

constexpr Probe kProbes[] = {
    {"connects to loopback", "network", false, true, loopback},
    {"sends a datagram to loopback", "network", false, true, datagram},
    {"connects to the local network", "network", false, false, local_network},
    {"listens", "network", false, true, listens},
    {"connects to an abstract socket", "network", false, true,
     [](const Target& target) { return unix_socket(target, true); }},
    {"connects to a socket with a path", "network", false, true,
     [](const Target& target) { return unix_socket(target, false); }},
    {"opens an IPv6 socket", "network", false, false,
     [](const Target&) { return opens(AF_INET6, SOCK_STREAM, 0); }},
    {"opens a raw socket", "network", false, false,
     [](const Target&) { return opens(AF_INET, SOCK_RAW, IPPROTO_ICMP); }},
    {"opens a netlink socket", "network", false, true,
     [](const Target&) { return opens(AF_NETLINK, SOCK_RAW, 0); }},
    {"opens a packet socket", "network", false, false,
     [](const Target&) { return opens(AF_PACKET, SOCK_RAW, 0); }},
    {"opens a vsock socket", "network", false, false,
     [](const Target&) { return opens(AF_VSOCK, SOCK_STREAM, 0); }},
    {"opens an ALG socket", "network", false, false,
     [](const Target&) { return opens(AF_ALG, SOCK_SEQPACKET, 0); }},
    {"makes a pair of sockets", "network", false, true, pair},
};

}  // namespace

std::span<const Probe> network_probes() { return kProbes; }

}  // namespace goblin::testing
