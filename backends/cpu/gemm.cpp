// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "backends/cpu/gemm.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/common/float_environment.hpp"
#include "backends/cpu/workers.hpp"
#include "goblin/numerics/canonical.hpp"

namespace goblin::backends::cpu {
namespace {

using numerics::kBlock;
using numerics::kChunk;

// Packed A stays in the L2 cache while packed B passes through it once per strip: from 288 KiB on,
// B no longer costs anything (2 % at 192 KiB, n = 2048), and small L2 caches have 512.
constexpr std::int64_t kStripBytes = 288 << 10;
constexpr std::int64_t kPanelBytes = 2 << 20;   // packed B
constexpr std::int64_t kSumsBytes = 2 << 20;    // sums in scratch, where there are any
constexpr std::int64_t kThreadTerms = 2 << 20;  // less work than this is not worth a thread
constexpr std::int64_t kMostThreads = 1024;
constexpr std::int64_t kTilesPerThread = 4;  // of large products: evens out busy cores

constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

std::int64_t pieces(std::int64_t extent, std::int64_t piece) {
  return (extent + piece - 1) / piece;
}

bool is_complex(goblin_dtype_v1 dtype) { return dtype == GOBLIN_C64 || dtype == GOBLIN_C128; }

/// Bytes of a sum (of a part of it) for inputs of a dtype.
std::int64_t sum_bytes(goblin_dtype_v1 in) {
  return in == GOBLIN_F64 || in == GOBLIN_C128 || in == GOBLIN_I64 || in == GOBLIN_U64 ? 8 : 4;
}

Matmul transposed(const Matmul& op) {
  Matmul t = op;
  t.m = op.n;
  t.n = op.m;
  t.a = op.b;
  t.b = op.a;
  t.a_row = op.b_column;
  t.a_column = op.b_row;
  t.b_row = op.a_column;
  t.b_column = op.a_row;
  t.c_row = op.c_column;
  t.c_column = op.c_row;
  return t;
}

bool rows_contiguous(const Matmul& op) { return op.c_column == item_size(op.out) || op.n == 1; }

/// m·n·k, saturated.
std::int64_t terms(const Matmul& op) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(op.m, op.n, &product) ||
      __builtin_mul_overflow(product, std::max<std::int64_t>(op.k, 1), &product)) {
    return INT64_MAX;
  }
  return product;
}

bool better_swapped(const Matmul& op, const Kernel& kernel) {
  if (is_complex(op.in)) return false;  // the order of the two terms of the imaginary part
  const auto padded = [&](std::int64_t m, std::int64_t n) {
    return static_cast<double>(round_up(m, kernel.rows)) *
           static_cast<double>(round_up(n, kernel.columns));
  };
  const double now = padded(op.m, op.n);
  const double then = padded(op.n, op.m);
  if (then * 1.5 < now || now * 1.5 < then) return then < now;
  return !rows_contiguous(op) && rows_contiguous(transposed(op));
}

/// Chooses how many pieces rows and columns are cut into, from the counts that memory asks for
/// upwards: so that the threads finish together, little is packed twice, and few lanes are padding.
void split_for_threads(std::int64_t m, std::int64_t n, const Kernel& kernel, std::int64_t threads,
                       std::int64_t& count_m, std::int64_t& count_n) {
  // Measured: packing costs about 32 / (extent of the tile) of the work, for A and for B each,
  // where two threads do it at once. A busy core delays the last tiles: about 4 % where each thread
  // has one.
  constexpr double kPacking = 32;
  constexpr double kTail = 0.04;
  const std::int64_t least_m = count_m;
  const std::int64_t least_n = count_n;
  const std::int64_t most = threads * kTilesPerThread;
  double best = 0;
  for (std::int64_t i = least_m; i <= pieces(m, kernel.rows) && i * least_n <= most; ++i) {
    for (std::int64_t j = least_n; j <= pieces(n, kernel.columns) && i * j <= most; ++j) {
      const std::int64_t rows = round_up(pieces(m, i), kernel.rows);
      const std::int64_t columns = round_up(pieces(n, j), kernel.columns);
      const std::int64_t tiles = pieces(m, rows) * pieces(n, columns);
      const std::int64_t rounds = pieces(tiles, threads);
      const double time =
          static_cast<double>(rounds * rows * columns) *
          (1 + kPacking / static_cast<double>(rows) + kPacking / static_cast<double>(columns) +
           kTail * static_cast<double>(threads) / static_cast<double>(tiles));
      if (best == 0 || time < best) {
        best = time;
        count_m = i;
        count_n = j;
      }
    }
  }
}

}  // namespace

Plan make_plan(const Matmul& given, const Level& level, std::uint32_t threads) {
  Plan plan{};
  plan.kernel = level.kernels[given.in];
  plan.swapped = better_swapped(given, plan.kernel);
  plan.op = plan.swapped ? transposed(given) : given;
  const Matmul& op = plan.op;
  plan.element = sum_bytes(op.in);
  plan.parts = is_complex(op.in) ? 2 : 1;
  const bool unchanged = op.in == GOBLIN_BOOL ? false
                                              : item_size(op.out) == plan.element &&
                                                    op.out != GOBLIN_F16 && plan.parts == 1;
  plan.direct = unchanged && rows_contiguous(op);

  const Kernel& kernel = plan.kernel;
  const std::int64_t bytes = plan.element * plan.parts;
  const std::int64_t steps = std::clamp<std::int64_t>(op.k, 1, kBlock);
  const bool chunked = op.k > kChunk;
  // Caps from memory.
  std::int64_t cap_n = kPanelBytes / (kBlock * bytes) / kernel.columns * kernel.columns;
  std::int64_t cap_m = INT64_MAX / 2;
  if (!plan.direct || chunked) {
    cap_n = std::min(cap_n, round_up(kSumsBytes / bytes / 720, kernel.columns));
    cap_m = kSumsBytes / bytes / cap_n / kernel.rows * kernel.rows;
  }
  const std::int64_t m = std::max<std::int64_t>(op.m, 1);
  const std::int64_t n = std::max<std::int64_t>(op.n, 1);
  std::int64_t count_m = pieces(m, cap_m);
  std::int64_t count_n = pieces(n, cap_n);
  const std::int64_t useful = std::clamp<std::int64_t>(
      terms(op) / kThreadTerms, 1, std::min<std::int64_t>(threads, kMostThreads));
  if (useful > 1) split_for_threads(m, n, kernel, useful, count_m, count_n);
  plan.tile_m = round_up(pieces(m, count_m), kernel.rows);
  plan.tile_n = round_up(pieces(n, count_n), kernel.columns);
  plan.tiles_m = pieces(op.m, plan.tile_m);
  plan.tiles_n = pieces(op.n, plan.tile_n);
  plan.threads = std::clamp<std::int64_t>(plan.tiles_m * plan.tiles_n, 1, useful);

  const std::int64_t strip = std::max<std::int64_t>(
      kStripBytes / (kBlock * bytes) / kernel.rows * kernel.rows, kernel.rows);
  // Equal strips: a thin last one would read all of packed B for little work.
  plan.strip_m = round_up(pieces(plan.tile_m, pieces(plan.tile_m, strip)), kernel.rows);
  const std::int64_t sums =
      (!plan.direct || chunked) ? round_up(plan.tile_m * plan.tile_n * bytes, 64) : 0;
  plan.b_offset = round_up(plan.strip_m * steps * bytes + kPanelSlack, 64);
  plan.total_offset = plan.b_offset + round_up(plan.tile_n * steps * bytes + kPanelSlack, 64);
  plan.chunk_offset = plan.total_offset + (plan.direct ? 0 : sums);
  plan.thread_bytes = plan.chunk_offset + (chunked ? sums : 0);
  return plan;
}

namespace {

/// Rows of sums: `data` is the first of the tile, strides count elements.
template <class T>
struct Sums {
  T* data;
  std::int64_t row;
  std::int64_t plane;
  [[nodiscard]] Sums at(std::int64_t i, std::int64_t j) const {
    return {data + i * row + j, row, plane};
  }
};

template <bool truth, class T>
T plus(T x, T y) {
  if constexpr (truth) {
    return x | y;
  } else if constexpr (std::is_floating_point_v<T>) {
    return numerics::canonical(x + y);
  } else {
    return x + y;
  }
}

/// to += from, or to = from.
template <bool truth, class T>
void merge(Sums<T> to, Sums<T> from, std::int64_t rows, std::int64_t columns, std::int64_t parts,
           bool add) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t part = 0; part < parts; ++part) {
      T* const x = to.data + i * to.row + part * to.plane;
      const T* const y = from.data + i * from.row + part * from.plane;
      if (add) {
        for (std::int64_t j = 0; j < columns; ++j) x[j] = plus<truth>(x[j], y[j]);
      } else {
        std::memcpy(x, y, static_cast<std::size_t>(columns) * sizeof(T));
      }
    }
  }
}

template <class Out, class T>
Out element_of(const T* sum, std::int64_t plane) {
  if constexpr (numerics::detail::IsComplex<Out>::value) {
    return {sum[0], sum[plane]};
  } else if constexpr (std::is_same_v<Out, bool>) {
    return *sum != 0;
  } else {
    return numerics::canonical_value<Out>(*sum);
  }
}

template <class In, class Out, class T, bool truth>
class Worker final {
 public:
  Worker(const Plan& plan, const goblin_exec_v1* exec, std::int64_t index, Stop& stop)
      : plan_(plan), exec_(exec), stop_(stop) {
    char* const mine = static_cast<char*>(exec->scratch) + index * plan.thread_bytes;
    a_panels_ = mine;
    b_panels_ = mine + plan.b_offset;
    total_ = reinterpret_cast<T*>(mine + plan.total_offset);
    chunk_ = reinterpret_cast<T*>(mine + plan.chunk_offset);
  }

  /// One macro tile; false: cancelled.
  bool operator()(std::int64_t tile) {
    const Matmul& op = plan_.op;
    const std::int64_t i0 = tile % plan_.tiles_m * plan_.tile_m;
    const std::int64_t j0 = tile / plan_.tiles_m * plan_.tile_n;
    rows_ = std::min(plan_.tile_m, op.m - i0);
    columns_ = std::min(plan_.tile_n, op.n - j0);
    char* const c = op.c + i0 * op.c_row + j0 * op.c_column;
    const std::int64_t row = plan_.tile_n * plan_.parts;
    const Sums<T> total = plan_.direct ? Sums<T>{reinterpret_cast<T*>(c),
                                                 op.c_row / static_cast<std::int64_t>(sizeof(T)), 0}
                                       : Sums<T>{total_, row, plan_.tile_n};
    if (op.k == 0) {
      for (std::int64_t i = 0; i < rows_; ++i) {
        for (std::int64_t part = 0; part < plan_.parts; ++part) {
          std::fill_n(total.data + i * total.row + part * total.plane, columns_, T{});
        }
      }
    }
    for (std::int64_t start = 0; start < op.k; start += kChunk) {
      const Sums<T> chunk = start == 0 ? total : Sums<T>{chunk_, row, plan_.tile_n};
      const std::int64_t end = std::min(start + kChunk, op.k);
      for (std::int64_t p = start; p < end; p += kBlock) {
        const Store store{p != start, p + kBlock >= end};
        if (!block(i0, j0, p, std::min(kBlock, end - p), chunk, store)) return false;
      }
      if (start != 0) merge<truth>(total, chunk, rows_, columns_, plan_.parts, true);
    }
    if (!plan_.direct) finish(total, c);
    return true;
  }

 private:
  bool block(std::int64_t i0, std::int64_t j0, std::int64_t p, std::int64_t steps, Sums<T> to,
             Store store) {
    const Matmul& op = plan_.op;
    const Kernel& kernel = plan_.kernel;
    const std::int64_t bytes = steps * static_cast<std::int64_t>(sizeof(T)) * plan_.parts;
    kernel.pack_columns(b_panels_, op.b + p * op.b_row + j0 * op.b_column, op.b_column, op.b_row,
                        columns_, steps);
    for (std::int64_t strip = 0; strip < rows_; strip += plan_.strip_m) {
      const std::int64_t height = std::min(plan_.strip_m, rows_ - strip);
      kernel.pack_rows(a_panels_, op.a + (i0 + strip) * op.a_row + p * op.a_column, op.a_row,
                       op.a_column, height, steps);
      for (std::int64_t j = 0; j < columns_; j += kernel.columns) {
        if (stop_.asked(exec_)) return false;
        const char* const b = b_panels_ + j * bytes;
        const std::int64_t width = std::min(kernel.columns, columns_ - j);
        for (std::int64_t i = 0; i < height; i += kernel.rows) {
          const std::int64_t tall = std::min(kernel.rows, height - i);
          const Sums<T> at = to.at(strip + i, j);
          const std::int64_t heights = (tall + kernel.height - 1) / kernel.height;
          const Tile tile = kernel.tiles[heights - 1];
          if (tall == heights * kernel.height && width == kernel.columns) {
            tile(a_panels_ + i * bytes, b, steps, at.data, at.row, at.plane, store);
          } else {
            alignas(64) T edge[kMaxTileBytes / sizeof(T)];
            const Sums<T> sums{edge, kernel.columns * plan_.parts, kernel.columns};
            tile(a_panels_ + i * bytes, b, steps, edge, sums.row, sums.plane, {false, true});
            merge<truth>(at, sums, tall, width, plan_.parts, store.add);
          }
        }
      }
    }
    return true;
  }

  void finish(Sums<T> total, char* c) const {
    const Matmul& op = plan_.op;
    for (std::int64_t i = 0; i < rows_; ++i) {
      const T* const sums = total.data + i * total.row;
      char* const row = c + i * op.c_row;
      for (std::int64_t j = 0; j < columns_; ++j) {
        const Out value = element_of<Out>(sums + j, total.plane);
        std::memcpy(row + j * op.c_column, &value, sizeof value);
      }
    }
  }

  const Plan& plan_;
  const goblin_exec_v1* exec_;
  Stop& stop_;
  char* a_panels_;
  char* b_panels_;
  T* total_;
  T* chunk_;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
};

template <class In>
struct SumType {
  using Canonical = numerics::CanonicalSum<In>;
  static auto pick() {
    if constexpr (std::is_same_v<In, bool>) {
      return std::uint32_t{};
    } else if constexpr (std::is_integral_v<In>) {
      return std::conditional_t<sizeof(In) == 8, std::uint64_t, std::uint32_t>{};
    } else if constexpr (numerics::detail::IsComplex<In>::value) {
      return decltype(In::re){};
    } else {
      return Canonical{};
    }
  }
  using type = decltype(pick());
};

}  // namespace

goblin_status_v1 run_plan(const Plan& plan, const goblin_exec_v1* exec, Workers* workers) {
  const Matmul& op = plan.op;
  return with_types(op.in, op.out, [&](auto in, auto out) {
    using In = decltype(in);
    using Run = Worker<In, decltype(out), typename SumType<In>::type, std::is_same_v<In, bool>>;
    Stop stop;
    run_pieces(workers, plan.threads, plan.tiles_m * plan.tiles_n, stop,
               [&](std::int64_t index) { return Run(plan, exec, index, stop); });
    return stop.stopped() ? GOBLIN_CANCELLED : GOBLIN_OK;
  });
}

}  // namespace goblin::backends::cpu
