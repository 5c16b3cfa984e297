// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/plugin/child_output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace goblin::plugin {

Result<std::pair<net::UniqueFd, net::UniqueFd>> make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) {
    return fail(Code::kExhausted,
                std::string("cannot make a pipe for a runner: ") + std::strerror(errno));
  }
  std::pair<net::UniqueFd, net::UniqueFd> pair{net::UniqueFd(fds[0]), net::UniqueFd(fds[1])};
  if (::fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0) {
    return fail(Code::kInternal, std::string("fcntl: ") + std::strerror(errno));
  }
  return pair;
}

net::Task<void> read_output(net::Loop& loop, net::UniqueFd fd, OutputLine line) {
  OutputLines lines(std::move(line), loop.now());
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n > 0) {
      lines.add({buffer, static_cast<std::size_t>(n)}, loop.now());
      continue;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      break;
    }
    if (auto readable = co_await loop.readable(fd.get()); !readable) {
      break;
    }
  }
  lines.end(loop.now());
}

}  // namespace goblin::plugin
