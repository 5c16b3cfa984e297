/* SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0 */
/* The header alone, as C11. */
#include "goblin/abi/types.h"

int goblin_header_types_compiles = (int)GOBLIN_ABI_MAJOR;
