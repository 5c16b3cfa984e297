// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Random entries of a product of floats, recomputed in the canonical order while somebody else
// streams the operands by panels of k. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plugins/matmul/aligned.hpp"
#include "plugins/matmul/chacha.hpp"
#include "plugins/matmul/check_kernels.hpp"
#include "plugins/matmul/task.hpp"

namespace goblin::matmul {

class SampledEntries {
 public:
  struct Entry {
    std::int64_t row = 0;
    std::int64_t column = 0;
    double error = 0;  ///< of the canonical value against a far more precise sum, after right()
  };

  /// At least `count` entries, uniform and independent. A panel has at most `panel` terms, begins
  /// at a multiple of it, and `panel` is a multiple of kBlock that divides kChunk.
  SampledEntries(const Product& product, std::int64_t count, std::int64_t panel, ChaCha& random);

  /// Forgets what was summed.
  void start();
  /// Keeps the sampled elements of B's rows p + t …, best while they are in cache; p is the
  /// panel's first.
  void gather(std::int64_t p, std::int64_t t, std::int64_t rows);
  /// Adds the panel's `terms`, all of which were gathered.
  void carry(std::int64_t p, std::int64_t terms);
  /// After the last panel: do all entries of C have exactly the canonical bits?
  bool right();

  /// By column.
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

 private:
  /// A's element in the row of an entry.
  [[nodiscard]] const char* row_of(std::size_t entry, std::int64_t term) const;
  void prefetch(std::size_t group, std::int64_t term, std::int64_t terms) const;
  template <class Sum, class Out>
  bool right_as();

  const CheckKernels& kernels_;
  const Product& product_;
  const std::int64_t k_;
  std::vector<Entry> entries_;
  std::vector<std::int64_t> offsets_;  ///< bytes, of the entries' columns in a row of B
  AlignedVector<std::byte> gathered_;  ///< [panel][entries] elements of B
  std::vector<SampleSums> sums_;
};

}  // namespace goblin::matmul
