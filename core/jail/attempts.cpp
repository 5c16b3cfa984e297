// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/jail/attempts.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace goblin::jail {
namespace {

bool opens(const char* path, int flags) {
  const int fd = ::open(path, flags | O_CLOEXEC, 0600);
  if (fd >= 0) {
    ::close(fd);
    if ((flags & O_CREAT) != 0) {
      ::unlink(path);
    }
  }
  return fd >= 0;
}

bool makes_process() {
  // Not fork(), which the C library surrounds with its own work.
  const long pid = ::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (pid == 0) {
    ::_exit(0);
  }
  if (pid > 0) {
    ::waitpid(static_cast<pid_t>(pid), nullptr, 0);
  }
  return pid > 0;
}

bool opens_socket(int family) {
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0) {
    ::close(fd);
  }
  return fd >= 0;
}

bool maps_unaccounted(int flags) {
  constexpr std::size_t kBytes = 1U << 20;
  void* at = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (at != MAP_FAILED) {
    ::munmap(at, kBytes);
  }
  return at != MAP_FAILED;
}

bool makes_memory_file() {
  const int fd = ::memfd_create("attempt", MFD_CLOEXEC);
  if (fd >= 0) {
    ::close(fd);
  }
  return fd >= 0;
}

}  // namespace

std::vector<std::string> attempt_escapes() {
  std::vector<std::string> succeeded;
  const auto attempt = [&succeeded](bool success, std::string what) {
    if (success) {
      succeeded.push_back(std::move(what));
    }
  };
  for (const char* path : {"/etc/passwd", "/usr", "/home", "/root", "/proc/1/status",
                           "/proc/self/mountinfo", "/sys", "/dev/null"}) {
    attempt(opens(path, O_RDONLY), std::string("it opened ") + path);
  }
  for (const char* path : {"/attempt", "/var/tmp/attempt", "/dev/shm/attempt"}) {
    attempt(opens(path, O_WRONLY | O_CREAT | O_EXCL), std::string("it made the file ") + path);
  }
  attempt(opens_socket(AF_INET), "it opened an internet socket");
  attempt(opens_socket(AF_UNIX), "it opened a Unix socket");
  attempt(makes_process(), "it started a process");
  attempt(::kill(-1, 0) == 0, "it may signal other processes");
  attempt(maps_unaccounted(MAP_SHARED), "it took shared memory");
  attempt(maps_unaccounted(MAP_PRIVATE | MAP_GROWSDOWN), "it took memory that grows downwards");
  attempt(makes_memory_file(), "it made a file in memory");
  attempt(::setuid(0) == 0 && ::geteuid() == 0, "it became root");
  return succeeded;
}

}  // namespace goblin::jail
