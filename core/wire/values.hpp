// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Values that every message is made of. Plain copyable structs; no foreign library behind them.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "goblin/abi/types.h"
#include "goblin/error.hpp"

namespace goblin::wire {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

/// What names some bytes: BLAKE3 of a blob, SHA-256 of a plugin or (of a public key) of a peer.
struct Digest {
  std::array<std::uint8_t, 32> bytes{};

  auto operator<=>(const Digest&) const = default;
  /// 64 lower-case hexadecimal digits.
  [[nodiscard]] std::string hex() const;
  /// The reverse; kInvalidArgument unless exactly 64 hexadecimal digits.
  static Result<Digest> from_hex(std::string_view hex);
};

struct DigestHash {
  std::size_t operator()(const Digest& digest) const noexcept {
    std::size_t value = 0;
    std::memcpy(&value, digest.bytes.data(), sizeof value);
    return value;
  }
};

using DType = goblin_dtype_v1;

/// Bytes of one element; 0 for a number that is no dtype.
std::uint64_t dtype_size(DType dtype);
/// "f32"; "invalid" for a number that is no dtype.
std::string_view dtype_name(DType dtype);
/// Those of a set of GOBLIN_DTYPE_BIT, for people: "f32, f64".
std::string dtype_names(std::uint64_t set);

/// Bytes of a tensor without gaps. Checked: kInvalidArgument for an unknown dtype, a rank over
/// GOBLIN_MAX_RANK, a negative extent, or a size over 2^62 bytes (an extent of 0 counts as 1
/// there).
Result<std::uint64_t> tensor_bytes(DType dtype, std::span<const std::int64_t> shape);

/// Type and shape of a tensor whose elements stand row-major without gaps.
struct TensorSpec {
  DType dtype = 0;
  std::vector<std::int64_t> shape;

  bool operator==(const TensorSpec&) const = default;
  /// As tensor_bytes.
  [[nodiscard]] Result<std::uint64_t> size_bytes() const;
};

/// A number with its type.
struct Value {
  std::uint32_t type = GOBLIN_VALUE_I64;
  std::int64_t i = 0;
  double f = 0;

  bool operator==(const Value&) const = default;
  static Value of(std::int64_t v) { return {GOBLIN_VALUE_I64, v, 0}; }
  static Value of(double v) { return {GOBLIN_VALUE_F64, 0, v}; }
  /// For people: the fewest digits that tell it from its neighbours.
  [[nodiscard]] std::string text() const;
};

/// Tensors of at most so many bytes travel inside the frame that names them.
inline constexpr std::uint64_t kInlineBytes = 1024;
inline constexpr std::uint32_t kNotInline = 0xffffffff;

/// A tensor by digest, or, when small, by its place in the frame's payload.
struct TensorRef {
  TensorSpec spec;
  Digest digest;                             ///< zero when inline
  std::uint32_t inline_offset = kNotInline;  ///< into the payload of the frame

  bool operator==(const TensorRef&) const = default;
  [[nodiscard]] bool is_inline() const { return inline_offset != kNotInline; }
};

}  // namespace goblin::wire

template <>
struct std::hash<goblin::wire::Digest> {
  std::size_t operator()(const goblin::wire::Digest& digest) const noexcept {
    return goblin::wire::DigestHash{}(digest);
  }
};
