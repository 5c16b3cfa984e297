// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Parts of a product, computed anew by the backend and compared bit by bit. One thread.
#pragma once

#include <cstdint>

#include "goblin/device.hpp"
#include "plugins/matmul/box.hpp"
#include "plugins/matmul/task.hpp"

namespace goblin::matmul {

/// True when C's elements of these rows and columns have exactly the canonical bits. Takes at most
/// a few MiB, whatever the size. kCancelled when device says so.
Result<bool> exactly_right(const Product& product, Range rows, Range columns, const Device& device);

}  // namespace goblin::matmul
