// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Inner loops of the check, built once for each instruction level and chosen at run time. Which
// level runs changes rounding in the last bits of Freivalds' sums and nothing of the exact entries.
#pragma once

#include <cstdint>

#include "goblin/abi/types.h"

namespace goblin::matmul {

/// A strided block of elements; strides are bytes.
struct Block {
  const char* data;
  std::int64_t row_stride;
  std::int64_t column_stride;
  std::int64_t rows;
  std::int64_t columns;
};

/// Lanes of the narrow products are multiples of these; of project_rows, of kRowLanes.
inline constexpr std::int64_t kRowLanes = 4;
inline constexpr std::int64_t kLanesF64 = 8;
inline constexpr std::int64_t kLanesU64 = 8;
inline constexpr std::int64_t kLanesU32 = 16;
inline constexpr std::int64_t kSquareLanes = 8;

/// Entries that are recomputed to the bit, side by side.
inline constexpr std::int64_t kSampleLanes = 8;
/// State of kSampleLanes running canonical sums; opaque bytes, zero at first.
struct SampleSums {
  alignas(16) unsigned char block[16 * kSampleLanes];
  alignas(16) unsigned char chunk[16 * kSampleLanes];
  alignas(16) unsigned char total[16 * kSampleLanes];
  double plain[2 * kSampleLanes];  ///< the same sums in double (parts of complex ones) …
  double rest[2 * kSampleLanes];   ///< … and, of doubles, what their rounding lost
};

struct CheckKernels {
  /// out[i·ld + j·step] = element (i, j); dtype is f16, bf16, f32 or f64.
  void (*pack_f64)(goblin_dtype_v1 dtype, const Block& from, double* out, std::int64_t ld,
                   std::int64_t step);
  /// Integers, sign- or zero-extended and wrapped.
  void (*pack_u64)(goblin_dtype_v1 dtype, const Block& from, std::uint64_t* out, std::int64_t ld);
  void (*pack_u32)(goblin_dtype_v1 dtype, const Block& from, std::uint32_t* out, std::int64_t ld);

  /// For each row i: sum[i·stride] += Σ x[i, j]·r[j], squares[i·stride] += Σ x[i, j]².
  void (*dot_rows)(const double* x, std::int64_t ld, std::int64_t rows, std::int64_t columns,
                   const double* r, double* sum, double* squares, std::int64_t stride);
  /// squares[i] += Σ x[i, j]².
  void (*square_rows)(const double* x, std::int64_t ld, std::int64_t rows, std::int64_t columns,
                      double* squares);
  /// d[rows, lanes] += x[rows, k] · y[k, lanes]; d and y are row-major without gaps.
  void (*narrow_f64)(const double* x, std::int64_t ld, std::int64_t rows, std::int64_t k,
                     const double* y, std::int64_t lanes, double* d);
  void (*narrow_u64)(const std::uint64_t* x, std::int64_t ld, std::int64_t rows, std::int64_t k,
                     const std::uint64_t* y, std::int64_t lanes, std::uint64_t* d);
  void (*narrow_u32)(const std::uint32_t* x, std::int64_t ld, std::int64_t rows, std::int64_t k,
                     const std::uint32_t* y, std::int64_t lanes, std::uint32_t* d);

  // Rows of f32 or f64 whose columns are contiguous, straight from where they lie. Lines beyond the
  // block are prefetched, never read.

  /// For each block q of columns [begin[q], begin[q + 1]): sums[i·ld + q] += Σ x[i, j]·r[j]; and,
  /// unless squares is null, kSquareLanes partial sums of all rows' x[i, j]² are added to
  /// squares[q·kSquareLanes …].
  void (*project_blocks)(goblin_dtype_v1 dtype, const Block& from, const std::int64_t* begin,
                         std::int64_t blocks, const double* r, double* sums, std::int64_t ld,
                         double* squares);
  /// Against columns of Y that are contiguous too: d[i·ld + l] += Σ x[i, j]·y[l·y_stride + j] for
  /// `lanes` (≥ 1, rounded up to kRowLanes) columns; squares[i] += Σ x[i, j]².
  void (*project_rows)(goblin_dtype_v1 dtype, const Block& from, const double* y,
                       std::int64_t y_stride, std::int64_t lanes, double* d, std::int64_t ld,
                       double* squares);

  /// Adds `terms` ≤ kBlock terms, one block of the canonical order, to kSampleLanes sums: lane l
  /// multiplies a[l] + p·a_stride by b + p·b_stride + l·(item size). dtype is that of the inputs.
  /// `first`: the block is the first of its chunk.
  void (*sample_block)(goblin_dtype_v1 dtype, const char* const* a, std::int64_t a_stride,
                       const char* b, std::int64_t b_stride, std::int64_t terms, bool first,
                       SampleSums* sums);
  /// Ends a chunk; `first`: it is the first of the sum.
  void (*sample_chunk)(goblin_dtype_v1 dtype, bool first, SampleSums* sums);
};

/// The best that this processor runs; valid for the life of the process.
const CheckKernels& check_kernels();
/// All that this processor runs, best first, for tests.
struct CheckLevels {
  const CheckKernels* level[3];
  int count;
};
CheckLevels check_levels();

}  // namespace goblin::matmul
