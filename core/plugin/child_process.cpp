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

#include "core/jail/sanitized.hpp"
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

/// A copy whose number is none that a child gets; none of none.
Result<net::UniqueFd> above(const net::UniqueFd& fd) {
  if (!fd) {
    return net::UniqueFd();
  }
  net::UniqueFd copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kRunnerNoteFd + 1));
  if (!copy) {
    return fail(Code::kExhausted,
                std::string("no descriptor left to start a runner: ") + std::strerror(errno));
  }
  return copy;
}

/// From what waitid fills in.
ExitStatus exit_status(const siginfo_t& info) {
  return info.si_code == CLD_EXITED ? ExitStatus{info.si_status, 0} : ExitStatus{0, info.si_status};
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const Options& options) {
  SpawnPlan plan;
  auto* actions = &plan.actions;
  // Out of the way of the numbers that the child gets.
  GOBLIN_TRY(const net::UniqueFd output, above(options.output));
  GOBLIN_TRY(const net::UniqueFd socket, above(options.socket));
  GOBLIN_TRY(const net::UniqueFd note, above(options.note));
  // Where writing to it is not allowed, what is written is lost as well.
  net::UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing) {
    nothing = net::UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  GOBLIN_TRY(const net::UniqueFd null, above(nothing));
  if (!null) {
    return fail(Code::kUnavailable, std::string("cannot open /dev/null: ") + std::strerror(errno));
  }
  ::posix_spawn_file_actions_adddup2(actions, null.get(), 0);
  if (output) {
    ::posix_spawn_file_actions_adddup2(actions, output.get(), 1);
    ::posix_spawn_file_actions_adddup2(actions, output.get(), 2);
  } else {
    ::posix_spawn_file_actions_adddup2(actions, null.get(), 1);
    if (!options.show_stderr) {
      ::posix_spawn_file_actions_adddup2(actions, null.get(), 2);
    }
  }
  if (socket) {
    ::posix_spawn_file_actions_adddup2(actions, socket.get(), kRunnerSocketFd);
  }
  if (note) {
    ::posix_spawn_file_actions_adddup2(actions, note.get(), kRunnerNoteFd);
  }
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
  kill();
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

void ChildProcess::kill() const {
  if (pid_ == 0 || status_) {
    return;
  }
  if constexpr (jail::kSanitized) {
    signal(SIGKILL);  // there is no spawner
    return;
  }
  // Killed at once, a spawner could not reap what it started. It runs no code of plugins.
  ::kill(pid_, SIGTERM);
  ::kill(pid_, SIGCONT);
}

void ChildProcess::signal(int number) const {
  if (pid_ != 0 && !status_) {
    // The group exists before posix_spawn returns.
    ::kill(-pid_, number);
  }
}

}  // namespace goblin::plugin
