// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#define GOBLIN_LEVEL avx512
#include "plugins/matmul/check_kernels.inc"
