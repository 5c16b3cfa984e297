// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/testing/lies/elements.hpp"

#include <cmath>
#include <cstring>

#include "goblin/numerics/half.hpp"

namespace goblin::testing {
namespace {

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

/// What does not fit, NaN included, wraps or becomes something else: it is a lie anyway.
std::uint64_t wrapped(double value) {
  if (!(std::fabs(value) < 0x1p62)) return 0x5555555555555555U;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
}

}  // namespace

bool is_float(goblin_dtype_v1 dtype) { return dtype >= GOBLIN_F16 && dtype <= GOBLIN_F64; }
bool is_complex(goblin_dtype_v1 dtype) { return dtype == GOBLIN_C64 || dtype == GOBLIN_C128; }

std::byte* place(const Tensor& t, std::int64_t i, std::int64_t j) {
  return t.bytes() + i * t.stride(0) + j * t.stride(1);
}

double element(const Tensor& t, std::int64_t i, std::int64_t j) {
  const std::byte* const at = place(t, i, j);
  switch (t.dtype()) {
    case GOBLIN_F16:
      return static_cast<double>(numerics::widen(load<numerics::F16>(at)));
    case GOBLIN_BF16:
      return static_cast<double>(numerics::widen(load<numerics::BF16>(at)));
    case GOBLIN_F32:
    case GOBLIN_C64:
      return static_cast<double>(load<float>(at));
    case GOBLIN_F64:
    case GOBLIN_C128:
      return load<double>(at);
    case GOBLIN_I8:
      return load<std::int8_t>(at);
    case GOBLIN_I16:
      return load<std::int16_t>(at);
    case GOBLIN_I32:
      return load<std::int32_t>(at);
    case GOBLIN_I64:
      return static_cast<double>(load<std::int64_t>(at));
    case GOBLIN_U16:
      return load<std::uint16_t>(at);
    case GOBLIN_U32:
      return load<std::uint32_t>(at);
    case GOBLIN_U64:
      return static_cast<double>(load<std::uint64_t>(at));
    default:  // bool, u8
      return load<std::uint8_t>(at);
  }
}

void set_element(const Tensor& t, std::int64_t i, std::int64_t j, double value) {
  std::byte* const at = place(t, i, j);
  switch (t.dtype()) {
    case GOBLIN_F16:
      return store(at, numerics::round_to_f16(static_cast<float>(value)));
    case GOBLIN_BF16:
      return store(at, numerics::round_to_bf16(static_cast<float>(value)));
    case GOBLIN_F32:
    case GOBLIN_C64:
      return store(at, static_cast<float>(value));
    case GOBLIN_F64:
    case GOBLIN_C128:
      return store(at, value);
    case GOBLIN_BOOL:
      return store(at, static_cast<std::uint8_t>(value != 0));
    default: {
      const std::uint64_t bits = wrapped(value);
      std::memcpy(at, &bits, t.item_size());
    }
  }
}

std::vector<double> elements(const Tensor& t) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(t.dim(0) * t.dim(1)));
  for (std::int64_t i = 0; i < t.dim(0); ++i) {
    for (std::int64_t j = 0; j < t.dim(1); ++j) values.push_back(element(t, i, j));
  }
  return values;
}

void set_elements(const Tensor& t, const std::vector<double>& values) {
  std::size_t at = 0;
  for (std::int64_t i = 0; i < t.dim(0); ++i) {
    for (std::int64_t j = 0; j < t.dim(1); ++j) set_element(t, i, j, values[at++]);
  }
}

}  // namespace goblin::testing
