/* SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0 */
/* The header alone, as C11. */
#include "goblin/abi/plugin.h"

int goblin_header_plugin_compiles = (int)GOBLIN_ABI_MAJOR;
