// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "plugins/matmul/recompute.hpp"

#include <algorithm>
#include <vector>

#include "goblin/kind.hpp"

namespace goblin::matmul {
namespace {

constexpr std::int64_t kStripeBytes = 4 << 20;

Tensor part_of(const Tensor& matrix, Range rows, Range columns) {
  goblin_tensor_v1 raw = matrix.raw();
  if (raw.data != nullptr) {
    raw.data = matrix.bytes() + rows.begin * raw.strides[0] + columns.begin * raw.strides[1];
  }
  raw.shape[0] = rows.count;
  raw.shape[1] = columns.count;
  return Tensor(raw);
}

}  // namespace

Result<bool> exactly_right(const Product& product, Range rows, Range columns,
                           const Device& device) {
  const Range terms{0, product.a.dim(1)};
  const auto item = static_cast<std::int64_t>(product.c.item_size());
  const std::int64_t height = std::clamp<std::int64_t>(
      kStripeBytes / std::max<std::int64_t>(columns.count * item, 1), 1, rows.count);
  // Of 16-byte elements: as aligned as any element must be.
  std::vector<std::complex<double>> memory(
      static_cast<std::size_t>((height * columns.count * item + 15) / 16));
  for (std::int64_t first = 0; first < rows.count; first += height) {
    if (device.cancelled()) return fail(Code::kCancelled, "matmul: cancelled");
    const Range stripe{rows.begin + first, std::min(height, rows.count - first)};
    const Tensor inputs[2] = {part_of(product.a, stripe, terms),
                              part_of(product.b, terms, columns)};
    const Tensor outputs[1] = {
        Tensor({product.c.dtype(), {stripe.count, columns.count}}, memory.data())};
    GOBLIN_TRY_VOID(device.run("matmul", 1, inputs, outputs));
    if (!bits_equal(outputs[0], part_of(product.c, stripe, columns))) return false;
  }
  return true;
}

}  // namespace goblin::matmul
