// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tiling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "goblin/numerics/canonical.hpp"
#include "report.hpp"

namespace goblin::matmul {
namespace {

// Rates of the model: only their ratios matter. As measured: f32 on one AVX-512 core, TLS on one
// core at each end, and what checks of tiles of 1024² to 4096² read.
constexpr double kFlopsPerThread = 2.4e11;
constexpr double kLinkBytesPerSecond = 1e9;
constexpr double kCheckBytesPerSecond = 2.4e10;
// Of the hosts' processor time; checks may cost so much. What they take beyond it weighs more than
// it lasts: a lab node has many hosts to serve.
constexpr double kCheckShare = 0.02;
constexpr double kCheckWeight = 10;
// Bytes beyond those that any plan sends weigh more than they last, too: the links of volunteers
// are ten to a hundred times slower than this one, and all of them end at the lab node's.
constexpr double kSurplusWeight = 5;
// Sums of parts are kept by the lab node, read again and added.
constexpr double kMergeBytesPerSecond = 1e9;
constexpr double kTaskSeconds = 3e-4;
// Share of a task's time that the slower of similar hosts is late at the end.
constexpr double kUneven = 0.15;
// Input cache that a host is taken to have.
constexpr double kCacheBytes = 2.0 * (std::int64_t{1} << 30);
// A host's memory when none is known yet.
constexpr std::uint64_t kUsualMemory = std::uint64_t{256} << 20;
// Tasks of a split along k hold chunks together up to so many bytes. Every host can hold that.
constexpr double kSpanBytes = 2.0 * (1 << 20);
// Extra forecast seconds that are worth a tiling which every host can hold.
constexpr double kFitsAll = 1.1;

constexpr std::int64_t pieces(std::int64_t extent, std::int64_t piece) {
  return (extent + piece - 1) / piece;
}

/// Sizes to cut an extent into, falling from the whole of it; multiples of 16 while large.
std::vector<std::int64_t> sizes(std::int64_t extent) {
  std::vector<std::int64_t> out;
  for (double count = 1; count <= static_cast<double>(extent);) {
    std::int64_t size = pieces(extent, static_cast<std::int64_t>(count));
    if (size > 64) size = std::min(extent, pieces(size, 16) * 16);
    if (out.empty() || size < out.back()) out.push_back(size);
    if (size == 1) break;
    count = count < 16 ? count + 1 : count * 1.15;
  }
  // Single rows and columns are what a host of least_memory() can hold.
  if (extent > 1 && out.back() > 1) out.push_back(1);
  return out;
}

bool shared(const Layout& layout) {
  return std::all_of(layout.batch.begin(), layout.batch.end(),
                     [](std::int64_t stride) { return stride == 0; });
}

double real(std::int64_t v) { return static_cast<double>(v); }

/// How many hosts the grid is divided among.
std::int64_t hosts_of(const Capacity& capacity) {
  return static_cast<std::int64_t>(
      std::clamp<std::uint64_t>(capacity.hosts, 1, static_cast<std::uint64_t>(kMaxRegions)));
}

struct Best {
  Tiling tiling;
  double seconds = std::numeric_limits<double>::infinity();
};

std::size_t size(std::int64_t v) { return static_cast<std::size_t>(v); }

/// Tries every cut of the grid into regions; keeps the cheapest. `least`: the bytes that any plan
/// moves, by the number of hosts that have a task.
void consider(const Problem& problem, Tiling tiling, const Capacity& capacity,
              const std::vector<double>& least, Best& best) {
  const Grid whole(problem, tiling);
  if (whole.cells() > kMaxCells || whole.cells() > kMaxTasks / whole.split_parts()) return;
  Box box = whole.cell(0);
  if (tiling.span != 0) box = whole.part(box, 0);
  if (memory_of(problem, box) > static_cast<double>(capacity.memory_bytes)) {
    return;
  }
  const double room = kCacheBytes - 2 * a_bytes(problem, box);
  tiling.walk_width = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::min(room / b_bytes(problem, box), 1e9)));
  const std::int64_t hosts = hosts_of(capacity);
  const double tasks = real(whole.cells()) * real(whole.parts());
  const double least_bytes = least[size(std::min(hosts, static_cast<std::int64_t>(tasks)))];
  for (std::int64_t deep = 1; deep <= std::min(hosts, whole.parts()); ++deep) {
    if (hosts % deep != 0) continue;
    for (std::int64_t down = 1; down <= hosts / deep; ++down) {
      if (hosts / deep % down != 0) continue;
      tiling.regions_deep = deep;
      tiling.regions_down = std::min(down, whole.rows());
      tiling.regions_across = std::min(hosts / deep / down, whole.columns());
      const double seconds = forecast(Grid(problem, tiling), capacity, least_bytes).seconds;
      // Ties go to the earlier, that is the larger tile.
      if (seconds < best.seconds * (1 - 1e-9)) best = {tiling, seconds};
    }
  }
}

std::int64_t span_for(const Problem& problem, Tiling tiling) {
  const std::int64_t chunks = pieces(problem.k, numerics::kChunk);
  tiling.span = 1;
  const Grid grid(problem, tiling);
  const Box box = grid.part(grid.cell(0), 0);
  const double bytes = a_bytes(problem, box) + b_bytes(problem, box) + c_bytes(problem, box);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(kSpanBytes / bytes), 1, chunks);
}

Best search(const Problem& problem, const Capacity& capacity) {
  Best best;
  std::vector<double> least(size(hosts_of(capacity)) + 1);
  for (std::size_t hosts = 1; hosts < least.size(); ++hosts)
    least[hosts] = share_bound(problem, hosts);
  const auto last = static_cast<std::int64_t>(problem.batch.size()) - 1;
  const std::vector<std::int64_t> columns = sizes(problem.n);
  for (const std::int64_t rows : sizes(problem.m)) {
    for (const std::int64_t wide : columns) {
      Tiling tiling;
      tiling.tile_rows = rows;
      tiling.tile_columns = wide;
      tiling.group_axis = std::max<std::int64_t>(last, 0);
      consider(problem, tiling, capacity, least, best);
      if (problem.k <= numerics::kChunk) continue;
      tiling.span = span_for(problem, tiling);
      consider(problem, tiling, capacity, least, best);
    }
  }
  for (std::int64_t axis = last; axis >= 0; --axis) {
    for (const std::int64_t group : sizes(problem.batch[static_cast<std::size_t>(axis)])) {
      Tiling tiling;
      tiling.tile_rows = problem.m;
      tiling.tile_columns = problem.n;
      tiling.group_axis = axis;
      tiling.group = group;
      consider(problem, tiling, capacity, least, best);
    }
  }
  return best;
}

}  // namespace

double memory_of(const Problem& problem, const Box& box) {
  return a_bytes(problem, box) + b_bytes(problem, box) + c_bytes(problem, box) + kOverheadBytes;
}

double least_memory(const Problem& problem) {
  if (problem.trivial()) return 0;
  Box box;
  box.terms = {0, std::min(problem.k, numerics::kChunk)};
  box.partial = problem.k > numerics::kChunk;
  const double need = memory_of(problem, box);
  return box.partial ? std::max(need, kSpanBytes + kOverheadBytes) : need;
}

Forecast forecast(const Grid& grid, const Capacity& capacity, double least_bytes) {
  const Problem& problem = grid.problem();
  const Tiling& tiling = grid.tiling();
  Box box = grid.cell(0);
  if (tiling.span != 0) box = grid.part(box, 0);
  const double parts = real(grid.parts());
  const double row_tiles = real(pieces(problem.m, tiling.tile_rows));
  const double groups = real(grid.rows()) / row_tiles;

  // A region of the walk: `down` × `across` cells in strips of the walk's width.
  const double down = real(grid.rows()) / real(tiling.regions_down);
  const double across = real(grid.columns()) / real(tiling.regions_across);
  const double strips = std::ceil(across / real(tiling.walk_width) - 1e-9);
  const double a_panels = shared(problem.a) ? std::min(down, row_tiles) : down;
  const double b_panels = shared(problem.b) ? across : across * std::max(1.0, down / row_tiles);
  // Tiles at the edges are smaller: scale panels to the operand's true size.
  const double a_scale = real(problem.m) / (row_tiles * real(tiling.tile_rows)) * real(problem.k) /
                         (parts * real(box.terms.count));
  const double b_scale = real(problem.n) / (real(grid.columns()) * real(tiling.tile_columns)) *
                         real(problem.k) / (parts * real(box.terms.count));
  const double fill = real(problem.items()) / (groups * real(box.items(problem)));  // of the last

  Forecast out;
  const double regions = real(grid.regions());
  const double parts_each = parts / real(tiling.regions_deep);
  out.tasks = real(grid.cells()) * parts;
  out.input_bytes = regions * parts_each * fill *
                    (strips * a_panels * a_bytes(problem, box) * a_scale +
                     b_panels * b_bytes(problem, box) * b_scale);
  const double each_alone =
      out.tasks * fill * (a_bytes(problem, box) * a_scale + b_bytes(problem, box) * b_scale);
  // Hosts that share a region may each need all of it.
  if (grid.regions() < hosts_of(capacity)) out.input_bytes = each_alone;
  double c_elements = real(problem.m) * real(problem.n);
  for (const std::int64_t extent : problem.batch) c_elements *= real(extent);
  out.output_bytes = tiling.span == 0 ? c_elements * real(problem.out_bytes())
                                      : c_elements * real(problem.sum_bytes()) *
                                            real(pieces(problem.k, numerics::kChunk));
  out.check_bytes = each_alone + out.output_bytes;

  const double hosts = static_cast<double>(std::max<std::uint64_t>(capacity.hosts, 1));
  const double host_rate = kFlopsPerThread * std::max<std::uint32_t>(capacity.threads, 1);
  // Nothing runs before the first inputs are there, and nothing but the last result travels at the
  // end; hosts that are not equally fast wait for each other.
  const double ends = (a_bytes(problem, box) + b_bytes(problem, box) + c_bytes(problem, box)) /
                          kLinkBytesPerSecond +
                      kUneven * box.flops(problem) / host_rate;
  // Where each host has a region, the largest one takes longest: helping there sends panels twice.
  const double waves = grid.regions() == static_cast<std::int64_t>(hosts)
                           ? std::ceil(down) * std::ceil(across) * std::ceil(parts_each)
                           : std::ceil(out.tasks / hosts);
  const double check = out.check_bytes / kCheckBytesPerSecond;
  const double over = std::max(0.0, check - kCheckShare * problem.flops() / kFlopsPerThread);
  const double merge = tiling.span == 0 ? 0 : out.output_bytes / kMergeBytesPerSecond;
  const double moved = out.input_bytes + out.output_bytes;
  const double surplus = std::max(0.0, moved - least_bytes);
  out.seconds = problem.flops() / (host_rate * hosts) * (waves * hosts / out.tasks) +
                (moved + (kSurplusWeight - 1) * surplus) / kLinkBytesPerSecond + check + merge +
                (kCheckWeight - 1) * over + out.tasks * kTaskSeconds + ends;
  return out;
}

Result<Tiling> choose_tiling(const Problem& problem, const Capacity& capacity) {
  Capacity now = capacity;
  if (now.memory_bytes == 0) now.memory_bytes = kUsualMemory;
  const auto least = static_cast<std::uint64_t>(std::ceil(least_memory(problem)));
  now.memory_bytes = std::max(now.memory_bytes, least);
  const Best best = search(problem, now);
  if (!std::isfinite(best.seconds)) {
    return fail(Code::kExhausted,
                "with " + std::to_string(now.memory_bytes) +
                    " bytes of memory on a host the product falls into too many tasks; connect "
                    "hosts that offer more, or multiply it in parts");
  }
  if (capacity.min_memory_bytes >= least && capacity.min_memory_bytes < now.memory_bytes) {
    now.memory_bytes = capacity.min_memory_bytes;
    const Best for_all = search(problem, now);
    if (for_all.seconds <= best.seconds * kFitsAll) return for_all.tiling;
  }
  return best.tiling;
}

}  // namespace goblin::matmul
