// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The devices and operators of this backend; an operator lives in the file of its name.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels.hpp"
#include "backends/cpu/workers.hpp"
#include "goblin/abi/backend.h"

namespace goblin::backends::cpu {

/// Instruction levels that this CPU can run, best first.
struct Levels {
  const Level* list[3];
  std::uint64_t count;
};
const Levels& levels();

/// An operator and the threads that its calls may use.
struct Operator : goblin_operator_v1 {
  Workers* workers;  // null: each call starts its own
};

/// Threads for a call that came in through the table of an `Operator`.
inline Workers* workers_of(const goblin_operator_v1* self) {
  return static_cast<const Operator*>(self)->workers;
}

extern const Operator kMatmul;

}  // namespace goblin::backends::cpu
