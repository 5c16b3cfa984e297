// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/jail/limits.hpp"

#include <sys/resource.h>

#include <csignal>
#include <string>

#include "core/jail/system_error.hpp"

namespace goblin::jail {
namespace {

// The socket, standard streams, a plugin, and the descriptors of one frame.
constexpr rlim_t kDescriptors = 64;

bool set(__rlimit_resource resource, rlim_t value) {
  const rlimit wanted{value, value};
  return ::setrlimit(resource, &wanted) == 0;
}

}  // namespace

void enter_limits(Report& report, std::uint32_t threads, bool alone) {
  const struct {
    const char* name;
    __rlimit_resource resource;
    rlim_t value;
  } all[] = {{"RLIMIT_CORE", RLIMIT_CORE, 0},
             {"RLIMIT_FSIZE", RLIMIT_FSIZE, 0},
             {"RLIMIT_NOFILE", RLIMIT_NOFILE, kDescriptors},
             {"RLIMIT_MEMLOCK", RLIMIT_MEMLOCK, 0},
             {"RLIMIT_MSGQUEUE", RLIMIT_MSGQUEUE, 0},
             {"RLIMIT_NICE", RLIMIT_NICE, 0},
             {"RLIMIT_RTPRIO", RLIMIT_RTPRIO, 0}};
  // What a plugin prints may go to a file, which must not grow; that is no reason to die.
  ::signal(SIGXFSZ, SIG_IGN);
  report.there(Layer::kRlimits);
  for (const auto& one : all) {
    if (!set(one.resource, one.value)) {
      report.missing(Layer::kRlimits, reason(one.name));
    }
  }
  if (!alone) {
    report.missing(Layer::kProcessLimit,
                   "the runner shares its user id with other processes of this computer");
  } else if (!set(RLIMIT_NPROC, threads)) {
    report.missing(Layer::kProcessLimit, reason("RLIMIT_NPROC"));
  } else {
    report.there(Layer::kProcessLimit);
  }
}

}  // namespace goblin::jail
