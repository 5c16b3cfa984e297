// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What a malicious plugin would try. Tests run each probe inside a jail, where it must fail, and
// those that anybody may do outside too, where they must succeed: or they would prove nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace goblin::testing {

/// What the probes go for.
struct Target {
  std::int64_t pid = 0;  ///< of the daemon
  std::int64_t port =
      0;  ///< a TCP listener on 127.0.0.1. Unix listeners have the abstract name
          ///< "goblin-probe-PORT"; those with a path are so called in /tmp, with ".sock"
  std::int64_t host = 0;  ///< hash_name() of this computer's name
};

struct Probe {
  const char* name;
  const char* group;
  bool fatal;    ///< in a jail that names forbidden calls, it ends its runner
  bool outside;  ///< succeeds for root outside a jail
  /// 0 when the attempt succeeded, else errno. Undoes what it did.
  int (*attempt)(const Target& target);
};

std::int64_t hash_name(const char* name);

std::span<const Probe> file_probes();
std::span<const Probe> network_probes();
std::span<const Probe> process_probes();
std::span<const Probe> resource_probes();
std::span<const Probe> kernel_probes();

inline std::vector<Probe> all_probes() {
  std::vector<Probe> all;
  for (const auto part :
       {file_probes(), network_probes(), process_probes(), resource_probes(), kernel_probes()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

/// errno after a call that failed (-1), else 0.
int failed(long result);

}  // namespace goblin::testing
