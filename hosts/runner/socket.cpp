// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/runner/socket.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/net/ancillary.hpp"

namespace goblin::runner {
Result<void> Socket::read_exactly(std::span<std::byte> out, std::vector<net::UniqueFd>& fds) {
  while (!out.empty()) {
    iovec part{out.data(), out.size()};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * wire::kMaxFrameFds)> control;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t n = ::recvmsg(fd_, &message, MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return fail(Code::kUnavailable, std::string("recvmsg: ") + std::strerror(errno));
    }
    net::take_descriptors(message, fds);
    if ((message.msg_flags & MSG_CTRUNC) != 0 || fds.size() > wire::kMaxFrameFds) {
      return fail(Code::kCorrupt, "too many descriptors with a frame");
    }
    if (n == 0) {
      return fail(Code::kUnavailable, "the socket was closed");
    }
    out = out.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Result<Incoming> Socket::receive() {
  Incoming frame;
  std::array<std::byte, wire::kHeaderBytes> raw;
  GOBLIN_TRY_VOID(read_exactly(raw, frame.fds));
  GOBLIN_TRY(const wire::FrameHeader header, wire::read_header(raw, wire::PeerState::kOpen));
  if (header.payload_bytes != 0) {
    return fail(Code::kCorrupt, "a runner takes no payload");
  }
  frame.type = static_cast<wire::FrameType>(header.type);
  frame.message.resize(header.message_bytes);
  if (header.message_bytes > 0) {
    GOBLIN_TRY_VOID(read_exactly(frame.message, frame.fds));
  }
  return frame;
}

Result<void> Socket::send(wire::FrameType type, const wire::Bytes& message) {
  const wire::FrameCaps caps =
      wire::frame_caps(static_cast<std::uint16_t>(type), wire::PeerState::kOpen);
  if (message.size() > caps.message_bytes) {
    return fail(Code::kInternal, "an answer of " + std::to_string(message.size()) +
                                     " bytes is over the cap of its type");
  }
  std::array<std::byte, wire::kHeaderBytes> raw;
  wire::write_header(
      {static_cast<std::uint16_t>(type), static_cast<std::uint32_t>(message.size()), 0}, raw);
  std::size_t sent = 0;
  const std::size_t total = raw.size() + message.size();
  while (sent < total) {
    std::array<iovec, 2> parts{};
    std::size_t count = 0;
    if (sent < raw.size()) {
      parts[count++] = {raw.data() + sent, raw.size() - sent};
    }
    const std::size_t skip = sent < raw.size() ? 0 : sent - raw.size();
    if (skip < message.size()) {
      parts[count++] = {const_cast<std::byte*>(message.data()) + skip, message.size() - skip};
    }
    msghdr out{};
    out.msg_iov = parts.data();
    out.msg_iovlen = count;
    const ssize_t n = ::sendmsg(fd_, &out, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return fail(Code::kUnavailable, std::string("sendmsg: ") + std::strerror(errno));
    }
    sent += static_cast<std::size_t>(n);
  }
  return {};
}

}  // namespace goblin::runner
