// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A box of work: ranges over the batch, rows and columns of C and over chunks of k. Tiles, tasks
// and their halves are boxes. Values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "problem.hpp"

namespace goblin::matmul {

struct Range {
  std::int64_t begin = 0;
  std::int64_t count = 1;
  bool operator==(const Range&) const = default;
};

struct Box {
  std::array<Range, GOBLIN_MAX_RANK> batch{};  ///< as many as Problem::batch has; others [0, 1)
  Range rows;
  Range columns;
  Range terms;  ///< of k; begins at a multiple of kChunk and ends at one or at k
  /// The result keeps the sum of each chunk by itself (in Problem::sum), for a later merge.
  bool partial = false;
  bool operator==(const Box&) const = default;

  [[nodiscard]] std::int64_t items(const Problem& problem) const;
  [[nodiscard]] std::int64_t chunks() const;
  [[nodiscard]] double flops(const Problem& problem) const;
};

/// Bytes of one operand that a box reads (a broadcast batch dimension counts once), as sent.
double operand_bytes(const Problem& problem, const Layout& layout, const Box& box,
                     std::int64_t matrix_elements);
double a_bytes(const Problem& problem, const Box& box);
double b_bytes(const Problem& problem, const Box& box);
/// Bytes of a box's result as it comes back.
double c_bytes(const Problem& problem, const Box& box);

/// Two halves of a box, by a rule that depends on the box alone: a batch dimension, else the longer
/// of rows and columns. Never along k. Nothing when it is one element of C.
std::optional<std::array<Box, 2>> halve(const Problem& problem, const Box& box);

}  // namespace goblin::matmul
