// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/core/jail/surroundings.hpp"

#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace goblin::testing {
namespace {

constexpr const char* kVariable = "GOBLIN_TEST_SURROUNDINGS";
constexpr uid_t kUser = 12345;

std::string label(Surroundings where) { return std::to_string(static_cast<int>(where)); }

bool write_file(const char* path, std::string_view text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  const bool written =
      fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return written;
}

bool become_user() {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kUser, kUser, kUser) == 0 &&
         ::setresuid(kUser, kUser, kUser) == 0 &&
         ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;  // or its files in /proc are root's
}

/// A user namespace in which no more may be made, and then no capability to make any other.
bool lose_namespaces() {
  if (::unshare(CLONE_NEWUSER) != 0 || !write_file("/proc/self/setgroups", "deny") ||
      !write_file("/proc/self/gid_map", "1 12345 1") ||
      !write_file("/proc/self/uid_map", "1 12345 1") ||
      !write_file("/proc/sys/user/max_user_namespaces", "0")) {
    return false;
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const std::array<__user_cap_data_struct, 2> none{};
  return ::syscall(SYS_capset, &header, none.data()) == 0;
}

/// As a kernel without it: the call does not exist.
bool lose_landlock() {
  std::array<sock_filter, 4> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  sock_fprog program{filter.size(), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool lose_proc() {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::umount2("/proc", MNT_DETACH) == 0;
}

bool enter(Surroundings where) {
  switch (where) {
    case Surroundings::kUser:
      return become_user();
    case Surroundings::kNoNamespaces:
      return become_user() && lose_namespaces();
    case Surroundings::kNeither:
      return become_user() && lose_namespaces() && lose_landlock();
    case Surroundings::kNoProc:
      return lose_proc();
  }
  return false;
}

}  // namespace

bool runs_in(Surroundings where) {
  const char* value = std::getenv(kVariable);
  return value != nullptr && label(where) == value;
}

Rerun rerun(Surroundings where, const std::string& filter) {
  std::array<char, 4096> self{};
  if (::readlink("/proc/self/exe", self.data(), self.size() - 1) <= 0) {
    return {-1, "cannot find this program"};
  }
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) {
    return {-1, "pipe"};
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(fds[1], STDOUT_FILENO);
    ::dup2(fds[1], STDERR_FILENO);
    ::setenv(kVariable, label(where).c_str(), 1);
    if (!enter(where)) {
      ::dprintf(STDOUT_FILENO, "cannot make these surroundings: %s\n", std::strerror(errno));
      ::_exit(kCannotSurround);
    }
    const std::string argument = "--gtest_filter=" + filter;
    ::execl(self.data(), self.data(), argument.c_str(), static_cast<char*>(nullptr));
    ::dprintf(STDOUT_FILENO, "cannot start this program: %s\n", std::strerror(errno));
    ::_exit(kCannotSurround);
  }
  ::close(fds[1]);
  Rerun result;
  std::array<char, 4096> buffer{};
  ssize_t n = 0;
  while ((n = ::read(fds[0], buffer.data(), buffer.size())) > 0 || (n < 0 && errno == EINTR)) {
    result.output.append(buffer.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  }
  ::close(fds[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

}  // namespace goblin::testing
