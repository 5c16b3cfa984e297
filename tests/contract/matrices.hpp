// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Matrices for backend tests: every layout that an operand may have, filled with values that hurt.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "goblin/abi/types.h"
#include "goblin/numerics/half.hpp"

namespace goblin::test {

using Random = std::mt19937_64;

inline std::int64_t item_bytes(goblin_dtype_v1 dtype) {
  constexpr std::int64_t kSizes[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  return kSizes[dtype];
}

enum class Layout { kRows, kColumns, kPadded, kSliced, kReversed, kRepeatedRow, kRepeatedColumn };
inline constexpr Layout kInputLayouts[] = {
    Layout::kRows,     Layout::kColumns,     Layout::kPadded,        Layout::kSliced,
    Layout::kReversed, Layout::kRepeatedRow, Layout::kRepeatedColumn};
inline constexpr Layout kOutputLayouts[] = {Layout::kRows, Layout::kColumns, Layout::kPadded,
                                            Layout::kSliced, Layout::kReversed};

/// A matrix somewhere inside a buffer of its own. Copyable; the tensor is made on demand.
class Matrix final {
 public:
  Matrix(goblin_dtype_v1 dtype, std::int64_t rows, std::int64_t columns, Layout layout)
      : dtype_(dtype), rows_(rows), columns_(columns) {
    const std::int64_t item = item_bytes(dtype);
    row_ = columns * item;
    column_ = item;
    switch (layout) {
      case Layout::kRows:
        break;
      case Layout::kColumns:
        row_ = item;
        column_ = rows * item;
        break;
      case Layout::kPadded:
        row_ = (columns + 3) * item;
        break;
      case Layout::kSliced:
        row_ = (3 * columns + 1) * item;
        column_ = 3 * item;
        break;
      case Layout::kReversed:
        row_ = -(columns + 1) * item;
        column_ = -item;
        break;
      case Layout::kRepeatedRow:
        row_ = 0;
        break;
      case Layout::kRepeatedColumn:
        row_ = item;
        column_ = 0;
        break;
    }
    std::int64_t low = 0;
    std::int64_t high = item;
    for (const auto& [extent, stride] : {std::pair{rows, row_}, std::pair{columns, column_}}) {
      if (extent > 1) (stride < 0 ? low : high) += (extent - 1) * stride;
    }
    first_ = -low;
    bytes_.resize(static_cast<std::size_t>(high - low));
  }

  [[nodiscard]] goblin_tensor_v1 tensor() {
    goblin_tensor_v1 t{};
    t.data = bytes_.data() + first_;
    t.dtype = dtype_;
    t.rank = 2;
    t.shape[0] = rows_;
    t.shape[1] = columns_;
    t.strides[0] = row_;
    t.strides[1] = column_;
    return t;
  }

  [[nodiscard]] const char* at(std::int64_t i, std::int64_t j) const {
    return reinterpret_cast<const char*>(bytes_.data()) + first_ + i * row_ + j * column_;
  }
  template <class T>
  [[nodiscard]] T value(std::int64_t i, std::int64_t j) const {
    T v;
    std::memcpy(&v, at(i, j), sizeof v);
    return v;
  }

  [[nodiscard]] std::vector<unsigned char>& bytes() { return bytes_; }
  [[nodiscard]] const std::vector<unsigned char>& bytes() const { return bytes_; }
  [[nodiscard]] goblin_dtype_v1 dtype() const { return dtype_; }

 private:
  goblin_dtype_v1 dtype_;
  std::int64_t rows_, columns_, row_ = 0, column_ = 0, first_ = 0;
  std::vector<unsigned char> bytes_;
};

enum class Values { kPlain, kSpecial, kBits, kSmall, kTiny };
inline constexpr Values kAllValues[] = {Values::kPlain, Values::kSpecial, Values::kBits,
                                        Values::kSmall, Values::kTiny};

/// kPlain: uniform in (−1, 1). kSpecial: mostly plain, now and then a NaN, ±0, ±∞, a subnormal or
/// an extreme. kBits: any bits. kSmall: small integers, so that sums cancel. kTiny: products and
/// sums around the smallest numbers.
template <class T>
T random_float(Random& random, Values values) {
  const double plain = std::uniform_real_distribution<double>(-1, 1)(random);
  switch (values) {
    case Values::kSmall:
      return static_cast<T>(static_cast<int>(random() % 7) - 3);
    case Values::kTiny:
      return static_cast<T>(plain) *
             (sizeof(T) == 4 ? static_cast<T>(0x1p-70) : static_cast<T>(0x1p-535));
    case Values::kBits: {
      const std::uint64_t bits = random();
      T v;
      std::memcpy(&v, &bits, sizeof v);
      return v;
    }
    case Values::kSpecial: {
      using Limits = std::numeric_limits<T>;
      const T specials[] = {Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::signaling_NaN(),
                            Limits::infinity(),  -Limits::infinity(),  Limits::max(),
                            Limits::lowest()};
      const T harmless[] = {T{0},
                            -T{0},
                            Limits::denorm_min(),
                            -Limits::denorm_min(),
                            Limits::min(),
                            -Limits::min() / 2,
                            Limits::epsilon()};
      if (random() % 400 == 0) return specials[random() % std::size(specials)];
      if (random() % 3 == 0) return harmless[random() % std::size(harmless)];
      return static_cast<T>(plain);
    }
    case Values::kPlain:
      break;
  }
  return static_cast<T>(plain);
}

/// Fills the whole buffer, what lies between the elements included.
inline void fill(Matrix& matrix, Random& random, Values values) {
  auto& bytes = matrix.bytes();
  const auto each = [&](auto make) {
    using T = decltype(make());
    for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
      const T v = make();
      std::memcpy(bytes.data() + at, &v, sizeof v);
    }
  };
  switch (matrix.dtype()) {
    case GOBLIN_F32:
    case GOBLIN_C64:
      return each([&] { return random_float<float>(random, values); });
    case GOBLIN_F64:
    case GOBLIN_C128:
      return each([&] { return random_float<double>(random, values); });
    case GOBLIN_F16:
      if (values == Values::kBits) break;
      return each([&] { return numerics::round_to_f16(random_float<float>(random, values)); });
    case GOBLIN_BF16:
      if (values == Values::kBits) break;
      return each([&] { return numerics::round_to_bf16(random_float<float>(random, values)); });
    case GOBLIN_BOOL:
      // Mostly false, so that not every product of any length is true.
      return each([&] { return static_cast<std::uint8_t>(random() % 40 == 0); });
    default:
      break;
  }
  each([&] { return static_cast<std::uint8_t>(random()); });
}

}  // namespace goblin::test
