// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "backends/common/tensor.hpp"

#include <cstdarg>
#include <cstdio>
#include <numeric>

namespace goblin::backends {
namespace {

struct Range {
  std::uintptr_t first;
  std::uintptr_t end;
};

// check_tensor has made sure that no offset overflows.
Range range_of(const goblin_tensor_v1& t) {
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (std::uint32_t d = 0; d < t.rank; ++d) {
    if (t.shape[d] == 0) return {0, 0};
    const std::int64_t reach = (t.shape[d] - 1) * t.strides[d];
    (reach < 0 ? low : high) += reach;
  }
  const auto base = reinterpret_cast<std::uintptr_t>(t.data);
  return {base + static_cast<std::uintptr_t>(low),
          base + static_cast<std::uintptr_t>(high + item_size(t.dtype))};
}

}  // namespace

goblin_status_v1 refuse(goblin_text_v1* message, goblin_status_v1 status, const char* format, ...) {
  if (message != nullptr && message->data != nullptr && message->capacity > 0) {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(message->data, message->capacity, format, arguments);
    va_end(arguments);
  }
  return status;
}

std::int64_t item_size(goblin_dtype_v1 dtype) {
  constexpr std::int64_t kSizes[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  return dtype <= GOBLIN_C128 ? kSizes[dtype] : 0;
}

const char* dtype_name(goblin_dtype_v1 dtype) {
  constexpr const char* kNames[] = {"unknown", "bool", "i8",  "i16",  "i32", "i64", "u8",  "u16",
                                    "u32",     "u64",  "f16", "bf16", "f32", "f64", "c64", "c128"};
  return dtype <= GOBLIN_C128 ? kNames[dtype] : kNames[0];
}

goblin_status_v1 check_tensor(const goblin_tensor_v1& tensor, const char* what,
                              goblin_text_v1* message) {
  const std::int64_t item = item_size(tensor.dtype);
  if (item == 0) {
    return refuse(message, GOBLIN_INVALID_ARGUMENT, "%s has dtype %u, which is no element type",
                  what, tensor.dtype);
  }
  if (tensor.rank > GOBLIN_MAX_RANK) {
    return refuse(message, GOBLIN_INVALID_ARGUMENT, "%s has rank %u; at most %u is possible", what,
                  tensor.rank, GOBLIN_MAX_RANK);
  }
  std::int64_t elements = 1;
  std::int64_t low = 0;
  std::int64_t high = item;
  for (std::uint32_t d = 0; d < tensor.rank; ++d) {
    const std::int64_t extent = tensor.shape[d];
    const std::int64_t stride = tensor.strides[d];
    if (extent < 0) {
      return refuse(message, GOBLIN_INVALID_ARGUMENT, "%s has shape[%u] = %lld; make it 0 or more",
                    what, d, static_cast<long long>(extent));
    }
    if (stride % item != 0) {
      return refuse(message, GOBLIN_INVALID_ARGUMENT,
                    "%s has strides[%u] = %lld bytes; make it a multiple of the item size %lld",
                    what, d, static_cast<long long>(stride), static_cast<long long>(item));
    }
    std::int64_t reach = 0;
    if (extent > 1 &&
        (__builtin_mul_overflow(extent - 1, stride, &reach) ||
         __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))) {
      return refuse(message, GOBLIN_INVALID_ARGUMENT,
                    "%s reaches beyond 2^63 bytes: shape[%u] = %lld, strides[%u] = %lld", what, d,
                    static_cast<long long>(extent), d, static_cast<long long>(stride));
    }
    if (__builtin_mul_overflow(elements, extent, &elements)) {
      return refuse(message, GOBLIN_INVALID_ARGUMENT, "%s has more than 2^63 elements", what);
    }
  }
  return GOBLIN_OK;
}

bool overlaps_itself(const goblin_tensor_v1& matrix) {
  const std::int64_t rows = matrix.shape[0];
  const std::int64_t columns = matrix.shape[1];
  if (rows == 0 || columns == 0) return false;
  // Strides are whole items, so elements meet only where i·s0 = j·s1; the smallest such step is
  // (s1/g, s0/g). A stride of 0 repeats along its own axis.
  const std::int64_t s0 = matrix.strides[0];
  const std::int64_t s1 = matrix.strides[1];
  if (rows == 1) return columns > 1 && s1 == 0;
  if (columns == 1) return s0 == 0;
  if (s0 == 0 || s1 == 0) return true;
  if (s0 == INT64_MIN || s1 == INT64_MIN) return true;
  const std::int64_t g = std::gcd(s0, s1);
  const std::int64_t di = s1 / g;
  const std::int64_t dj = s0 / g;
  return (di < 0 ? -di : di) < rows && (dj < 0 ? -dj : dj) < columns;
}

bool ranges_meet(const goblin_tensor_v1& one, const goblin_tensor_v1& other) {
  const Range a = range_of(one);
  const Range b = range_of(other);
  return a.first < b.end && b.first < a.end;
}

}  // namespace goblin::backends
