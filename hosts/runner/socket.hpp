// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The runner's end of the socket: whole frames, blocking.
#pragma once

#include <span>
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
  /// The next frame. kUnavailable when the socket has ended, at the peer's side or at ours, where a
  /// plugin can close it or put another file in its place; kCorrupt for a frame that breaks the
  /// rules.
  Result<Incoming> receive();
  /// kUnavailable as above.
  Result<void> send(wire::FrameType type, const wire::Bytes& message);

 private:
  Result<void> read_exactly(std::span<std::byte> out, std::vector<net::UniqueFd>& fds);
  int fd_;
};

}  // namespace goblin::runner
