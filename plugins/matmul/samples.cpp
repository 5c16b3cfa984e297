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
  for (const Entry& entry : entries_) offsets_.push_back(entry.column * product.b.stride(1));
  gathered_.resize(size(panel) * entries_.size() * product.b.item_size());
}

void SampledEntries::start() { sums_.assign(entries_.size() / size(kSampleLanes), SampleSums{}); }

void SampledEntries::gather(std::int64_t p, std::int64_t t, std::int64_t rows) {
  // Copies of members: the bytes that are stored might be theirs, for all that the compiler knows.
  const std::int64_t stride = product_.b.stride(0);
  const std::int64_t* const offsets = offsets_.data();
  const std::size_t count = offsets_.size();
  const std::byte* from = product_.b.bytes() + (p + t) * stride;
  auto copy = [&]<std::size_t item>() {
    const std::size_t width = count * item;
    std::byte* into = gathered_.data() + size(t) * width;
    // Four rows at a time: an offset that is read serves all of them.
    std::int64_t i = 0;
    for (; i + 4 <= rows; i += 4, from += 4 * stride, into += 4 * width) {
      const std::byte* const second = from + stride;
      const std::byte* const third = second + stride;
      const std::byte* const fourth = third + stride;
      for (std::size_t e = 0; e < count; ++e) {
        std::byte* const to = into + e * item;
        std::memcpy(to, from + offsets[e], item);
        std::memcpy(to + width, second + offsets[e], item);
        std::memcpy(to + 2 * width, third + offsets[e], item);
        std::memcpy(to + 3 * width, fourth + offsets[e], item);
      }
    }
    for (; i < rows; ++i, from += stride, into += width) {
      for (std::size_t e = 0; e < count; ++e) {
        std::memcpy(into + e * item, from + offsets[e], item);
      }
    }
  };
  const std::size_t item = product_.b.item_size();
  if (item == 2) copy.operator()<2>();
  if (item == 4) copy.operator()<4>();
  if (item == 8) copy.operator()<8>();
  if (item == 16) copy.operator()<16>();
}

const char* SampledEntries::row_of(std::size_t entry, std::int64_t term) const {
  const Tensor& a = product_.a;
  return reinterpret_cast<const char*>(a.bytes() + entries_[entry].row * a.stride(0) +
                                       term * a.stride(1));
}

void SampledEntries::prefetch(std::size_t group, std::int64_t term, std::int64_t terms) const {
  const std::int64_t item = product_.a.stride(1);
  if (group == sums_.size() || item != static_cast<std::int64_t>(product_.a.item_size())) return;
  for (std::size_t l = 0; l < size(kSampleLanes); ++l) {
    const char* const row = row_of(group * size(kSampleLanes) + l, term);
    for (std::int64_t at = 0; at < terms * item; at += 64) __builtin_prefetch(row + at);
  }
}

void SampledEntries::carry(std::int64_t p, std::int64_t terms) {
  const Tensor& a = product_.a;
  const auto item = static_cast<std::int64_t>(product_.b.item_size());
  const auto stride = static_cast<std::int64_t>(entries_.size()) * item;
  for (std::int64_t t = 0; t < terms; t += kBlock) {
    const std::int64_t some = std::min(kBlock, terms - t);
    const char* const right = reinterpret_cast<const char*>(gathered_.data()) + t * stride;
    for (std::size_t g = 0; g < sums_.size(); ++g) {
      // Eight rows from anywhere: the processor cannot guess them.
      prefetch(g + 1, p + t, some);
      const char* rows[kSampleLanes];
      for (std::size_t l = 0; l < size(kSampleLanes); ++l) {
        rows[l] = row_of(g * size(kSampleLanes) + l, p + t);
      }
      kernels_.sample_block(a.dtype(), rows, a.stride(1),
                            right + static_cast<std::int64_t>(g) * kSampleLanes * item, stride,
                            some, (p + t) % kChunk == 0, &sums_[g]);
    }
  }
  const std::int64_t end = p + terms;
  if (end % kChunk != 0 && end != k_) return;
  for (SampleSums& sums : sums_) kernels_.sample_chunk(a.dtype(), end <= kChunk, &sums);
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
