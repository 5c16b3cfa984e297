// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#define GOBLIN_LEVEL avx2
#include "plugins/matmul/check_kernels.inc"
