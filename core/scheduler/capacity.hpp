// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// For how much memory a job's tasks are to be cut when its hosts differ. Values; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "core/validation/validation.hpp"

namespace goblin::scheduler {

/// What a host lends a job.
struct Lent {
  std::uint64_t memory_bytes = 0;
  std::uint32_t threads = 1;
  bool trusted = false;     ///< a validator
  std::uint64_t group = 0;  ///< see HostSpec
};

/// What tasks are to be cut for.
struct Cut {
  std::uint64_t hosts = 0;  ///< that do the ordinary work
  /// The largest task that is of use: one of these hosts can compute it, and whoever the policy
  /// asks besides can, too. What no validator can recompute is never accepted, nor what too few
  /// independent hosts can hold.
  std::uint64_t memory_bytes = 0;
  std::uint64_t min_memory_bytes = 0;  ///< see worthwhile_memory; no more than memory_bytes
  std::uint32_t threads = 0;           ///< of the host with most
};

/// `hosts`: all that take work of the job. Validators do ordinary work where there is nobody else,
/// or where the policy asks for more independent hosts than there are.
Cut cut_for(const validation::PolicySpec& policy, const std::vector<Lent>& hosts);

/// The memory of the smallest host that is worth cutting for. Tasks that fit a smaller host are
/// smaller for all, and smaller tasks move more bytes: half the memory is taken to cost 16 % of the
/// speed of all (traffic of a product grows by the square root; part of it is hidden behind the
/// computing). So it is the m that maximises threads(hosts with at least m) · m^(1/4), the smallest
/// one of equals: one host of ten with half the memory of the rest is left out, one of two is not,
/// unless it has less than a sixteenth. Hosts that are left out get nothing that they cannot hold.
/// 0 without hosts.
std::uint64_t worthwhile_memory(std::vector<Lent> hosts);

}  // namespace goblin::scheduler
