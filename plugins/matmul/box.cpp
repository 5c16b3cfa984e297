// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "box.hpp"

#include "goblin/numerics/canonical.hpp"

namespace goblin::matmul {

std::int64_t Box::items(const Problem& problem) const {
  std::int64_t count = 1;
  for (std::size_t i = 0; i < problem.batch.size(); ++i) count *= batch[i].count;
  return count;
}

std::int64_t Box::chunks() const { return (terms.count + numerics::kChunk - 1) / numerics::kChunk; }

double Box::flops(const Problem& problem) const {
  const bool complex = problem.in == GOBLIN_C64 || problem.in == GOBLIN_C128;
  return (complex ? 8.0 : 2.0) * static_cast<double>(items(problem)) *
         static_cast<double>(rows.count) * static_cast<double>(columns.count) *
         static_cast<double>(terms.count);
}

double operand_bytes(const Problem& problem, const Layout& layout, const Box& box,
                     std::int64_t matrix_elements) {
  double bytes = static_cast<double>(matrix_elements) * static_cast<double>(problem.in_bytes());
  for (std::size_t i = 0; i < problem.batch.size(); ++i) {
    if (layout.batch[i] != 0) bytes *= static_cast<double>(box.batch[i].count);
  }
  return bytes;
}

double a_bytes(const Problem& problem, const Box& box) {
  return operand_bytes(problem, problem.a, box, box.rows.count * box.terms.count);
}

double b_bytes(const Problem& problem, const Box& box) {
  return operand_bytes(problem, problem.b, box, box.terms.count * box.columns.count);
}

double c_bytes(const Problem& problem, const Box& box) {
  const double elements = static_cast<double>(box.items(problem)) *
                          static_cast<double>(box.rows.count) *
                          static_cast<double>(box.columns.count);
  return box.partial ? elements * static_cast<double>(box.chunks()) *
                           static_cast<double>(problem.sum_bytes())
                     : elements * static_cast<double>(problem.out_bytes());
}

std::optional<std::array<Box, 2>> halve(const Problem& problem, const Box& box) {
  std::array<Box, 2> parts{box, box};
  auto cut = [&](Range Box::*member) {
    const Range whole = box.*member;
    const std::int64_t first = whole.count - whole.count / 2;
    (parts[0].*member).count = first;
    parts[1].*member = {whole.begin + first, whole.count - first};
  };
  for (std::size_t i = 0; i < problem.batch.size(); ++i) {
    const Range whole = box.batch[i];
    if (whole.count == 1) continue;
    const std::int64_t first = whole.count - whole.count / 2;
    parts[0].batch[i].count = first;
    parts[1].batch[i] = {whole.begin + first, whole.count - first};
    return parts;
  }
  if (box.rows.count == 1 && box.columns.count == 1) return std::nullopt;
  cut(box.rows.count >= box.columns.count ? &Box::rows : &Box::columns);
  return parts;
}

}  // namespace goblin::matmul
