// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Is a task's result right? docs/matmul.md derives the bounds and states what can escape.
//
//   small or thin products     recomputed whole
//   floats, complex            Freivalds on column blocks with an error bound calibrated on honest
//                              entries, and kSamples random entries recomputed to the bit
//   integers                   Freivalds in the ring of integers modulo 2^n
//   bool                       OR of ANDs is no ring: abstains (the lab recomputes elsewhere)
//
// A result is rejected only on proof: an element whose bits were computed anew and differ, or, for
// integers, an identity that honest results always satisfy. What cannot be decided abstains.
#pragma once

#include "goblin/device.hpp"
#include "goblin/kind.hpp"
#include "plugins/matmul/chacha.hpp"
#include "plugins/matmul/task.hpp"

namespace goblin::matmul {

/// Entries of a task that are recomputed exactly.
inline constexpr std::int64_t kSamples = 256;

/// Takes memory for O(rows·32 + columns) numbers beside the product. Inputs may be strided.
Result<Verdict> check_product(const TaskView& task, const Device& device, Seed seed);

/// One product of floats or complex numbers; `samples` > 0 entries are recomputed exactly.
Result<Verdict> check_floats(const Product& product, std::int64_t samples, ChaCha& random,
                             const Device& device);
/// One product of integers.
Result<Verdict> check_integers(const Product& product, ChaCha& random, const Device& device);

}  // namespace goblin::matmul
