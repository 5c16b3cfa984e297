// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Freivalds in the ring of integers modulo 2^n: C·R = A·(B·R) with R uniform. An element that is
// off by 2^v·odd is missed by one column of R with probability 2^(v−n) at most, so a wrong top bit
// needs many columns: 40 of 64 bits, or 48 of 32. Where sums cannot leave the output's range
// (i8 → i32 with k ≤ 2^16), equality holds over the integers, and eight columns modulo 2^64 of it
// do: 2^-33 each.
#include <algorithm>
#include <vector>

#include "plugins/matmul/check.hpp"
#include "plugins/matmul/check_kernels.hpp"

namespace goblin::matmul {
namespace {

constexpr std::int64_t kWrapLanes64 = 40;
constexpr std::int64_t kWrapLanes32 = 48;
constexpr std::int64_t kExactLanes = 8;
constexpr std::int64_t kNoWrapTerms = std::int64_t{1} << 16;
constexpr std::int64_t kPanel = 512;
constexpr std::int64_t kRows = 16;

Block block_of(const Tensor& t, std::int64_t row, std::int64_t rows, std::int64_t column,
               std::int64_t columns) {
  return {reinterpret_cast<const char*>(t.bytes()) + row * t.stride(0) + column * t.stride(1),
          t.stride(0), t.stride(1), rows, columns};
}

template <class T>
class Ring {
 public:
  Ring(std::int64_t lanes, const Device& device)
      : kernels_(check_kernels()), device_(device), lanes_(lanes) {}

  /// out[rows, lanes] += x · y[columns, lanes].
  Result<void> add_product(const Tensor& x, const std::vector<T>& y, std::vector<T>& out) {
    std::vector<T> packed(static_cast<std::size_t>(kRows * kPanel));
    for (std::int64_t p = 0; p < x.dim(1); p += kPanel) {
      const std::int64_t terms = std::min(kPanel, x.dim(1) - p);
      if (device_.cancelled()) return fail(Code::kCancelled, "matmul: cancelled");
      for (std::int64_t i = 0; i < x.dim(0); i += kRows) {
        const std::int64_t rows = std::min(kRows, x.dim(0) - i);
        const Block block = block_of(x, i, rows, p, terms);
        const T* const from = y.data() + p * lanes_;
        T* const into = out.data() + i * lanes_;
        if constexpr (sizeof(T) == 8) {
          kernels_.pack_u64(x.dtype(), block, packed.data(), kPanel);
          kernels_.narrow_u64(packed.data(), kPanel, rows, terms, from, lanes_, into);
        } else {
          kernels_.pack_u32(x.dtype(), block, packed.data(), kPanel);
          kernels_.narrow_u32(packed.data(), kPanel, rows, terms, from, lanes_, into);
        }
      }
    }
    return {};
  }

  /// Equal modulo 2^bits?
  Result<bool> holds(const Product& product, std::uint64_t bits, ChaCha& random) {
    auto zeros = [&](std::int64_t rows) {
      return std::vector<T>(static_cast<std::size_t>(rows * lanes_));
    };
    std::vector<T> r = zeros(product.b.dim(1));
    for (T& x : r) x = static_cast<T>(random.next());
    std::vector<T> right = zeros(product.b.dim(0));
    GOBLIN_TRY_VOID(add_product(product.b, r, right));
    std::vector<T> expected = zeros(product.a.dim(0));
    GOBLIN_TRY_VOID(add_product(product.a, right, expected));
    std::vector<T> found = zeros(product.c.dim(0));
    GOBLIN_TRY_VOID(add_product(product.c, r, found));
    T difference = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      difference = static_cast<T>(difference | static_cast<T>(found[i] - expected[i]));
    }
    const T mask = static_cast<T>(~std::uint64_t{0} >> (64 - std::min<std::uint64_t>(bits, 64)));
    return (difference & mask) == 0;
  }

 private:
  const CheckKernels& kernels_;
  const Device& device_;
  std::int64_t lanes_;
};

}  // namespace

Result<Verdict> check_integers(const Product& product, ChaCha& random, const Device& device) {
  const std::uint64_t bits = product.c.item_size() * 8;
  const bool no_wrap = product.a.dtype() == GOBLIN_I8 && product.c.dtype() == GOBLIN_I32 &&
                       product.a.dim(1) <= kNoWrapTerms;
  bool right = false;
  if (no_wrap) {
    GOBLIN_TRY(right, Ring<std::uint64_t>(kExactLanes, device).holds(product, 64, random));
  } else if (bits == 64) {
    GOBLIN_TRY(right, Ring<std::uint64_t>(kWrapLanes64, device).holds(product, 64, random));
  } else {
    GOBLIN_TRY(right, Ring<std::uint32_t>(kWrapLanes32, device).holds(product, bits, random));
  }
  return right ? Verdict::kAccept : Verdict::kReject;
}

}  // namespace goblin::matmul
