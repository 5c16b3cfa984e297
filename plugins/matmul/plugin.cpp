// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "kind.hpp"

GOBLIN_PLUGIN(goblin::matmul::MatmulKind);
