// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Freivalds' check of a product of floats, fused with the exact recomputation of random entries.
// docs/matmul.md has the derivation. In one pass over C: E = C·R. Then in one over B, panel by
// panel of k, and one over A:
//   Y = B·R and ‖B_q‖ for `w` disjoint blocks q of columns, sampled columns of B gathered;
//   D = A·Y and ‖A_i‖, sampled sums carried on in the canonical order.
// Row i and block q pass when |D − E| ≤ bound. Rows and blocks that
// do not are recomputed to the bit: they reject only when they are wrong.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "goblin/numerics/dot.hpp"
#include "plugins/matmul/aligned.hpp"
#include "plugins/matmul/check.hpp"
#include "plugins/matmul/check_kernels.hpp"
#include "plugins/matmul/recompute.hpp"
#include "plugins/matmul/samples.hpp"

namespace goblin::matmul {
namespace {

using numerics::kBlock;
using numerics::kChunk;

constexpr std::int64_t kPanel = 2 * kBlock;  // of k; divides kChunk
static_assert(kChunk % kPanel == 0);
constexpr std::int64_t kLine = 8;  // numbers of a cache line
constexpr std::int64_t kRows = 8;  // at a time: they fit the L1 cache
constexpr std::int64_t kColumns = 256;
constexpr std::int64_t kFewBlocks = 8;
constexpr std::int64_t kMaxBlocks = 32;
constexpr std::int64_t kColumnsPerBlock = 512;  // of C, about so many where there are enough

constexpr double kRms = 1.5275252316519468;  // of ±[1, 2): √(7/3)
constexpr double kKappa = 32;                // honest results need ≤ 7 (docs/matmul.md)
constexpr double kCalibration = 12;          // times the worst error seen at sampled entries
constexpr double kRoundingKappa = 6;         // of a result that is rounded to 16 bits
// Share of the product's terms that may be recomputed for rows that do not pass.
constexpr double kProofShare = 0.02;
constexpr double kProofTerms = 1 << 20;

struct Format {
  goblin_dtype_v1 part;  ///< of an operand's parts
  std::int64_t parts;    ///< 2 for complex
  double unit;           ///< rounding of sums: half the distance of floats
  double tiny;           ///< absolute error of an operation near zero
  double out_unit;       ///< rounding of the result, beside that of sums; 0: none
  double out_tiny;
};

Format format_of(goblin_dtype_v1 in, goblin_dtype_v1 out) {
  Format f{in, 1, 0x1p-24, 0x1p-149, 0, 0};
  if (in == GOBLIN_C64) f = {GOBLIN_F32, 2, 0x1p-24, 0x1p-149, 0, 0};
  if (in == GOBLIN_F64) f = {GOBLIN_F64, 1, 0x1p-53, 0x1p-1074, 0, 0};
  if (in == GOBLIN_C128) f = {GOBLIN_F64, 2, 0x1p-53, 0x1p-1074, 0, 0};
  if (out == GOBLIN_F16) f.out_unit = 0x1p-11, f.out_tiny = 0x1p-25;
  if (out == GOBLIN_BF16) f.out_unit = 0x1p-9, f.out_tiny = 0x1p-134;
  return f;
}

std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

Block block_of(const Tensor& t, std::int64_t row, std::int64_t rows, std::int64_t column,
               std::int64_t columns) {
  return {reinterpret_cast<const char*>(t.bytes()) + row * t.stride(0) + column * t.stride(1),
          t.stride(0), t.stride(1), rows, columns};
}

/// w: blocks of about kColumnsPerBlock columns, where there are enough for kRowLanes of them, else
/// kFewBlocks; rounded up to what fills the lanes of the path that operands most likely take.
std::int64_t blocks_of(const Product& product) {
  const goblin_dtype_v1 in = product.a.dtype();
  const bool streams = in == GOBLIN_F32 || in == GOBLIN_F64;
  const std::int64_t parts = in == GOBLIN_C64 || in == GOBLIN_C128 ? 2 : 1;
  const std::int64_t n = product.b.dim(1);
  std::int64_t blocks = std::min(n / kColumnsPerBlock, kMaxBlocks);
  if (blocks < kRowLanes) blocks = kFewBlocks / parts;
  return std::min(n, round_up(blocks, streams ? kRowLanes : kLanesF64 / parts));
}

/// The imaginary (or real) parts of a block of complex numbers.
Block part_of(Block block, std::int64_t part, std::uint64_t part_bytes) {
  block.data += part * static_cast<std::int64_t>(part_bytes);
  return block;
}

class FloatCheck {
 public:
  FloatCheck(const Product& product, std::int64_t samples, ChaCha& random, const Device& device)
      : kernels_(check_kernels()),
        product_(product),
        device_(device),
        format_(format_of(product.a.dtype(), product.c.dtype())),
        m_(product.a.dim(0)),
        n_(product.b.dim(1)),
        k_(product.a.dim(1)),
        blocks_(blocks_of(product)),
        lanes_(round_up(blocks_ * format_.parts, kLanesF64)),
        r_(size(n_)),
        packed_(size(kRows * kPanel * 2)),
        samples_(product, samples, kPanel, random) {
    for (double& x : r_) x = random.signed_unit();
    // Of wide blocks every one begins at a cache line of r.
    const std::int64_t step = n_ >= kLine * kLine * blocks_ ? kLine : 1;
    for (std::int64_t q = 0; q < blocks_; ++q) begins_.push_back(n_ * q / blocks_ / step * step);
    begins_.push_back(n_);
    masked_.assign(size(n_), false);
  }

  Result<Verdict> run() {
    GOBLIN_TRY_VOID(project());
    if (!bad_columns_.empty()) {
      // Columns of B that hold NaN or infinity say nothing about their block's other columns:
      // leave them out, and recompute them.
      const double cost = static_cast<double>(bad_columns_.size()) * static_cast<double>(m_) *
                          static_cast<double>(k_);
      if (cost > budget()) return Verdict::kAbstain;
      const std::vector<std::int64_t> bad = bad_columns_;
      for (const std::int64_t j : bad) {
        masked_[static_cast<std::size_t>(j)] = true;
        r_[static_cast<std::size_t>(j)] = 0;
      }
      any_masked_ = true;
      GOBLIN_TRY_VOID(project());
      if (!samples_.right()) return Verdict::kReject;
      for (const std::int64_t j : bad) {
        GOBLIN_TRY(const bool right, exactly_right(product_, {0, m_}, {j, 1}, device_));
        if (!right) return Verdict::kReject;
      }
    } else if (!samples_.right()) {
      return Verdict::kReject;
    }
    return judge();
  }

 private:
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
  [[nodiscard]] std::uint64_t part_bytes() const { return dtype_size(format_.part); }
  [[nodiscard]] double budget() const {
    return std::max(kProofTerms, kProofShare * static_cast<double>(m_) * static_cast<double>(n_) *
                                     static_cast<double>(k_));
  }
  [[nodiscard]] Range columns_of(std::int64_t block) const {
    return {begins_[size(block)], begins_[size(block + 1)] - begins_[size(block)]};
  }

  /// Packs a block of one part of an operand's elements as doubles.
  void pack(const Tensor& from, std::int64_t row, std::int64_t rows, std::int64_t column,
            std::int64_t columns, std::int64_t part, double* out, std::int64_t ld,
            std::int64_t step) const {
    goblin_dtype_v1 dtype = from.dtype();
    if (format_.parts == 2) dtype = format_.part;
    kernels_.pack_f64(dtype,
                      part_of(block_of(from, row, rows, column, columns), part, part_bytes()), out,
                      ld, step);
  }

  /// D − E and all norms.
  Result<void> project() {
    d_.assign(size(m_ * lanes_), 0);
    // C first: it has just arrived, so that much of it lies in a cache still.
    GOBLIN_TRY_VOID(project_result());
    return project_product();
  }

  /// Adds D = A·(B·R); norms, sampled sums.
  Result<void> project_product() {
    a_squares_.assign(size(m_), 0);
    b_squares_.assign(size(blocks_), 0);
    bad_columns_.clear();
    samples_.start();
    const std::int64_t height = kPanel * format_.parts;
    AlignedVector<double> y(size(height * lanes_));
    for (std::int64_t p = 0; p < k_; p += kPanel) {
      if (device_.cancelled()) return fail(Code::kCancelled, "matmul: cancelled");
      const std::int64_t terms = std::min(kPanel, k_ - p);
      std::fill(y.begin(), y.end(), 0.0);
      project_b(p, terms, y);
      if (format_.parts == 2) spread_complex(terms, y);
      project_a(p, terms, y);
      samples_.carry(p, terms);
    }
    return {};
  }

  /// Rows p… of Y. Of complex numbers row 2t holds (re, im) of B·R's row t by halves of the lanes.
  void project_b(std::int64_t p, std::int64_t terms, AlignedVector<double>& y) {
    const Tensor& b = product_.b;
    const std::int64_t stride = lanes_ * format_.parts;
    const bool rows_straight = straight(b);
    std::vector<double> squares(size(std::max(kRows * stride, blocks_ * kSquareLanes)));
    for (std::int64_t t = 0; t < terms; t += kRows) {
      const std::int64_t rows = std::min(kRows, terms - t);
      double* const into = y.data() + t * stride;
      if (rows_straight) {
        kernels_.project_blocks(b.dtype(), block_of(b, p + t, rows, 0, n_), begins_.data(), blocks_,
                                r_.data(), into, stride, squares.data());
      } else {
        project_packed(p + t, rows, into);
      }
      samples_.gather(p, t, rows);
    }
    if (!rows_straight) return;
    for (std::int64_t q = 0; q < blocks_; ++q) {
      double sum = 0;
      for (std::int64_t l = 0; l < kSquareLanes; ++l) sum += squares[size(q * kSquareLanes + l)];
      b_squares_[size(q)] += sum;
      if (!std::isfinite(sum)) find_bad(p, terms, columns_of(q));
    }
  }

  /// Can rows be read where they lie? A masked column must be packed to be left out.
  [[nodiscard]] bool straight(const Tensor& t) const {
    const auto item = static_cast<std::int64_t>(t.item_size());
    return (t.dtype() == GOBLIN_F32 || t.dtype() == GOBLIN_F64) && t.stride(1) == item &&
           !any_masked_ && t.stride(0) % item == 0 &&
           reinterpret_cast<std::uintptr_t>(t.bytes()) % static_cast<std::uintptr_t>(item) == 0;
  }

  void project_packed(std::int64_t row, std::int64_t rows, double* into) {
    const std::int64_t stride = lanes_ * format_.parts;
    std::vector<double> squares(size(rows * stride));
    for (std::int64_t q = 0; q < blocks_; ++q) {
      const Range all = columns_of(q);
      for (std::int64_t j = 0; j < all.count; j += kColumns) {
        const Range some{all.begin + j, std::min(kColumns, all.count - j)};
        for (std::int64_t part = 0; part < format_.parts; ++part) {
          pack(product_.b, row, rows, some.begin, some.count, part, packed_.data(), kColumns, 1);
          if (any_masked_) mask(some, rows);
          kernels_.dot_rows(packed_.data(), kColumns, rows, some.count, r_.data() + some.begin,
                            into + part * blocks_ + q, squares.data() + q, stride);
        }
      }
      double sum = 0;
      for (std::int64_t i = 0; i < rows; ++i) sum += squares[size(i * stride + q)];
      b_squares_[size(q)] += sum;
      if (!std::isfinite(sum)) find_bad(row, rows, all);
    }
  }

  void mask(Range columns, std::int64_t rows) {
    for (std::int64_t j = 0; j < columns.count; ++j) {
      if (!masked_[size(columns.begin + j)]) continue;
      for (std::int64_t i = 0; i < rows; ++i) packed_[size(i * kColumns + j)] = 0;
    }
  }

  /// Remembers the columns that hold NaN or infinity. Squares also overflow for finite doubles
  /// beyond 1e154, which make no column bad: judge() sees that the bound is infinite.
  void find_bad(std::int64_t row, std::int64_t rows, Range columns) {
    std::vector<double> column(size(rows));
    for (std::int64_t j = columns.begin; j < columns.begin + columns.count; ++j) {
      bool bad = false;
      for (std::int64_t part = 0; part < format_.parts; ++part) {
        pack(product_.b, row, rows, j, 1, part, column.data(), 1, 1);
        for (std::int64_t i = 0; i < rows; ++i) bad = bad || !std::isfinite(column[size(i)]);
      }
      const auto at = std::lower_bound(bad_columns_.begin(), bad_columns_.end(), j);
      if (bad && (at == bad_columns_.end() || *at != j)) bad_columns_.insert(at, j);
    }
  }

  /// (re, im) → rows (re, im) and (−im, re), so that interleaved A times it is the complex product.
  void spread_complex(std::int64_t terms, AlignedVector<double>& y) const {
    for (std::int64_t t = 0; t < terms; ++t) {
      double* const row = y.data() + 2 * t * lanes_;
      for (std::int64_t q = 0; q < blocks_; ++q) {
        row[lanes_ + q] = -row[blocks_ + q];
        row[lanes_ + blocks_ + q] = row[q];
      }
    }
  }

  void project_a(std::int64_t p, std::int64_t terms, const AlignedVector<double>& y) {
    const std::int64_t width = terms * format_.parts;
    const std::int64_t ld = kPanel * format_.parts;
    const Tensor& a = product_.a;
    if (straight(a)) {
      const std::int64_t lanes = round_up(blocks_, kRowLanes);
      AlignedVector<double> columns(size(lanes * kPanel));
      for (std::int64_t t = 0; t < terms; ++t) {
        for (std::int64_t l = 0; l < lanes; ++l)
          columns[size(l * kPanel + t)] = y[size(t * lanes_ + l)];
      }
      kernels_.project_rows(a.dtype(), block_of(a, 0, m_, p, terms), columns.data(), kPanel, lanes,
                            d_.data(), lanes_, a_squares_.data());
      return;
    }
    for (std::int64_t i = 0; i < m_; i += kRows) {
      const std::int64_t rows = std::min(kRows, m_ - i);
      for (std::int64_t part = 0; part < format_.parts; ++part) {
        pack(a, i, rows, p, terms, part, packed_.data() + part, ld, format_.parts);
      }
      kernels_.square_rows(packed_.data(), ld, rows, width, a_squares_.data() + i);
      kernels_.narrow_f64(packed_.data(), ld, rows, width, y.data(), lanes_,
                          d_.data() + i * lanes_);
    }
  }

  /// Subtracts E = C·R; squares of C's rows by block where C is rounded to 16 bits.
  Result<void> project_result() {
    const Tensor& c = product_.c;
    if (format_.out_unit != 0) c_squares_.assign(size(m_ * lanes_), 0);
    std::vector<double> squares(size(kRows * lanes_));
    std::vector<double> e(size(kRows * lanes_));
    const bool rows_straight = straight(c);
    for (std::int64_t i = 0; i < m_; i += kRows) {
      if (device_.cancelled()) return fail(Code::kCancelled, "matmul: cancelled");
      const std::int64_t rows = std::min(kRows, m_ - i);
      std::fill(e.begin(), e.end(), 0.0);
      std::fill(squares.begin(), squares.end(), 0.0);
      if (rows_straight) {
        kernels_.project_blocks(c.dtype(), block_of(c, i, rows, 0, n_), begins_.data(), blocks_,
                                r_.data(), e.data(), lanes_, nullptr);
      } else {
        for (std::int64_t q = 0; q < blocks_; ++q) {
          const Range all = columns_of(q);
          for (std::int64_t j = 0; j < all.count; j += kColumns) {
            const Range some{all.begin + j, std::min(kColumns, all.count - j)};
            for (std::int64_t part = 0; part < format_.parts; ++part) {
              pack(c, i, rows, some.begin, some.count, part, packed_.data(), kColumns, 1);
              if (any_masked_) mask(some, rows);
              kernels_.dot_rows(packed_.data(), kColumns, rows, some.count, r_.data() + some.begin,
                                e.data() + part * blocks_ + q, squares.data() + q, lanes_);
            }
          }
        }
        if (format_.out_unit != 0) {
          std::copy_n(squares.begin(), rows * lanes_, c_squares_.begin() + i * lanes_);
        }
      }
      for (std::int64_t at = 0; at < rows * lanes_; ++at) d_[size(i * lanes_ + at)] -= e[size(at)];
    }
    return {};
  }

  /// κ: what honest data needs, seen at entries whose bits were just confirmed. What subnormal sums
  /// lose is granted apart: beside rows of tiny numbers it would look like a huge κ for all rows.
  [[nodiscard]] double kappa() const {
    const double near_zero = static_cast<double>(format_.parts * k_) * format_.tiny;
    double worst = 0;
    for (const SampledEntries::Entry& s : samples_.entries()) {
      const std::int64_t q = block_containing(s.column);
      const double scale =
          format_.unit * std::sqrt(a_squares_[size(s.row)]) *
          std::sqrt(b_squares_[size(q)] / static_cast<double>(columns_of(q).count));
      const double ratio = (s.error - near_zero) / scale;
      if (std::isfinite(ratio)) worst = std::max(worst, ratio);
    }
    return std::max(kKappa, kCalibration * worst);
  }

  [[nodiscard]] std::int64_t block_containing(std::int64_t column) const {
    std::int64_t q = std::min(blocks_ - 1, column * blocks_ / n_);
    while (q > 0 && columns_of(q).begin > column) --q;
    while (q + 1 < blocks_ && columns_of(q + 1).begin <= column) ++q;
    return q;
  }

  Result<Verdict> judge() {
    const double kappa = this->kappa();
    struct Doubt {
      double excess;
      std::int64_t row, block;
    };
    std::vector<Doubt> doubts;
    for (std::int64_t i = 0; i < m_; ++i) {
      const double a_norm = std::sqrt(a_squares_[size(i)]);
      const double* const d = d_.data() + i * lanes_;
      for (std::int64_t q = 0; q < blocks_; ++q) {
        const double wide = std::sqrt(static_cast<double>(columns_of(q).count));
        double bound =
            kappa * format_.unit * kRms * a_norm * std::sqrt(b_squares_[size(q)]) +
            kKappa * kRms * wide * (static_cast<double>(k_) * format_.tiny + format_.out_tiny);
        if (format_.out_unit != 0) {
          bound += kRoundingKappa * kRms * format_.out_unit *
                   std::sqrt(c_squares_[size(i * lanes_ + q)]);
        }
        const double distance =
            format_.parts == 2 ? std::hypot(d[q], d[blocks_ + q]) : std::fabs(d[q]);
        // Written so that NaN and infinity on either side are doubts.
        if (distance <= bound && bound <= std::numeric_limits<double>::max()) continue;
        const double excess = distance / bound;
        doubts.push_back(
            {std::isfinite(excess) ? excess : std::numeric_limits<double>::max(), i, q});
      }
    }
    // The worst first: of a wrong result one proof is enough.
    std::sort(doubts.begin(), doubts.end(), [](const Doubt& x, const Doubt& y) {
      return x.excess != y.excess ? x.excess > y.excess
                                  : std::pair(x.row, x.block) < std::pair(y.row, y.block);
    });
    double left = budget();
    for (const Doubt& doubt : doubts) {
      const Range columns = columns_of(doubt.block);
      left -= static_cast<double>(columns.count) * static_cast<double>(k_);
      if (left < 0) return Verdict::kAbstain;
      GOBLIN_TRY(const bool right, exactly_right(product_, {doubt.row, 1}, columns, device_));
      if (!right) return Verdict::kReject;
    }
    return Verdict::kAccept;
  }

  const CheckKernels& kernels_;
  const Product& product_;
  const Device& device_;
  const Format format_;
  const std::int64_t m_, n_, k_;
  const std::int64_t blocks_;         ///< w
  const std::int64_t lanes_;          ///< columns of Y, D and E; those beyond w · parts are zero
  std::vector<std::int64_t> begins_;  ///< of blocks; last: n
  AlignedVector<double> r_;
  AlignedVector<double> packed_;
  std::vector<bool> masked_;
  bool any_masked_ = false;
  std::vector<std::int64_t> bad_columns_;
  SampledEntries samples_;
  std::vector<double> d_, a_squares_, b_squares_, c_squares_;
};

}  // namespace

Result<Verdict> check_floats(const Product& product, std::int64_t samples, ChaCha& random,
                             const Device& device) {
  return FloatCheck(product, samples, random, device).run();
}

}  // namespace goblin::matmul
