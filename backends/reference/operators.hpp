// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The operators of this backend, each in the file of its name.
#pragma once

#include "goblin/abi/backend.h"

namespace goblin::backends::reference {

inline constexpr std::uint64_t kDeviceCount = 1;

extern const goblin_operator_v1 kMatmul;

}  // namespace goblin::backends::reference
