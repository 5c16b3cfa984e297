// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/plugin/runner_process.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "core/plugin/runner_exit.hpp"

namespace goblin::plugin {
namespace {

std::string signal_text(int number) {
  const char* text = ::sigdescr_np(number);
  return "signal " + std::to_string(number) + " (" + (text == nullptr ? "unknown" : text) + ")";
}

}  // namespace

Error socket_closed() { return {Code::kInternal, "the plugin closed its runner's socket"}; }

Error explain(const ExitStatus& status, const std::string& note) {
  if (status.signal == 0 && status.code == kRunnerForbidden) {
    return {Code::kInternal, "the plugin asked the kernel for '" + note +
                                 "', which the jail forbids, so its runner was killed"};
  }
  if (status.signal == SIGSYS) {
    return {Code::kInternal,
            "the plugin asked the kernel for what the jail forbids, so its runner was killed"};
  }
  if (status.signal == SIGKILL) {
    return {Code::kExhausted,
            "the runner was killed by the system, most likely because the machine ran out of "
            "memory: offer more, or make tasks smaller"};
  }
  if (status.signal != 0) {
    return {Code::kInternal,
            "the plugin crashed: its runner was killed by " + signal_text(status.signal) +
                (status.signal == SIGSEGV
                     ? "; it used memory that it may not, or a thread that it left behind wrote to "
                       "a result after execute had returned"
                     : "")};
  }
  switch (status.code) {
    case kRunnerMemory:
      return {Code::kExhausted, "the runner ran out of memory: offer more, or make tasks smaller"};
    case kRunnerConfine:
      return {Code::kUnavailable, note.empty() ? "the runner cannot confine itself" : note};
    case kRunnerProtocol:
      return {Code::kInternal,
              "the runner was sent what it does not understand: install it and this daemon from "
              "one version; if they are, the plugin has read from its runner's socket"};
    case kRunnerSocket:
      return socket_closed();
    default:
      return {Code::kInternal, "the plugin ended the process with exit status " +
                                   std::to_string(status.code) +
                                   ": it must return or throw instead"};
  }
}

std::string read_note(const net::UniqueFd& file) {
  std::array<char, 4096> text{};
  const ssize_t n = ::pread(file.get(), text.data(), text.size(), 0);
  return {text.data(), n > 0 ? static_cast<std::size_t>(n) : 0};
}

ProcessUsage read_usage(pid_t pid) {
  ProcessUsage read;
  if (pid <= 0) {
    return read;
  }
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) {
    return read;
  }
  char line[1024];
  const std::size_t n = std::fread(line, 1, sizeof line - 1, file);
  std::fclose(file);
  line[n] = '\0';
  // Fields after the name, which may hold anything: state is the third, utime the 14th.
  const char* rest = std::strrchr(line, ')');
  unsigned long long user = 0;
  unsigned long long system = 0;
  unsigned threads = 0;
  long long pages = 0;
  if (rest != nullptr &&
      std::sscanf(rest + 1,
                  " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %u %*d "
                  "%*u %*u %lld",
                  &user, &system, &threads, &pages) == 4) {
    const auto ticks = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
    read.usage.cpu_us = (user + system) * 1'000'000 / ticks;
    read.usage.resident_bytes =
        static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    read.threads = threads;
  }
  return read;
}

Result<std::pair<net::UniqueFd, net::UniqueFd>> make_sockets() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return fail(Code::kExhausted,
                std::string("cannot make a socket for a runner: ") + std::strerror(errno));
  }
  std::pair<net::UniqueFd, net::UniqueFd> pair{net::UniqueFd(fds[0]), net::UniqueFd(fds[1])};
  if (::fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0) {
    return fail(Code::kInternal, std::string("fcntl: ") + std::strerror(errno));
  }
  return pair;
}

Result<net::UniqueFd> make_note() {
  net::UniqueFd file(::memfd_create("goblin-note", MFD_CLOEXEC));
  if (!file) {
    return fail(Code::kExhausted,
                std::string("cannot make a file for a runner: ") + std::strerror(errno));
  }
  return file;
}

Result<net::UniqueFd> duplicate(int fd) {
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) {
    return fail(Code::kExhausted, "cannot pass descriptor " + std::to_string(fd) +
                                      " to a runner: " + std::strerror(errno));
  }
  return net::UniqueFd(copy);
}

Result<net::UniqueFd> read_only(int fd) {
  if ((::fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
    return duplicate(fd);
  }
  net::UniqueFd again(
      ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC));
  if (!again) {
    return fail(Code::kUnavailable,
                std::string("a file that was opened for writing cannot be lent to a runner for "
                            "reading only (") +
                    std::strerror(errno) + "): open it for reading, or let this user read it");
  }
  return again;
}

}  // namespace goblin::plugin
