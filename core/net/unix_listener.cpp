// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>

#include "core/net/accept_loop.hpp"
#include "core/net/stream.hpp"
#include "core/net/unix_connect.hpp"

namespace goblin::net {
namespace {

class UnixListener final : public Listener {
 public:
  UnixListener(std::unique_ptr<AcceptLoop> accepting, std::string path)
      : accepting_(std::move(accepting)), path_(std::move(path)) {
    ::stat(path_.c_str(), &file_);
  }
  ~UnixListener() override { close(); }
  Task<Result<std::unique_ptr<Channel>>> accept() override { return accepting_->accept(); }
  void close() override {
    if (std::exchange(closed_, true)) {
      return;
    }
    // Only our own file: another process may have replaced it.
    struct stat now {};
    if (::lstat(path_.c_str(), &now) == 0 && now.st_dev == file_.st_dev &&
        now.st_ino == file_.st_ino) {
      ::unlink(path_.c_str());
    }
    accepting_->close();
  }
  [[nodiscard]] std::uint16_t port() const override { return 0; }

 private:
  std::unique_ptr<AcceptLoop> accepting_;
  std::string path_;
  struct stat file_ {};
  bool closed_ = false;
};

/// Removes a socket file that nobody listens on.
Result<void> remove_stale(const std::string& path, const SocketAddress& address) {
  struct stat file {};
  if (::lstat(path.c_str(), &file) != 0) {
    return {};
  }
  if (!S_ISSOCK(file.st_mode)) {
    return fail(Code::kUnavailable, path + " exists and is no socket: move it away");
  }
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) ==
          0 ||
      errno != ECONNREFUSED) {
    return fail(Code::kUnavailable,
                "socket " + path +
                    " is in use: another process listens on it; stop that one, or "
                    "choose another path");
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return fail(errno_error(Code::kUnavailable, "cannot replace the stale socket " + path, errno));
  }
  return {};
}

Task<Result<std::unique_ptr<Channel>>> adopt(Loop& loop, UniqueFd accepted,
                                             std::shared_ptr<Place> place) {
  co_return adopt_unix_with(loop, std::move(accepted), std::move(place));
}

}  // namespace

Result<std::unique_ptr<Listener>> listen_unix(Loop& loop, const std::string& path, bool group,
                                              ListenerLimits limits) {
  GOBLIN_TRY(const SocketAddress address, unix_address(path));
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) {
    return fail(errno_error(Code::kExhausted, "cannot open a socket", errno));
  }
  GOBLIN_TRY_VOID(remove_stale(path, address));
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) !=
      0) {
    return fail(errno_error(Code::kUnavailable, "cannot make the socket " + path, errno));
  }
  // Nobody can connect before listen(), so the mode is right for the first who does.
  if (::chmod(path.c_str(), group ? 0660 : 0600) != 0) {
    const int error = errno;
    ::unlink(path.c_str());
    return fail(errno_error(Code::kUnavailable, "cannot set the mode of socket " + path, error));
  }
  GOBLIN_TRY(auto accepting,
             AcceptLoop::create(
                 loop, std::move(socket), std::move(limits),
                 [&loop](UniqueFd accepted, SocketAddress,
                         std::shared_ptr<Place> place) -> Task<Result<std::unique_ptr<Channel>>> {
                   return adopt(loop, std::move(accepted), std::move(place));
                 }));
  return std::make_unique<UnixListener>(std::move(accepting), path);
}

}  // namespace goblin::net
