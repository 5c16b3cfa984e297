// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Socket addresses and connecting. For this folder's .cpp files only.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "core/net/reactor.hpp"
#include "core/net/unique_fd.hpp"
#include "core/wire/values.hpp"

namespace goblin::net {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  /// Numeric IP address; "local" for a Unix socket.
  [[nodiscard]] std::string text() const;
  /// What caps count by: an IPv4 address, or the /64 of an IPv6 address.
  [[nodiscard]] std::string network() const;
  [[nodiscard]] std::uint16_t port() const;
};

/// kInvalidArgument for a path that does not fit.
Result<SocketAddress> unix_address(const std::string& path);
/// Blocks: call it on a worker. kUnavailable when the name is not known.
Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port,
                                           bool to_listen);
/// A connected, non-blocking socket.
Task<Result<UniqueFd>> connect_socket(Reactor& loop, SocketAddress address, TimePoint deadline);

}  // namespace goblin::net
