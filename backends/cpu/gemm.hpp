// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The loops around the register tile: what is packed when, what lies where, which thread does what.
//
// C is cut into macro tiles; a macro tile is one thread's work from first to last value of k, so
// threads share nothing and change no bit. Per block of k a macro tile's part of B is packed whole,
// its part of A strip by strip, small enough for the L2 cache. Sums go straight into C when C's
// rows are contiguous and of the type that is accumulated in, else into scratch; the chunk at hand
// has scratch of its own where k has more than one.
#pragma once

#include <cstdint>

#include "backends/common/matmul_operands.hpp"
#include "backends/cpu/kernels.hpp"
#include "backends/cpu/workers.hpp"

namespace goblin::backends::cpu {

struct Plan {
  Matmul op;  // roles of A and B are exchanged when `swapped` (C^T = B^T·A^T; not for complex)
  Kernel kernel;
  bool swapped;
  bool direct;           // sums go straight into C
  std::int64_t element;  // bytes of what is accumulated in (of a part, if complex)
  std::int64_t parts;    // 2 for complex
  std::int64_t tile_m;   // rows of a macro tile, a multiple of kernel.rows
  std::int64_t tile_n;   // columns of a macro tile, a multiple of kernel.columns
  std::int64_t strip_m;  // rows of A packed at a time
  std::int64_t tiles_m, tiles_n;
  std::int64_t threads;  // that have something to do
  // Scratch of one thread: offsets in bytes, each 64-byte aligned.
  std::int64_t b_offset, total_offset, chunk_offset, thread_bytes;
};

/// For checked operands. `threads` ≥ 1.
Plan make_plan(const Matmul& op, const Level& level, std::uint32_t threads);

/// Computes C with `scratch` of plan.threads · plan.thread_bytes bytes, 64-byte aligned.
/// `workers` may be null. GOBLIN_OK or GOBLIN_CANCELLED.
goblin_status_v1 run_plan(const Plan& plan, const goblin_exec_v1* exec, Workers* workers);

}  // namespace goblin::backends::cpu
