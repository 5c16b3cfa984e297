// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/jail/landlock.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/jail/system_error.hpp"

namespace goblin::jail {
namespace {

// As of ABI 6. The headers that this is built with may be older than the kernel that it runs on.
struct Ruleset {
  std::uint64_t files = 0;
  std::uint64_t network = 0;
  std::uint64_t scoped = 0;
};

// <linux/landlock.h> numbers the rights from bit 0; each version appended some.
constexpr std::uint64_t first_bits(unsigned count) { return (std::uint64_t{1} << count) - 1; }
constexpr unsigned kFileRights[] = {0, 13, 14, 15, 15, 16};  // by ABI; 5 and later: the last
constexpr std::uint64_t kTcpBindAndConnect = 3;              // ABI 4
constexpr std::uint64_t kAbstractSocketsAndSignals = 3;      // ABI 6

}  // namespace

void enter_landlock(Report& report) {
  constexpr unsigned kVersion = 1;  // LANDLOCK_CREATE_RULESET_VERSION
  const long abi = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, kVersion);
  if (abi < 1) {
    report.missing(Layer::kLandlock, errno == EOPNOTSUPP ? "it is switched off in this kernel"
                                                         : reason("this kernel has none"));
    return;
  }
  Ruleset deny;
  deny.files = first_bits(kFileRights[std::min(abi, 5L)]);
  deny.network = abi >= 4 ? kTcpBindAndConnect : 0;
  deny.scoped = abi >= 6 ? kAbstractSocketsAndSignals : 0;
  const std::size_t size = abi >= 6 ? sizeof deny : abi >= 4 ? 16 : 8;
  const long rules = ::syscall(SYS_landlock_create_ruleset, &deny, size, 0);
  if (rules < 0) {
    report.missing(Layer::kLandlock, reason("landlock_create_ruleset"));
    return;
  }
  // No rule allows anything.
  if (::syscall(SYS_landlock_restrict_self, rules, 0) != 0) {
    report.missing(Layer::kLandlock, reason("landlock_restrict_self"));
  } else {
    report.there(Layer::kLandlock, "ABI " + std::to_string(abi) + ": files" +
                                       (abi >= 4 ? ", TCP" : "") +
                                       (abi >= 6 ? ", abstract sockets, signals" : ""));
  }
  ::close(static_cast<int>(rules));
}

}  // namespace goblin::jail
