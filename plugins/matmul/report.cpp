// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "plugins/matmul/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace goblin::matmul {
namespace {

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) bytes /= 1024, ++unit;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
  return text;
}

double real(std::int64_t v) { return static_cast<double>(v); }

}  // namespace

double share_bound(const Problem& problem, std::uint64_t hosts) {
  if (problem.trivial()) return 0;
  Box whole;
  for (std::size_t i = 0; i < problem.batch.size(); ++i) whole.batch[i] = {0, problem.batch[i]};
  whole.rows = {0, problem.m};
  whole.columns = {0, problem.n};
  whole.terms = {0, problem.k};
  const double once = a_bytes(problem, whole) + b_bytes(problem, whole) + c_bytes(problem, whole);
  if (!problem.batch.empty() || hosts < 2) return once;
  // One host's share is V = m·n·k/P terms. Its faces x = rows·k, y = k·columns, z = rows·columns
  // have x·y·z ≥ V² (Loomis and Whitney); none exceeds the whole operand's, nor is below V over the
  // extent it lacks. The least weighted sum has w_i·x_i = λ wherever no limit holds.
  const double p = static_cast<double>(hosts);
  const double m = real(problem.m);
  const double n = real(problem.n);
  const double k = real(problem.k);
  const double volume = m * n * k / p;
  const double most[3] = {m * k, k * n, m * n};
  const double least[3] = {volume / n, volume / m, volume / k};
  const double weight[3] = {real(problem.in_bytes()), real(problem.in_bytes()),
                            real(problem.out_bytes())};
  double low = 0;
  double high = 0;
  for (int i = 0; i < 3; ++i) high = std::max(high, most[i] * weight[i]);
  double best = 0;
  for (int step = 0; step < 200; ++step) {
    const double lambda = (low + high) / 2;
    double product = 1;
    best = 0;
    for (int i = 0; i < 3; ++i) {
      const double x = std::clamp(lambda / weight[i], least[i], most[i]);
      product *= x;
      best += weight[i] * x;
    }
    (product < volume * volume ? low : high) = lambda;
  }
  return std::max(once, p * best);
}

double memory_bound(const Problem& problem, double memory) {
  const double elements = memory / real(problem.in_bytes());
  double terms = real(problem.m) * real(problem.n) * real(problem.k);
  for (const std::int64_t extent : problem.batch) terms *= real(extent);
  return std::max(0.0, 2 * terms / std::sqrt(elements) - 2 * elements) * real(problem.in_bytes());
}

PlanReport plan_report(const Problem& problem, const Tiling& tiling, const Capacity& capacity) {
  PlanReport report;
  report.tiling = tiling;
  if (problem.trivial()) {
    report.bound = "nothing to compute";
    report.text = "The product needs no terms: the lab node writes it without asking a host.";
    return report;
  }
  const Grid grid(problem, tiling);
  const auto regions = static_cast<std::uint64_t>(std::max<std::int64_t>(grid.regions(), 1));
  report.largest_bound = share_bound(problem, regions);
  const Forecast cost = forecast(grid, capacity, report.largest_bound);
  Box box = grid.cell(0);
  if (tiling.span != 0) box = grid.part(box, 0);
  report.tasks = cost.tasks;
  report.task_memory = memory_of(problem, box);
  report.input_bytes = cost.input_bytes;
  report.output_bytes = cost.output_bytes;
  report.bound = grid.regions() > 1 ? "least surface of equal shares" : "operands and result once";
  report.text = "C is cut into " + std::to_string(grid.rows()) + " × " +
                std::to_string(grid.columns()) + " tiles of " + std::to_string(box.rows.count) +
                " × " + std::to_string(box.columns.count);
  if (box.items(problem) > 1) {
    report.text += " for " + std::to_string(box.items(problem)) + " products at a time";
  }
  report.text += tiling.span == 0
                     ? std::string(", each with all of k")
                     : ", each in " + std::to_string(grid.parts()) + " parts of k (" +
                           std::to_string(box.terms.count) + " terms) that are added in order";
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.2f", report.distance());
  report.text += ". A task needs " + bytes_text(report.task_memory) + " on a host. About " +
                 bytes_text(report.input_bytes) + " go to hosts and " +
                 bytes_text(report.output_bytes) + " come back, " + ratio +
                 " times the lower bound (" + report.bound + ").";
  return report;
}

}  // namespace goblin::matmul
