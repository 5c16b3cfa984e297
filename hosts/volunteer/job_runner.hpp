// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The runner of one job on a host, and what it has mapped.
#pragma once

#include <map>
#include <vector>

#include "hosts/volunteer/work.hpp"

namespace goblin::volunteer {

/// Shared memory for the outputs of a large task, mapped in the runner as `segment`.
struct OutputBuffer {
  std::shared_ptr<SharedBuffer> memory;
  std::uint32_t segment = 0;
};

inline constexpr std::uint64_t kBatchUs = 50'000;  ///< a batch of small tasks takes about so long

struct Work::JobRunner {
  /// A buffer of at least `bytes` that nobody else holds: one that was used before (fresh pages
  /// cost more than the copy into them), or a new one. What the job left in it is its own. Buffers
  /// that are free and do not fit into `room` bytes beside it are unmapped.
  net::Task<Result<OutputBuffer>> output_buffer(std::uint64_t bytes, std::uint64_t room);

  /// Unmaps the buffers that nobody else holds, until at most `bytes` of them are left.
  net::Task<void> trim_buffers(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t free_bytes() const;  ///< of buffers that nobody else holds

  std::shared_ptr<plugin::RunnerClient> client;
  wire::Digest plugin;
  std::map<wire::Digest, std::uint32_t> inputs;  ///< mapped blobs
  std::shared_ptr<SharedBuffer> arena;           ///< inline inputs and small outputs of a batch
  std::uint32_t arena_segment = 0;
  std::uint64_t arena_used = 0;
  std::uint64_t task_us = kBatchUs;  ///< recent time of one task; says how many make a batch
  std::uint64_t counted_cpu_us = 0;  ///< processor time that the cap has been charged for
  net::TimePoint used;
  std::vector<OutputBuffer> buffers;  ///< mapped; free when nothing else owns the memory
};

}  // namespace goblin::volunteer
