// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "merge.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "goblin/numerics/canonical.hpp"
#include "goblin/numerics/dot.hpp"

namespace goblin::matmul {
namespace {

// Rows that are summed before they are written: keeps the sums in cache.
constexpr std::int64_t kStripe = 16;

template <class Visit>
void for_each_pair_of_rows(const Tensor& to, const Tensor& from, Visit&& visit) {
  if (to.size() == 0) return;
  const std::size_t outer = to.rank() - 1;
  std::array<std::int64_t, GOBLIN_MAX_RANK> index{};
  for (;;) {
    std::int64_t at = 0;
    std::int64_t source = 0;
    for (std::size_t i = 0; i < outer; ++i) {
      at += index[i] * to.stride(i);
      source += index[i] * from.stride(i);
    }
    visit(to.bytes() + at, from.bytes() + source);
    std::size_t axis = outer;
    while (axis > 0 && ++index[axis - 1] == to.dim(axis - 1)) index[--axis] = 0;
    if (axis == 0) return;
  }
}

/// `Sum` is what chunks are added in; complex numbers come as twice as many columns of parts.
template <class Sum, class Out, bool kOr = false>
void merge(const Tensor& c, const std::vector<PartialSums>& parts, std::int64_t per_element) {
  const std::int64_t rows = c.dim(0);
  const std::int64_t columns = c.dim(1) * per_element;
  std::vector<Sum> sums(static_cast<std::size_t>(kStripe * columns));
  std::vector<unsigned char> begun(static_cast<std::size_t>(kStripe * c.dim(1)));
  for (std::int64_t first = 0; first < rows; first += kStripe) {
    const std::int64_t last = std::min(rows, first + kStripe);
    std::fill(begun.begin(), begun.end(), static_cast<unsigned char>(0));
    for (const PartialSums& part : parts) {
      const std::int64_t top = std::max(first, part.row);
      const std::int64_t bottom = std::min(last, part.row + part.sums.dim(1));
      const std::int64_t width = part.sums.dim(2) * per_element;
      for (std::int64_t chunk = 0; chunk < part.sums.dim(0); ++chunk) {
        for (std::int64_t i = top; i < bottom; ++i) {
          Sum* const into = sums.data() + (i - first) * columns + part.column * per_element;
          const auto* const from =
              reinterpret_cast<const Sum*>(part.sums.bytes() + chunk * part.sums.stride(0) +
                                           (i - part.row) * part.sums.stride(1));
          unsigned char& some =
              begun[static_cast<std::size_t>((i - first) * c.dim(1) + part.column)];
          if (some == 0) {
            // Starts as the first chunk's sum: +0 + −0 would lose the sign.
            std::memcpy(into, from, static_cast<std::size_t>(width) * sizeof(Sum));
            std::fill_n(&some, part.sums.dim(2), static_cast<unsigned char>(1));
            continue;
          }
          for (std::int64_t j = 0; j < width; ++j) {
            if constexpr (kOr) {
              into[j] = static_cast<Sum>(into[j] | from[j]);
            } else {
              into[j] = static_cast<Sum>(into[j] + from[j]);
            }
          }
        }
      }
    }
    for (std::int64_t i = first; i < last; ++i) {
      auto* const out = reinterpret_cast<Out*>(c.bytes() + i * c.stride(0));
      const Sum* const from = sums.data() + (i - first) * columns;
      for (std::int64_t j = 0; j < columns; ++j) {
        out[j] = numerics::canonical_value<Out>(from[j]);
      }
    }
  }
}

}  // namespace

void copy_elements(const Tensor& to, const Tensor& from) {
  const std::int64_t length = to.dim(to.rank() - 1);
  const auto item = static_cast<std::int64_t>(to.item_size());
  const std::int64_t to_step = to.stride(to.rank() - 1);
  const std::int64_t from_step = from.stride(from.rank() - 1);
  for_each_pair_of_rows(to, from, [&](std::byte* into, const std::byte* source) {
    if (to_step == item && from_step == item) {
      std::memcpy(into, source, static_cast<std::size_t>(length * item));
      return;
    }
    for (std::int64_t i = 0; i < length; ++i) {
      std::memcpy(into + i * to_step, source + i * from_step, static_cast<std::size_t>(item));
    }
  });
}

void zero_elements(const Tensor& to) {
  for_each_row(to, [&](std::byte* row, std::int64_t stride) {
    const std::int64_t length = to.rank() == 0 ? 1 : to.dim(to.rank() - 1);
    for (std::int64_t i = 0; i < length; ++i) std::memset(row + i * stride, 0, to.item_size());
    return true;
  });
}

Result<void> merge_sums(const Tensor& c, const std::vector<PartialSums>& parts) {
  const goblin_dtype_v1 sum = parts.empty() ? 0 : parts[0].sums.dtype();
  switch (c.dtype()) {
    case GOBLIN_F16:
      merge<float, numerics::F16>(c, parts, 1);
      return {};
    case GOBLIN_BF16:
      merge<float, numerics::BF16>(c, parts, 1);
      return {};
    case GOBLIN_F32:
    case GOBLIN_C64:
      merge<float, float>(c, parts, c.dtype() == GOBLIN_C64 ? 2 : 1);
      return {};
    case GOBLIN_F64:
    case GOBLIN_C128:
      merge<double, double>(c, parts, c.dtype() == GOBLIN_C128 ? 2 : 1);
      return {};
    case GOBLIN_BOOL:
      merge<std::uint8_t, std::uint8_t, true>(c, parts, 1);
      return {};
    case GOBLIN_I8:
    case GOBLIN_U8:
      merge<std::uint8_t, std::uint8_t>(c, parts, 1);
      return {};
    case GOBLIN_I16:
    case GOBLIN_U16:
      merge<std::uint16_t, std::uint16_t>(c, parts, 1);
      return {};
    case GOBLIN_I32:
    case GOBLIN_U32:
      merge<std::uint32_t, std::uint32_t>(c, parts, 1);
      return {};
    case GOBLIN_I64:
    case GOBLIN_U64:
      merge<std::uint64_t, std::uint64_t>(c, parts, 1);
      return {};
    default:
      return fail(Code::kInternal, "sums of dtype " + std::string(dtype_name(sum)) + " into " +
                                       std::string(dtype_name(c.dtype())) + " are not defined");
  }
}

}  // namespace goblin::matmul
