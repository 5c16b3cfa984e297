// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Vectors that begin at a cache line. A register's load that crosses two lines costs twice, and the
// widest registers are as long as a line: of an array that malloc aligned to 16 bytes, every load
// would cross.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace goblin::matmul {

template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  LineAllocator() = default;
  template <class U>
  explicit LineAllocator(const LineAllocator<U>& /*other*/) {}

  T* allocate(std::size_t n) {
    if (n > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(::operator new(n * sizeof(T), kLine));
  }
  void deallocate(T* at, std::size_t /*n*/) { ::operator delete(at, kLine); }
  template <class U>
  bool operator==(const LineAllocator<U>& /*other*/) const {
    return true;
  }
};

template <class T>
using AlignedVector = std::vector<T, LineAllocator<T>>;

}  // namespace goblin::matmul
