// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#define GOBLIN_LEVEL baseline
#include "plugins/matmul/check_kernels.inc"
