// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "spawn.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/net/unique_fd.hpp"

namespace goblin::client {
namespace {

constexpr int kReadyFd = 3;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) {
    out.push_back(text.data());
  }
  out.push_back(nullptr);
  return out;
}

/// In the child: only calls that are safe between fork and exec. Answers when something failed.
int become(char* const* argv, char* const* envp, int null_fd, int log_fd, int ready_fd,
           pid_t parent) {
  ::setpgid(0, 0);
  // The parent may have died before the request to die with it was made.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) {
    return errno == 0 ? ESRCH : errno;
  }
  if (::dup2(null_fd, 0) < 0 || ::dup2(log_fd, 1) < 0 || ::dup2(log_fd, 2) < 0 ||
      ::dup2(ready_fd, kReadyFd) < 0) {
    return errno;
  }
  ::syscall(SYS_close_range, kReadyFd + 1, ~0U, 0U);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGCHLD, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(argv[0], argv, envp);
  return errno;
}

/// Above the descriptors that the child gets, so that no dup2 overwrites another's source.
Result<net::UniqueFd> lifted(int fd) {
  net::UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 10));
  if (!copy) {
    return fail(Code::kUnavailable, std::string("descriptor: ") + std::strerror(errno));
  }
  return copy;
}

}  // namespace

Result<pid_t> spawn(std::vector<std::string> arguments, std::vector<std::string> environment,
                    int log_fd, int ready_fd) {
  const auto argv = pointers(arguments);
  const auto envp = pointers(environment);
  const net::UniqueFd opened(::open("/dev/null", O_RDWR | O_CLOEXEC));
  GOBLIN_TRY(const net::UniqueFd null_fd, lifted(opened.get()));
  GOBLIN_TRY(const net::UniqueFd log, lifted(log_fd));
  GOBLIN_TRY(const net::UniqueFd ready, lifted(ready_fd));
  const pid_t parent = ::getpid();
  // No handler of ours may run in the child while it shares our memory.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  volatile int failure = 0;
  const pid_t child = ::vfork();
  if (child == 0) {
    errno = 0;
    failure = become(argv.data(), envp.data(), null_fd.get(), log.get(), ready.get(), parent);
    ::_exit(127);
  }
  const int error = child < 0 ? errno : failure;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child > 0 && error != 0) {
    ::waitpid(child, nullptr, 0);
  }
  if (error != 0) {
    return fail(Code::kUnavailable,
                "'" + arguments.at(0) + "' cannot be started: " + std::strerror(error));
  }
  return child;
}

}  // namespace goblin::client
