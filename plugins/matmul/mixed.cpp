// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "mixed.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace goblin::matmul {
namespace {

// In the order in which NumPy promotes; the two integers are of one level.
enum class Class : std::uint8_t { kBool, kUnsigned, kSigned, kFloat, kComplex };

Class class_of(goblin_dtype_v1 dtype) {
  if (dtype == GOBLIN_BOOL) return Class::kBool;
  if (dtype <= GOBLIN_I64) return Class::kSigned;
  if (dtype <= GOBLIN_U64) return Class::kUnsigned;
  return dtype < GOBLIN_C64 ? Class::kFloat : Class::kComplex;
}

/// Bytes of the float that holds numbers of a class as well as NumPy asks for.
std::uint64_t float_bytes(goblin_dtype_v1 dtype) {
  const std::uint64_t size = dtype_size(dtype);
  switch (class_of(dtype)) {
    case Class::kBool:
      return 0;
    case Class::kFloat:
      return size;
    case Class::kComplex:
      return size / 2;
    default:
      return std::min<std::uint64_t>(size * 2, 8);
  }
}

goblin_dtype_v1 float_of(std::uint64_t bytes) {
  return bytes <= 2 ? GOBLIN_F16 : bytes == 4 ? GOBLIN_F32 : GOBLIN_F64;
}

std::string numpy_name(goblin_dtype_v1 dtype) {
  const std::string_view name = dtype_name(dtype);
  if (dtype == GOBLIN_BF16) return "ml_dtypes.bfloat16";
  if (dtype == GOBLIN_BOOL) return "np.bool_";
  const std::string bits(name.substr(1));
  switch (class_of(dtype)) {
    case Class::kSigned:
      return "np.int" + bits;
    case Class::kUnsigned:
      return "np.uint" + bits;
    case Class::kFloat:
      return "np.float" + bits;
    default:
      return "np.complex" + bits;
  }
}

std::string cast(const std::string& name, goblin_dtype_v1 to) {
  return name + " with " + name + ".astype(" + numpy_name(to) + ")";
}

}  // namespace

goblin_dtype_v1 common_dtype(goblin_dtype_v1 a, goblin_dtype_v1 b) {
  if (a == b) return a;
  if (class_of(a) > class_of(b)) std::swap(a, b);
  const Class low = class_of(a);
  const Class high = class_of(b);
  if (low == Class::kBool) return b;
  if (high == Class::kComplex) {
    return std::max(float_bytes(a), float_bytes(b)) > 4 ? GOBLIN_C128 : GOBLIN_C64;
  }
  if (high == Class::kFloat) {
    // bf16 has the range of f32 but fewer digits than f16: it stays only with 8-bit integers.
    if (b == GOBLIN_BF16 && low != Class::kFloat && dtype_size(a) == 1) return b;
    const bool both_halves = dtype_size(a) == 2 && dtype_size(b) == 2 && low == Class::kFloat;
    return both_halves ? goblin_dtype_v1{GOBLIN_F32}
                       : float_of(std::max(float_bytes(a), float_bytes(b)));
  }
  if (low == high) return dtype_size(a) > dtype_size(b) ? a : b;
  // a is unsigned, b signed: the signed type that holds both.
  if (dtype_size(b) > dtype_size(a)) return b;
  switch (dtype_size(a)) {
    case 1:
      return GOBLIN_I16;
    case 2:
      return GOBLIN_I32;
    case 4:
      return GOBLIN_I64;
    default:
      return GOBLIN_F64;
  }
}

std::string conversion(goblin_dtype_v1 a, goblin_dtype_v1 b) {
  const goblin_dtype_v1 common = common_dtype(a, b);
  if (common != a && common != b) {
    return "both, " + cast("a", common) + " and " + cast("b", common);
  }
  const bool widen_a = common == b;
  std::string text = cast(widen_a ? "a" : "b", common);
  if (class_of(a) == class_of(b)) {
    text += ", or " + cast(widen_a ? "b" : "a", widen_a ? a : b) + " if it loses nothing you need";
  }
  return text;
}

}  // namespace goblin::matmul
