// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What the system lets this daemon use: descriptors, memory.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "hosts/cli/doctor/check.hpp"
#include "hosts/common/units.hpp"

namespace goblin::cli::doctor {
namespace {

/// Beside connections: files, runners, results.
constexpr std::uint64_t kOtherDescriptors = 256;

/// Of the control group that this process is in, and those above it; nothing where there is none.
std::optional<std::uint64_t> group_memory() {
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  std::optional<std::uint64_t> least;
  const auto look = [&least](const std::string& directory, std::string group, const char* file) {
    while (true) {
      std::ifstream limit(directory + group + "/" + file);
      std::uint64_t bytes = 0;
      // "max", and v1's number near 2^63, are no limits.
      if (limit >> bytes && bytes < 1ULL << 60) {
        least = std::min(least.value_or(bytes), bytes);
      }
      const std::size_t slash = group.rfind('/');
      if (slash == std::string::npos) {
        return;
      }
      group.resize(slash);
    }
  };
  while (std::getline(groups, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      look("/sys/fs/cgroup", group, "memory.max");
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      look("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
    }
  }
  return least;
}

}  // namespace

void check_limits(const Subject& subject, Findings& findings) {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    const std::uint64_t needed = subject.connections + kOtherDescriptors;
    const bool endless = descriptors.rlim_max == RLIM_INFINITY;
    const std::string text = endless ? "no limit" : std::to_string(descriptors.rlim_max);
    if (!endless && descriptors.rlim_max < needed) {
      const std::string remedy = "raise it to " + std::to_string(needed) +
                                 " (`ulimit -Hn`, LimitNOFILE= of systemd), or lower limits.peers";
      findings.note("descriptors",
                    text + ", too few for limits.peers = " + std::to_string(subject.connections),
                    remedy);
    } else {
      findings.good("descriptors", text);
    }
  }
  const auto group = group_memory();
  const auto pages = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
  const auto page = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PAGE_SIZE)));
  const std::uint64_t most = std::min(group.value_or(UINT64_MAX), pages * page);
  const std::string text = hosts::format_bytes(most) + (group ? " by its control group" : "");
  if (subject.memory_bytes > most) {
    findings.bad("memory",
                 text + ", less than the setting 'memory' (" +
                     hosts::format_bytes(subject.memory_bytes) + ")",
                 "lower the setting, or raise the limit of the group (MemoryMax= of systemd)");
  } else {
    findings.good("memory", text);
  }
}

}  // namespace goblin::cli::doctor
