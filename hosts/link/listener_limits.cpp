// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/link/listener_limits.hpp"

#include <sys/resource.h>

#include <string>

namespace goblin::link {
namespace {

/// Descriptors of a daemon beside those of its connections: files, runners, results.
constexpr rlim_t kOthers = 256;

}  // namespace

net::ListenerLimits listener_limits(net::ListenerLimits limits, const log::Logger& logger) {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) == 0 && descriptors.rlim_cur != RLIM_INFINITY &&
      descriptors.rlim_cur < limits.connections + kOthers) {
    logger.warn("this process may open " + std::to_string(descriptors.rlim_cur) +
                " descriptors, too few for limits.peers = " + std::to_string(limits.connections) +
                ": raise its limit (`ulimit -Hn`, LimitNOFILE= of systemd) or lower limits.peers");
  }
  limits.refused = [logger](const std::string& why) { logger.warn(why); };
  return limits;
}

void raise_descriptor_limit() {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    descriptors.rlim_cur = descriptors.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &descriptors);
  }
}

}  // namespace goblin::link
