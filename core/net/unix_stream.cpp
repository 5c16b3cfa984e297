// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/net/ancillary.hpp"
#include "core/net/stream.hpp"
#include "core/wire/frame.hpp"

namespace goblin::net {

Error errno_error(Code code, const std::string& what, int number) {
  return {code, what + ": " + std::generic_category().message(number)};
}

namespace {

constexpr std::size_t kControlBytes = CMSG_SPACE(sizeof(int) * wire::kMaxFrameFds);

class UnixStream final : public ByteStream {
 public:
  explicit UnixStream(UniqueFd socket) : socket_(std::move(socket)) {}

  [[nodiscard]] int fd() const override { return socket_.get(); }
  [[nodiscard]] bool carries_fds() const override { return true; }

  Result<std::size_t> read(std::span<std::byte> out, std::vector<UniqueFd>& fds) override {
    if (std::exchange(drained_, false)) {
      return 0;
    }
    iovec part{out.data(), out.size()};
    alignas(cmsghdr) std::array<std::byte, kControlBytes> control;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ssize_t n = 0;
    do {
      n = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return 0;
      }
      return fail(errno_error(Code::kUnavailable, "the connection was lost", errno));
    }
    take_descriptors(message, fds);
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
      return fail(Code::kCorrupt, "the peer sent more than " + std::to_string(wire::kMaxFrameFds) +
                                      " descriptors with a frame, or this process may not open "
                                      "more");
    }
    if (n == 0) {
      return fail(Code::kUnavailable, "the peer closed the connection");
    }
    // A short read has emptied the socket; asking again would only cost a system call.
    drained_ = static_cast<std::size_t>(n) < out.size() && fds.empty();
    return static_cast<std::size_t>(n);
  }

  Result<std::size_t> write(std::span<const iovec> parts, std::span<const UniqueFd> fds) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    alignas(cmsghdr) std::array<std::byte, kControlBytes> control{};
    if (!fds.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
      cmsghdr* c = CMSG_FIRSTHDR(&message);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
      for (std::size_t i = 0; i < fds.size(); ++i) {
        const int fd = fds[i].get();
        std::memcpy(CMSG_DATA(c) + i * sizeof fd, &fd, sizeof fd);
      }
    }
    ssize_t n = 0;
    do {
      n = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return 0;
      }
      return fail(errno_error(Code::kUnavailable, "the connection was lost", errno));
    }
    return static_cast<std::size_t>(n);
  }

  Result<bool> flush() override { return true; }
  void say_goodbye() override { ::shutdown(socket_.get(), SHUT_WR); }

 private:
  UniqueFd socket_;
  bool drained_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> unix_stream(UniqueFd socket) {
  return std::make_unique<UnixStream>(std::move(socket));
}

}  // namespace goblin::net
