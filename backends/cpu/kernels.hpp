// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What an instruction level offers the loops of gemm.cpp: packing and a register tile, per dtype.
//
// Packed operands. A panel of A holds `rows` rows: step after step (k), each row's value; a complex
// value is its real part, then its imaginary part. A panel of B holds `columns` columns: step after
// step, each column's value; complex: all real parts, then all imaginary parts. Lanes past the
// matrix's edge are zero. Values are widened to the element that is accumulated in (f16 → f32,
// i8 → 32 bits, …). The first panel is 64-byte aligned, the others follow it without gaps.
#pragma once

#include <cstdint>

#include "goblin/abi/types.h"

namespace goblin::backends::cpu {

/// Packs `lanes` rows of A (or columns of B) by `steps` values of k. Strides are bytes.
using Pack = void (*)(void* panels, const char* source, std::int64_t lane_stride,
                      std::int64_t step_stride, std::int64_t lanes, std::int64_t steps);

/// What a tile does with its sums.
struct Store {
  bool add;    // c += sum, else c = sum
  bool final;  // NaN is stored as the canonical one; else as whichever came out
};

/// One block of at most kBlock steps for one tile: sums from +0, stored as `store` says. `c_row`
/// counts elements from row to row, `c_plane` from the real to the imaginary part of an element
/// (complex only).
using Tile = void (*)(const void* a_panel, const void* b_panel, std::int64_t steps, void* c,
                      std::int64_t c_row, std::int64_t c_plane, Store store);

/// Most heights that a kernel's tiles come in.
inline constexpr int kMaxHeights = 3;

struct Kernel {
  std::int64_t rows;
  std::int64_t columns;
  Pack pack_rows;
  Pack pack_columns;
  /// tiles[i] computes the upper (i + 1)·height rows of a panel; the last one is `rows` high.
  Tile tiles[kMaxHeights];
  std::int64_t height;
};

/// The largest register tile of any level, in bytes.
inline constexpr std::int64_t kMaxTileBytes = 4096;
/// Bytes past the last panel that a packing function may scribble on.
inline constexpr std::int64_t kPanelSlack = 64;

struct Level {
  const char* name;
  const char* description;
  Kernel kernels[GOBLIN_C128 + 1];  // by dtype of the inputs
};

#if defined(__x86_64__)
extern const Level kAvx512;
extern const Level kAvx2;
#endif
extern const Level kBaseline;

}  // namespace goblin::backends::cpu
