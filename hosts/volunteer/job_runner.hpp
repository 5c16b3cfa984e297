// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The runner of one job on a host, and what it has mapped.
#pragma once

#include <map>

#include "hosts/volunteer/work.hpp"

namespace goblin::volunteer {

struct Work::JobRunner {
  std::shared_ptr<plugin::RunnerClient> client;
  wire::Digest plugin;
  std::map<wire::Digest, std::uint32_t> inputs;  ///< mapped blobs
  std::shared_ptr<SharedBuffer> arena;           ///< inline inputs and small outputs of a batch
  std::uint32_t arena_segment = 0;
  std::uint64_t arena_used = 0;
  std::uint64_t task_us = 50'000;    ///< recent time of one task; says how many make a batch
  std::uint64_t counted_cpu_us = 0;  ///< processor time that the cap has been charged for
  net::TimePoint used;
};

}  // namespace goblin::volunteer
