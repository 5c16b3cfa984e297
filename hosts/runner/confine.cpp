// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/runner/confine.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cfenv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "core/plugin/runner_exit.hpp"

namespace goblin::runner {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Sanitizers reserve terabytes, trace their own process and print what they find.
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr std::size_t kThreadStack = std::size_t{2} << 20;

tl::unexpected<Error> refused(const std::string& what) {
  return fail(Code::kUnavailable,
              "the runner cannot confine itself: " + what + ": " + std::strerror(errno));
}

Result<void> limit(int resource, rlim_t value, const std::string& name) {
  const rlimit wanted{value, value};
  if (::setrlimit(static_cast<__rlimit_resource>(resource), &wanted) != 0) {
    return refused(name);
  }
  return {};
}

/// Private writable memory of this process as RLIMIT_DATA counts it, in bytes.
std::uint64_t data_bytes() {
  std::FILE* file = std::fopen("/proc/self/status", "re");
  if (file == nullptr) {
    return 0;
  }
  char line[256];
  unsigned long long kib = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "VmData: %llu kB", &kib) == 1) {
      break;
    }
  }
  std::fclose(file);
  return kib * 1024;
}

/// Best effort: without it the system may pick another process when memory runs out.
void volunteer_for_the_oom_killer() {
  const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    [[maybe_unused]] const ssize_t n = ::write(fd, "1000", 4);
    ::close(fd);
  }
}

}  // namespace

Result<void> confine(const Confinement& options) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    return refused("PR_SET_PDEATHSIG");
  }
  // The parent may have died before that took effect.
  if (options.parent != 0 && ::getppid() != options.parent) {
    return fail(Code::kUnavailable, "the daemon that started this runner is gone");
  }
  if (::close_range(plugin::kRunnerSocketFd + 1, ~0u, 0) != 0) {
    return refused("close_range");
  }
  volunteer_for_the_oom_killer();
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return refused("PR_SET_NO_NEW_PRIVS");
  }
  GOBLIN_TRY_VOID(limit(RLIMIT_CORE, 0, "RLIMIT_CORE"));
  // A core_pattern that is a pipe ignores RLIMIT_CORE; a process that is not dumpable leaves no
  // image of the researcher's data anywhere, and no other process of this user reads it.
  if (!kSanitized && ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
    return refused("PR_SET_DUMPABLE");
  }
  if (options.nice != 0) {
    errno = 0;
    if (::nice(options.nice) == -1 && errno != 0) {
      return refused("nice " + std::to_string(options.nice));
    }
  }
  if (::chdir("/") != 0) {
    return refused("chdir");
  }
  ::umask(077);
  reset_float_environment();
  return {};
}

Result<void> cap_memory(std::uint64_t bytes, std::uint32_t threads) {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kThreadStack);
  const int error = ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
  if (error != 0) {
    errno = error;
    return refused("the size of threads' stacks");
  }
  if (bytes == 0 || kSanitized) {
    return {};
  }
  const std::uint64_t own = data_bytes() + kThreadStack * (std::uint64_t{threads} + 1);
  if (bytes > UINT64_MAX / 2 - own) {
    return {};
  }
  return limit(RLIMIT_DATA, bytes + own, "RLIMIT_DATA of " + std::to_string(bytes) + " bytes");
}

void reset_float_environment() { std::fesetenv(FE_DFL_ENV); }

}  // namespace goblin::runner
