// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/jail/jail.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "core/jail/landlock.hpp"
#include "core/jail/limits.hpp"
#include "core/jail/namespaces.hpp"
#include "core/jail/root.hpp"
#include "core/jail/sanitized.hpp"
#include "core/jail/seccomp.hpp"
#include "core/jail/system_error.hpp"

namespace goblin::jail {
namespace {

/// What a process can deny itself without the kernel's special help, in the spawner.
Result<void> deny_the_obvious(const Policy& policy, Report& report) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    return refused("PR_SET_PDEATHSIG");
  }
  // The parent may have died before that took effect.
  if (policy.parent != 0 && ::getppid() != policy.parent) {
    return fail(Code::kUnavailable, "the daemon that started this runner is gone");
  }
  if (policy.note == policy.last_fd + 1) {
    ::fcntl(policy.note, F_SETFD, FD_CLOEXEC);
  }
  if (::close_range(static_cast<unsigned>(policy.last_fd) + 2, ~0U, 0) != 0) {
    return refused("close_range");
  }
  report.there(Layer::kDescriptors);
  // Best effort: without it the system may pick another process when memory runs out.
  const int score = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score >= 0) {
    [[maybe_unused]] const ssize_t n = ::write(score, "1000", 4);
    ::close(score);
  }
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return refused("PR_SET_NO_NEW_PRIVS");
  }
  report.there(Layer::kNoNewPrivileges);
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_CORE, &none) != 0) {
    return refused("RLIMIT_CORE");
  }
  if (policy.nice != 0) {
    errno = 0;
    if (::nice(policy.nice) == -1 && errno != 0) {
      return refused("nice " + std::to_string(policy.nice));
    }
  }
  if (::chdir("/") != 0) {
    return refused("chdir");
  }
  ::umask(077);
  return {};
}

/// In the groups that the daemon made: the spawner, and so all that it starts.
void join_cgroups(const std::vector<std::string>& directories, Report& report) {
  if (directories.empty()) {
    report.missing(Layer::kCgroup, "the daemon may make no control group");
    return;
  }
  report.there(Layer::kCgroup);
  for (const std::string& directory : directories) {
    const int fd = ::open((directory + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0 || ::write(fd, "0", 1) != 1) {
      report.missing(Layer::kCgroup, reason("joining " + directory));
    }
    if (fd >= 0) {
      ::close(fd);
    }
  }
}

pid_t own_number() {
  std::array<char, 32> text{};
  const ssize_t n = ::readlink("/proc/self", text.data(), text.size() - 1);
  return n > 0 ? static_cast<pid_t>(std::strtol(text.data(), nullptr, 10)) : 0;
}

/// Threads of this process. What is denied to one thread is not denied to others.
Result<unsigned> count_threads() {
  std::FILE* file = std::fopen("/proc/self/status", "re");
  if (file == nullptr) {
    return fail(Code::kUnavailable,
                "the runner cannot confine itself: /proc/self/status is "
                "missing; mount /proc");
  }
  std::array<char, 256> line{};
  unsigned count = 0;
  while (count == 0 && std::fgets(line.data(), line.size(), file) != nullptr) {
    if (std::sscanf(line.data(), "Threads: %u", &count) != 1) {
      count = 0;
    }
  }
  std::fclose(file);
  return count;
}

}  // namespace

Result<Jail> Jail::enter(const Policy& policy) {
  Jail jail(policy.require);
  GOBLIN_TRY_VOID(deny_the_obvious(policy, jail.report_));
  if constexpr (kSanitized) {
    jail.report_.left_out = "it was built with a sanitizer";
    ::close(policy.note);
  } else {
    join_cgroups(policy.cgroups, jail.report_);
    if (auto own = choose_own_uid(::getpid())) {
      jail.own_ = *own;
    } else {
      jail.report_.missing(Layer::kOwnUid, own.error().message);
    }
    GOBLIN_TRY_VOID(enter_namespaces(jail.report_, jail.own_));
    GOBLIN_TRY(SpawnerLine line, fork_runner(jail.report_, policy.note, policy.forbidden_exit));
    jail.line_.emplace(std::move(line));
    jail.spawner_ = ::getppid();
  }
  jail.pid_outside_ = own_number();
  if (jail.pid_outside_ > 0) {
    jail.report_.there(Layer::kWatchdog);
  } else {
    jail.report_.missing(Layer::kWatchdog, "/proc is missing");
  }
  return jail;
}

Result<void> Jail::take_away(std::uint32_t threads) {
  GOBLIN_TRY(const unsigned now, count_threads());
  if (now != 1) {
    return fail(Code::kUnavailable, "the runner cannot confine itself: the backend has started " +
                                        std::to_string(now - 1) +
                                        " threads of its own while it was loaded");
  }
  if (report_.has(Layer::kMountNamespace)) {
    if (auto entered = enter_empty_root(); !entered) {
      report_.missing(Layer::kMountNamespace, entered.error().message);
    }
  }
  enter_limits(report_, threads, own_ || report_.has(Layer::kUserNamespace));
  GOBLIN_TRY_VOID(drop_credentials(own_));
  if (own_) {
    report_.there(Layer::kOwnUid, std::to_string(own_->outside));
  }
  // A change of ids resets it.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
    return refused("PR_SET_PDEATHSIG or PR_SET_DUMPABLE");
  }
  // It may have died in between. In a pid namespace this process would have died with it.
  if (::getppid() != spawner_) {
    return fail(Code::kUnavailable, "the runner's spawner is gone");
  }
  report_.there(Layer::kNotDumpable);
  enter_landlock(report_);
  return {};
}

Result<void> Jail::close(std::uint32_t threads) {
  if constexpr (!kSanitized) {
    GOBLIN_TRY_VOID(take_away(threads));
    const int listener = enter_seccomp(report_);
    GOBLIN_TRY_VOID(line_->give(listener));
    line_.reset();
  }
  return judge(report_, require_);
}

}  // namespace goblin::jail
