// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Checks of one tensor and of the way two lie in memory; messages that name what was wrong.
#pragma once

#include <cstdint>

#include "goblin/abi/types.h"

namespace goblin::backends {

/// Writes a message for a human, cut to the room that the caller gave. Returns `status`.
[[gnu::format(printf, 3, 4)]] goblin_status_v1 refuse(goblin_text_v1* message,
                                                      goblin_status_v1 status, const char* format,
                                                      ...);

/// Bytes of one element; 0 for a number that is no dtype.
std::int64_t item_size(goblin_dtype_v1 dtype);
/// "f32", …; "unknown".
const char* dtype_name(goblin_dtype_v1 dtype);

/// Refuses rank, dtype, extents and strides that no tensor can have. `what` is "matmul: a" or such.
goblin_status_v1 check_tensor(const goblin_tensor_v1& tensor, const char* what,
                              goblin_text_v1* message);

/// Whether two elements of a checked tensor of rank 2 share memory.
bool overlaps_itself(const goblin_tensor_v1& matrix);

/// Whether the ranges of addresses from the first to the last byte of two checked tensors meet.
/// Interleaved windows on one buffer count as overlapping.
bool ranges_meet(const goblin_tensor_v1& one, const goblin_tensor_v1& other);

}  // namespace goblin::backends
