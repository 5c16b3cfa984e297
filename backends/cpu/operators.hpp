// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The devices and operators of this backend; an operator lives in the file of its name.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels.hpp"
#include "goblin/abi/backend.h"

namespace goblin::backends::cpu {

/// Instruction levels that this CPU can run, best first.
struct Levels {
  const Level* list[3];
  std::uint64_t count;
};
const Levels& levels();

extern const goblin_operator_v1 kMatmul;

}  // namespace goblin::backends::cpu
