// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/plugin/child_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "core/plugin/runner_exit.hpp"

namespace goblin::plugin {
namespace {

/// File actions and attributes of posix_spawn, destroyed for certain.
struct SpawnPlan {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  SpawnPlan() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
};

std::vector<std::string> environment() {
  std::vector<std::string> all{"LC_ALL=C"};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name); value != nullptr) {
      all.push_back(std::string(name) + "=" + value);
    }
  }
#endif
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) {
    out.push_back(text.data());
  }
  out.push_back(nullptr);
  return out;
}

/// From what waitid fills in.
ExitStatus exit_status(const siginfo_t& info) {
  return info.si_code == CLD_EXITED ? ExitStatus{info.si_status, 0} : ExitStatus{0, info.si_status};
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const Options& options) {
  SpawnPlan plan;
  auto* actions = &plan.actions;
  ::posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
  if (options.output) {
    ::posix_spawn_file_actions_adddup2(actions, options.output.get(), 1);
    ::posix_spawn_file_actions_adddup2(actions, options.output.get(), 2);
  } else {
    ::posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
    if (!options.show_stderr) {
      ::posix_spawn_file_actions_addopen(actions, 2, "/dev/null", O_WRONLY, 0);
    }
  }
  ::posix_spawn_file_actions_adddup2(actions, options.socket.get(), kRunnerSocketFd);
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&plan.attributes, &none);
  ::posix_spawnattr_setsigdefault(&plan.attributes, &all);
  ::posix_spawnattr_setpgroup(&plan.attributes, 0);
  ::posix_spawnattr_setflags(
      &plan.attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> arguments{options.program};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> variables = environment();
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, options.program.c_str(), actions, &plan.attributes,
                                  pointers(arguments).data(), pointers(variables).data());
  if (error != 0) {
    return fail(error == ENOENT ? Code::kNotFound : Code::kUnavailable,
                "cannot start " + options.program + ": " + std::strerror(error));
  }
  // No race: until we reap it, the number belongs to this child.
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  ChildProcess child(pid, net::UniqueFd(pidfd));
  if (pidfd < 0) {
    return fail(Code::kUnavailable,
                std::string("cannot watch a child process: ") + std::strerror(errno));
  }
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      pidfd_(std::move(other.pidfd_)),
      status_(std::exchange(other.status_, std::nullopt)) {}

ChildProcess::~ChildProcess() {
  if (pid_ == 0 || status_) {
    return;
  }
  signal(SIGKILL);
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0 && errno == EINTR) {
  }
}

std::optional<ExitStatus> ChildProcess::poll() {
  if (status_ || pid_ == 0) {
    return status_;
  }
  // The leader ends first, is looked at, and only then reaped: its group's number stays ours while
  // the rest of the group is killed.
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return std::nullopt;
  }
  ::kill(-pid_, SIGKILL);
  ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED);
  status_ = exit_status(info);
  return status_;
}

void ChildProcess::signal(int number) const {
  if (pid_ != 0 && !status_) {
    // The group exists before posix_spawn returns.
    ::kill(-pid_, number);
  }
}

}  // namespace goblin::plugin
