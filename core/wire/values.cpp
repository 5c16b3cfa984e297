// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/wire/values.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "goblin/tensor.hpp"

namespace goblin::wire {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string Digest::hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(64);
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Result<Digest> Digest::from_hex(std::string_view hex) {
  Digest digest;
  bool valid = hex.size() == 64;
  for (std::size_t i = 0; valid && i < 32; ++i) {
    const int high = hex_digit(hex[2 * i]);
    const int low = hex_digit(hex[2 * i + 1]);
    valid = high >= 0 && low >= 0;
    digest.bytes[i] = static_cast<std::uint8_t>((high << 4 | low) & 0xff);
  }
  if (!valid)
    return fail(Code::kInvalidArgument, "digest \"" + std::string(hex.substr(0, 80)) + "\" of " +
                                            std::to_string(hex.size()) +
                                            " characters; give exactly 64 hexadecimal digits");
  return digest;
}

std::uint64_t dtype_size(DType dtype) { return goblin::dtype_size(dtype); }

std::string_view dtype_name(DType dtype) { return goblin::dtype_name(dtype); }

std::string dtype_names(std::uint64_t set) {
  std::string names;
  for (DType dtype = GOBLIN_BOOL; dtype <= GOBLIN_C128; ++dtype) {
    if ((set & GOBLIN_DTYPE_BIT(dtype)) != 0) {
      names += (names.empty() ? "" : ", ") + std::string(dtype_name(dtype));
    }
  }
  return names;
}

std::string Value::text() const {
  if (type != GOBLIN_VALUE_F64) return std::to_string(i);
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), f).ptr;
  return {buffer.data(), end};
}

Result<std::uint64_t> TensorSpec::size_bytes() const { return tensor_bytes(dtype, shape); }

Result<std::uint64_t> tensor_bytes(DType dtype, std::span<const std::int64_t> shape) {
  constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 62;
  std::uint64_t size = dtype_size(dtype);
  if (size == 0)
    return fail(Code::kInvalidArgument,
                "dtype " + std::to_string(dtype) + "; give a number from 1 (bool) to 15 (c128)");
  if (shape.size() > GOBLIN_MAX_RANK)
    return fail(Code::kInvalidArgument, "rank " + std::to_string(shape.size()) +
                                            "; a tensor has at most " +
                                            std::to_string(GOBLIN_MAX_RANK) + " dimensions");
  bool empty = false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 0)
      return fail(Code::kInvalidArgument, "extent " + std::to_string(shape[d]) + " of dimension " +
                                              std::to_string(d) + "; give 0 or more");
    // Extents beside a 0 are checked too, so that no stride overflows either.
    empty = empty || shape[d] == 0;
    const auto extent = static_cast<std::uint64_t>(std::max<std::int64_t>(shape[d], 1));
    if (size > kMaxBytes / extent)
      return fail(Code::kInvalidArgument, "extent " + std::to_string(shape[d]) + " of dimension " +
                                              std::to_string(d) +
                                              " brings the size over 2^62 bytes");
    size *= extent;
  }
  return empty ? 0 : size;
}

}  // namespace goblin::wire
