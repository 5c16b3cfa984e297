// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The runner's end of the socket: whole frames, blocking.
#pragma once

#include <optional>
#include <vector>

#include "core/net/unique_fd.hpp"
#include "core/wire/frame.hpp"
#include "goblin/error.hpp"

namespace goblin::runner {

struct Incoming {
  wire::FrameType type{};
  wire::Bytes message;
  std::vector<net::UniqueFd> fds;
};

/// One thread may receive while another one sends.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  /// The next frame; none at the orderly end. kCorrupt for one that breaks the rules.
  Result<std::optional<Incoming>> receive();
  Result<void> send(wire::FrameType type, const wire::Bytes& message);

 private:
  /// False when the peer has closed before the first byte.
  Result<bool> read_exactly(std::span<std::byte> out, std::vector<net::UniqueFd>& fds);
  int fd_;
};

}  // namespace goblin::runner
