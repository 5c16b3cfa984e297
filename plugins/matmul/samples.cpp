// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "plugins/matmul/samples.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "goblin/numerics/dot.hpp"

namespace goblin::matmul {
namespace {

using numerics::kBlock;
using numerics::kChunk;

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace

SampledEntries::SampledEntries(const Product& product, std::int64_t count, std::int64_t panel,
                               ChaCha& random)
    : kernels_(check_kernels()), product_(product), k_(product.a.dim(1)) {
  const auto rows = static_cast<std::uint64_t>(product.c.dim(0));
  const auto columns = static_cast<std::uint64_t>(product.c.dim(1));
  entries_.resize(size((count + kSampleLanes - 1) / kSampleLanes * kSampleLanes));
  for (Entry& entry : entries_) {
    entry.row = static_cast<std::int64_t>(random.below(rows));
    entry.column = static_cast<std::int64_t>(random.below(columns));
  }
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& x, const Entry& y) { return x.column < y.column; });
  gathered_.resize(size(panel) * entries_.size() * product.b.item_size());
}

void SampledEntries::start() { sums_.assign(entries_.size() / size(kSampleLanes), SampleSums{}); }

void SampledEntries::gather(std::int64_t p, std::int64_t t, std::int64_t rows) {
  const Tensor& b = product_.b;
  const std::size_t item = b.item_size();
  auto copy = [&](auto width) {
    constexpr std::size_t kItem = decltype(width)::value;
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::byte* const from = b.bytes() + (p + t + i) * b.stride(0);
      std::byte* into = gathered_.data() + size(t + i) * entries_.size() * kItem;
      for (const Entry& s : entries_) {
        std::memcpy(into, from + s.column * b.stride(1), kItem);
        into += kItem;
      }
    }
  };
  if (item == 2) copy(std::integral_constant<std::size_t, 2>());
  if (item == 4) copy(std::integral_constant<std::size_t, 4>());
  if (item == 8) copy(std::integral_constant<std::size_t, 8>());
  if (item == 16) copy(std::integral_constant<std::size_t, 16>());
}

void SampledEntries::carry(std::int64_t p, std::int64_t terms) {
  const Tensor& a = product_.a;
  const Tensor& b = product_.b;
  const auto item = static_cast<std::int64_t>(b.item_size());
  const auto stride = static_cast<std::int64_t>(entries_.size()) * item;
  for (std::size_t g = 0; g < sums_.size(); ++g) {
    const char* rows[kSampleLanes];
    for (std::int64_t t = 0; t < terms; t += kBlock) {
      for (std::int64_t l = 0; l < kSampleLanes; ++l) {
        rows[l] = reinterpret_cast<const char*>(
            a.bytes() + entries_[g * size(kSampleLanes) + size(l)].row * a.stride(0) +
            (p + t) * a.stride(1));
      }
      kernels_.sample_block(a.dtype(), rows, a.stride(1),
                            reinterpret_cast<const char*>(gathered_.data()) + t * stride +
                                static_cast<std::int64_t>(g) * kSampleLanes * item,
                            stride, std::min(kBlock, terms - t), (p + t) % kChunk == 0, &sums_[g]);
    }
    const std::int64_t end = p + terms;
    if (end % kChunk == 0 || end == k_) {
      kernels_.sample_chunk(a.dtype(), end <= kChunk, &sums_[g]);
    }
  }
}

template <class Sum, class Out>
bool SampledEntries::right_as() {
  for (std::size_t g = 0; g < sums_.size(); ++g) {
    Sum totals[kSampleLanes];
    std::memcpy(totals, sums_[g].total, sizeof totals);
    for (std::size_t l = 0; l < size(kSampleLanes); ++l) {
      Entry& s = entries_[g * size(kSampleLanes) + l];
      const Out right = numerics::canonical_value<Out>(totals[l]);
      const std::byte* const found =
          product_.c.bytes() + s.row * product_.c.stride(0) + s.column * product_.c.stride(1);
      if (std::memcmp(found, &right, sizeof right) != 0) return false;
      if constexpr (std::is_floating_point_v<Sum>) {
        s.error =
            std::fabs((static_cast<double>(totals[l]) - sums_[g].plain[l]) - sums_[g].rest[l]);
      } else {
        const SampleSums& sums = sums_[g];
        s.error = std::hypot(
            (static_cast<double>(totals[l].re) - sums.plain[2 * l]) - sums.rest[2 * l],
            (static_cast<double>(totals[l].im) - sums.plain[2 * l + 1]) - sums.rest[2 * l + 1]);
      }
    }
  }
  return true;
}

bool SampledEntries::right() {
  using numerics::Complex;
  switch (product_.c.dtype()) {
    case GOBLIN_F16:
      return right_as<float, numerics::F16>();
    case GOBLIN_BF16:
      return right_as<float, numerics::BF16>();
    case GOBLIN_F32:
      return right_as<float, float>();
    case GOBLIN_F64:
      return right_as<double, double>();
    case GOBLIN_C64:
      return right_as<Complex<float>, Complex<float>>();
    default:
      return right_as<Complex<double>, Complex<double>>();
  }
}

}  // namespace goblin::matmul
