// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Stands in for core/jail/jail.cpp in goblin-bench-bare-runner, which exists to be measured beside
// the real one and is installed nowhere.
#include "core/jail/jail.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

namespace goblin::jail {

Result<Jail> Jail::enter(const Policy& policy) {
  Jail jail(policy.require);
  jail.report_.left_out = "this runner is for benchmarks";
  jail.pid_outside_ = ::getpid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Ended by SIGTERM as a spawner is, which a bare runner does by itself.
  return jail;
}

Result<void> Jail::close(std::uint32_t /*threads*/) { return judge(report_, require_); }

}  // namespace goblin::jail
