// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/runner/confine.hpp"

#include <pthread.h>
#include <sys/resource.h>

#include <cerrno>
#include <cfenv>
#include <cstdio>
#include <cstring>
#include <string>

#include "core/jail/sanitized.hpp"

namespace goblin::runner {
namespace {

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

}  // namespace

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
  if (bytes == 0 || jail::kSanitized) {
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
