// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Element types, numbers and tensors as a plugin's author sees them. Header-only, over abi/types.h.
#pragma once

#include <array>
#include <complex>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "goblin/abi/types.h"
#include "goblin/error.hpp"

namespace goblin {

/// An error on its way out of a plugin. Accessors below throw it for a wrong index or dtype, which
/// a hostile task can cause; the layer that faces the ABI (plugin.hpp) turns it into a status.
class Failure final : public std::exception {
 public:
  explicit Failure(Error error) : error_(std::move(error)) {}
  [[nodiscard]] const Error& error() const { return error_; }
  [[nodiscard]] const char* what() const noexcept override { return error_.message.c_str(); }

 private:
  Error error_;
};

/// The dtype of a C++ type. Authors may specialise it for their own 16-bit floats.
template <typename T>
struct DTypeOf;
#define GOBLIN_DTYPE_OF(type, dtype)                \
  template <>                                       \
  struct DTypeOf<type> {                            \
    static constexpr goblin_dtype_v1 value = dtype; \
  }
GOBLIN_DTYPE_OF(bool, GOBLIN_BOOL);
GOBLIN_DTYPE_OF(std::int8_t, GOBLIN_I8);
GOBLIN_DTYPE_OF(std::int16_t, GOBLIN_I16);
GOBLIN_DTYPE_OF(std::int32_t, GOBLIN_I32);
GOBLIN_DTYPE_OF(std::int64_t, GOBLIN_I64);
GOBLIN_DTYPE_OF(std::uint8_t, GOBLIN_U8);
GOBLIN_DTYPE_OF(std::uint16_t, GOBLIN_U16);
GOBLIN_DTYPE_OF(std::uint32_t, GOBLIN_U32);
GOBLIN_DTYPE_OF(std::uint64_t, GOBLIN_U64);
GOBLIN_DTYPE_OF(float, GOBLIN_F32);
GOBLIN_DTYPE_OF(double, GOBLIN_F64);
GOBLIN_DTYPE_OF(std::complex<float>, GOBLIN_C64);
GOBLIN_DTYPE_OF(std::complex<double>, GOBLIN_C128);
#undef GOBLIN_DTYPE_OF
template <typename T>
inline constexpr goblin_dtype_v1 kDType = DTypeOf<std::remove_const_t<T>>::value;

/// A set of dtypes: dtypes({GOBLIN_F32, GOBLIN_F64}).
constexpr std::uint64_t dtypes(std::initializer_list<goblin_dtype_v1> list) {
  std::uint64_t set = 0;
  for (goblin_dtype_v1 dtype : list) set |= GOBLIN_DTYPE_BIT(dtype);
  return set;
}

namespace detail {
struct DTypeInfo {
  std::string_view name;
  std::uint64_t size;
};
inline constexpr std::array<DTypeInfo, 16> kDTypes{{{"invalid", 0},
                                                    {"bool", 1},
                                                    {"i8", 1},
                                                    {"i16", 2},
                                                    {"i32", 4},
                                                    {"i64", 8},
                                                    {"u8", 1},
                                                    {"u16", 2},
                                                    {"u32", 4},
                                                    {"u64", 8},
                                                    {"f16", 2},
                                                    {"bf16", 2},
                                                    {"f32", 4},
                                                    {"f64", 8},
                                                    {"c64", 8},
                                                    {"c128", 16}}};
}  // namespace detail

/// Bytes of one element; 0 for a number that is no dtype.
constexpr std::uint64_t dtype_size(goblin_dtype_v1 dtype) {
  return dtype < detail::kDTypes.size() ? detail::kDTypes[dtype].size : 0;
}
/// "f32"; "invalid" for a number that is no dtype.
constexpr std::string_view dtype_name(goblin_dtype_v1 dtype) {
  return detail::kDTypes[dtype < detail::kDTypes.size() ? dtype : 0].name;
}

/// A number with its type; parameters of jobs and tasks, attributes of operators.
class Value {
 public:
  Value(std::integral auto v) : raw_{GOBLIN_VALUE_I64, 0, {}} {  // NOLINT: implicit on purpose
    raw_.as.i = static_cast<std::int64_t>(v);
  }
  Value(std::floating_point auto v) : raw_{GOBLIN_VALUE_F64, 0, {}} {  // NOLINT
    raw_.as.f = static_cast<double>(v);
  }
  Value(const goblin_value_v1& raw) : raw_(raw) {}  // NOLINT

  [[nodiscard]] bool is_i64() const { return raw_.type == GOBLIN_VALUE_I64; }
  [[nodiscard]] bool is_f64() const { return raw_.type == GOBLIN_VALUE_F64; }
  /// Throws Failure when it is not an integer.
  [[nodiscard]] std::int64_t i64() const {
    if (!is_i64()) throw Failure({Code::kInvalidArgument, "a parameter must be an integer"});
    return raw_.as.i;
  }
  [[nodiscard]] double f64() const {
    if (!is_f64()) throw Failure({Code::kInvalidArgument, "a parameter must be a float"});
    return raw_.as.f;
  }
  [[nodiscard]] const goblin_value_v1& raw() const { return raw_; }

 private:
  goblin_value_v1 raw_;
};

/// Type and shape of a tensor whose elements stand row-major without gaps.
struct TensorSpec {
  goblin_dtype_v1 dtype = 0;
  std::vector<std::int64_t> shape;
  bool operator==(const TensorSpec&) const = default;
};

/// "f32[3, 4]"
inline std::string describe_type(goblin_dtype_v1 dtype, std::span<const std::int64_t> shape) {
  std::string text(dtype_name(dtype));
  text += "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i != 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

/// A strided window on memory that somebody else owns. Copyable; strides are bytes.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const goblin_tensor_v1& raw) : raw_(raw) {}
  /// Row-major, over `data` (NULL: only a type). Throws Failure over GOBLIN_MAX_RANK dimensions.
  explicit Tensor(const TensorSpec& spec, void* data = nullptr) {
    if (spec.shape.size() > GOBLIN_MAX_RANK) {
      throw Failure({Code::kInvalidArgument,
                     "a tensor has " + std::to_string(spec.shape.size()) + " dimensions; at most " +
                         std::to_string(GOBLIN_MAX_RANK) + " are possible"});
    }
    raw_.data = data;
    raw_.dtype = spec.dtype;
    raw_.rank = static_cast<std::uint32_t>(spec.shape.size());
    auto stride = static_cast<std::int64_t>(dtype_size(spec.dtype));
    for (std::size_t i = spec.shape.size(); i-- > 0;) {
      raw_.shape[i] = spec.shape[i];
      raw_.strides[i] = stride;
      // Wraps for absurd shapes only, which whoever owns the memory refuses.
      stride = static_cast<std::int64_t>(static_cast<std::uint64_t>(stride) *
                                         static_cast<std::uint64_t>(spec.shape[i]));
    }
  }

  /// False for an optional input that was left out.
  [[nodiscard]] bool present() const { return raw_.dtype != 0; }
  [[nodiscard]] goblin_dtype_v1 dtype() const { return raw_.dtype; }
  [[nodiscard]] std::uint32_t rank() const { return raw_.rank; }
  [[nodiscard]] std::uint64_t item_size() const { return dtype_size(raw_.dtype); }
  [[nodiscard]] std::int64_t dim(std::size_t i) const { return raw_.shape[checked(i)]; }
  [[nodiscard]] std::int64_t stride(std::size_t i) const { return raw_.strides[checked(i)]; }
  [[nodiscard]] std::span<const std::int64_t> shape() const { return {raw_.shape, raw_.rank}; }
  [[nodiscard]] std::span<const std::int64_t> strides() const { return {raw_.strides, raw_.rank}; }
  [[nodiscard]] TensorSpec spec() const {
    return {raw_.dtype, {raw_.shape, raw_.shape + raw_.rank}};
  }
  /// Elements; who made the tensor has checked that this does not overflow.
  [[nodiscard]] std::int64_t size() const {
    std::int64_t n = 1;
    for (std::int64_t extent : shape()) n *= extent;
    return n;
  }
  [[nodiscard]] std::uint64_t size_bytes() const {
    return static_cast<std::uint64_t>(size()) * item_size();
  }
  [[nodiscard]] bool is_row_major() const {
    auto expected = static_cast<std::int64_t>(item_size());
    for (std::size_t i = raw_.rank; i-- > 0;) {
      if (raw_.shape[i] != 1 && raw_.strides[i] != expected) return size() == 0;
      expected *= raw_.shape[i];
    }
    return true;
  }

  [[nodiscard]] std::byte* bytes() const { return static_cast<std::byte*>(raw_.data); }
  /// Element (0, …, 0). Throws Failure unless T is the dtype's type; std::uint16_t also reads f16
  /// and bf16, std::uint8_t also bool.
  template <typename T>
  [[nodiscard]] T* data() const {
    using U = std::remove_const_t<T>;
    bool fits = raw_.dtype == kDType<U>;
    if constexpr (std::is_same_v<U, std::uint16_t>) {
      fits = fits || raw_.dtype == GOBLIN_F16 || raw_.dtype == GOBLIN_BF16;
    }
    if constexpr (std::is_same_v<U, std::uint8_t>) fits = fits || raw_.dtype == GOBLIN_BOOL;
    if (!fits) {
      throw Failure({Code::kInvalidArgument, "a tensor is " + std::string(dtype_name(raw_.dtype)) +
                                                 "; " + std::string(dtype_name(kDType<U>)) +
                                                 " was expected"});
    }
    return static_cast<T*>(raw_.data);
  }
  /// Element (i, j, …); indices are not checked against the shape.
  template <typename T, std::integral... Index>
  [[nodiscard]] T& at(Index... index) const {
    std::int64_t offset = 0;
    std::size_t axis = 0;
    ((offset += static_cast<std::int64_t>(index) * raw_.strides[axis++]), ...);
    return *reinterpret_cast<T*>(reinterpret_cast<std::byte*>(data<T>()) + offset);
  }

  [[nodiscard]] std::string type() const { return describe_type(raw_.dtype, shape()); }
  [[nodiscard]] const goblin_tensor_v1& raw() const { return raw_; }
  [[nodiscard]] goblin_tensor_v1& raw() { return raw_; }

 private:
  [[nodiscard]] std::size_t checked(std::size_t i) const {
    if (i >= raw_.rank) {
      throw Failure({Code::kInvalidArgument,
                     "a tensor " + type() + " has no dimension " + std::to_string(i)});
    }
    return i;
  }
  goblin_tensor_v1 raw_{};
};

/// Calls `visit(std::byte* row, std::int64_t stride)` for every innermost row of a tensor with
/// elements, in row-major order; a scalar is one row of one element. Stops at the first false.
template <typename Visit>
bool for_each_row(const Tensor& t, Visit&& visit) {
  if (t.size() == 0) return true;
  const std::size_t outer = t.rank() == 0 ? 0 : t.rank() - 1;
  const std::int64_t stride = t.rank() == 0 ? 0 : t.stride(outer);
  std::array<std::int64_t, GOBLIN_MAX_RANK> index{};
  for (;;) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < outer; ++i) offset += index[i] * t.stride(i);
    if (!visit(t.bytes() + offset, stride)) return false;
    std::size_t axis = outer;
    while (axis > 0 && ++index[axis - 1] == t.dim(axis - 1)) index[--axis] = 0;
    if (axis == 0) return true;
  }
}

/// Same types, same bits (NaN payloads and the sign of zero included), whatever the strides.
inline bool bits_equal(const Tensor& a, const Tensor& b) {
  if (a.spec() != b.spec()) return false;
  if (a.size() == 0) return true;
  if (a.is_row_major() && b.is_row_major()) {
    return std::memcmp(a.bytes(), b.bytes(), a.size_bytes()) == 0;
  }
  const std::uint64_t item = a.item_size();
  const std::int64_t length = a.rank() == 0 ? 1 : a.dim(a.rank() - 1);
  std::vector<std::pair<std::byte*, std::int64_t>> rows;
  for_each_row(b, [&](std::byte* row, std::int64_t stride) {
    rows.emplace_back(row, stride);
    return true;
  });
  std::size_t next = 0;
  return for_each_row(a, [&](std::byte* row, std::int64_t stride) {
    const auto [other, other_stride] = rows[next++];
    for (std::int64_t i = 0; i < length; ++i) {
      if (std::memcmp(row + i * stride, other + i * other_stride, item) != 0) return false;
    }
    return true;
  });
}

}  // namespace goblin
