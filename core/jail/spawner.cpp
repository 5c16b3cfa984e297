// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/jail/spawner.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "core/jail/seccomp.hpp"
#include "core/jail/system_error.hpp"

namespace goblin::jail {
namespace {

/// Dies with its parent. The parent may have died before that took effect: it is asked for a byte.
bool follow(int from_parent) {
  char byte = 0;
  return ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::read(from_parent, &byte, 1) == 1;
}

/// The first process of a pid namespace: orphans become its children, and all die with it. A runner
/// cannot be that itself: signals that it sends to itself would be ignored, abort()'s among them.
[[noreturn]] void be_first(int from_parent) {
  ::prctl(PR_SET_NAME, "goblin-first");
  ::signal(SIGCHLD, SIG_IGN);
  if (!follow(from_parent)) {
    ::_exit(1);
  }
  ::close_range(0, ~0U, 0);
  for (;;) {
    ::pause();
  }
}

/// What came through the line: a descriptor, or -1 at its end.
int receive_descriptor(int line) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(line, &message, MSG_CMSG_CLOEXEC) != 1) {
    return -1;
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) {
    return -1;
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

struct Watched {
  pid_t first = 0;  ///< 0: there is no pid namespace
  pid_t runner = 0;
  int line = -1;
  int signals = -1;
  int note = -1;
};

/// Reaps the runner, then what is left of its namespace.
int reap(const Watched& watched) {
  int status = 0;
  while (::waitpid(watched.runner, &status, 0) < 0 && errno == EINTR) {
  }
  if (watched.first != 0) {
    ::kill(watched.first, SIGKILL);
    while (::waitpid(watched.first, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  return status;
}

[[noreturn]] void leave_as(int status) {
  if (WIFEXITED(status)) {
    ::_exit(WEXITSTATUS(status));
  }
  const int number = WTERMSIG(status);
  ::signal(number, SIG_DFL);
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, number);
  ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
  ::kill(::getpid(), number);
  ::_exit(128 + number);
}

[[noreturn]] void supervise(const Watched& watched, int forbidden_exit) {
  ::prctl(PR_SET_NAME, "goblin-spawner");
  const int runner = static_cast<int>(::syscall(SYS_pidfd_open, watched.runner, 0));
  int listener = -1;
  bool line_open = true;
  std::string forbidden;
  for (bool ended = runner < 0; !ended;) {
    pollfd all[] = {{runner, POLLIN, 0},
                    {watched.signals, POLLIN, 0},
                    {line_open ? watched.line : -1, POLLIN, 0},
                    {listener, POLLIN, 0}};
    if (::poll(all, 4, -1) < 0) {
      ended = errno != EINTR;
      continue;
    }
    if (all[2].revents != 0) {
      listener = receive_descriptor(watched.line);
      line_open = false;
    }
    if ((all[3].revents & POLLIN) != 0 && forbidden.empty()) {
      forbidden = read_forbidden_call(listener);
    }
    if ((all[3].revents & (POLLHUP | POLLERR)) != 0) {
      ::close(listener);
      listener = -1;
    }
    ended = all[0].revents != 0 || all[1].revents != 0 || !forbidden.empty();
  }
  // Ended, or to be ended: it makes no difference to what is dead.
  ::kill(watched.runner, SIGKILL);
  const int status = reap(watched);
  if (!forbidden.empty()) {
    [[maybe_unused]] const ssize_t n =
        ::pwrite(watched.note, forbidden.data(), forbidden.size(), 0);
    ::_exit(forbidden_exit);
  }
  leave_as(status);
}

}  // namespace

SpawnerLine::SpawnerLine(SpawnerLine&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
SpawnerLine::~SpawnerLine() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

Result<void> SpawnerLine::give(int listener) {
  const int line = std::exchange(fd_, -1);
  if (listener < 0) {
    ::close(line);
    return {};
  }
  char byte = 'l';
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof listener);
  std::memcpy(CMSG_DATA(header), &listener, sizeof listener);
  const ssize_t sent = ::sendmsg(line, &message, MSG_NOSIGNAL);
  const int error = errno;
  ::close(line);
  ::close(listener);
  errno = error;
  if (sent != 1) {
    return refused("handing the filter's listener over");
  }
  return {};
}

Result<SpawnerLine> fork_runner(const Report& report, int note, int forbidden_exit) {
  Watched watched;
  watched.note = note;
  int line[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line) != 0) {
    return refused("socketpair");
  }
  sigset_t terminate;
  sigset_t before;
  ::sigemptyset(&terminate);
  ::sigaddset(&terminate, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &terminate, &before);
  watched.signals = ::signalfd(-1, &terminate, SFD_CLOEXEC);
  int go[2];
  if (watched.signals < 0 || ::pipe2(go, O_CLOEXEC) != 0) {
    return refused("signalfd or pipe");
  }
  if (report.has(Layer::kPidNamespace)) {
    watched.first = ::fork();
    if (watched.first == 0) {
      ::sigprocmask(SIG_SETMASK, &before, nullptr);
      ::close(go[1]);
      ::close(line[0]);
      be_first(go[0]);
    }
    if (watched.first < 0) {
      return refused("fork");
    }
  }
  watched.runner = ::fork();
  if (watched.runner == 0) {
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::close(watched.signals);
    ::close(go[1]);
    ::close(line[0]);
    ::close(note);
    if (!follow(go[0])) {
      ::_exit(1);
    }
    ::close(go[0]);
    return SpawnerLine(line[1]);
  }
  if (watched.runner < 0) {
    return refused("fork");
  }
  ::close(go[0]);
  ::close(line[1]);
  watched.line = line[0];
  [[maybe_unused]] const ssize_t n = ::write(go[1], "go", watched.first != 0 ? 2 : 1);
  ::close(go[1]);
  // The runner's alone: an end of them must show.
  for (int fd = 0; fd < 4; ++fd) {
    ::close(fd);
  }
  supervise(watched, forbidden_exit);
}

}  // namespace goblin::jail
