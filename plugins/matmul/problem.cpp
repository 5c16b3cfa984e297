// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "problem.hpp"

#include <algorithm>
#include <string>

#include "mixed.hpp"

namespace goblin::matmul {
namespace {

std::string shape_text(const Tensor& t) {
  std::string text = "(";
  for (std::size_t i = 0; i < t.rank(); ++i) {
    text += (i != 0 ? ", " : "") + std::to_string(t.dim(i));
  }
  return text + (t.rank() == 1 ? ",)" : ")");
}

Result<void> check_operand(const Tensor& t, const std::string& name) {
  if ((kInputTypes & GOBLIN_DTYPE_BIT(t.dtype())) == 0 || dtype_size(t.dtype()) == 0) {
    return fail(Code::kInvalidArgument, name + " has dtype number " + std::to_string(t.dtype()) +
                                            ", which matmul does not know; convert it");
  }
  if (t.rank() == 0) {
    return fail(Code::kInvalidArgument,
                name +
                    " is a scalar; matmul takes arrays of at least one dimension: multiply by a "
                    "scalar with * instead");
  }
  for (const std::int64_t extent : t.shape()) {
    if (extent < 0) {
      return fail(Code::kInvalidArgument,
                  name + " has shape " + shape_text(t) + "; no extent may be negative");
    }
  }
  return {};
}

/// Extent of broadcast dimension `axis` of `rank` leading ones, and the stride to walk it with.
struct Leading {
  std::int64_t extent = 1;
  std::int64_t stride = 0;
};
Leading leading(const Tensor& t, std::size_t axis, std::size_t rank) {
  const std::size_t own = t.rank() > 2 ? t.rank() - 2 : 0;
  if (axis + own < rank) return {};
  const std::size_t at = axis + own - rank;
  return {t.dim(at), t.dim(at) == 1 ? 0 : t.stride(at)};
}

void push_batch(Problem& p, std::int64_t extent, std::int64_t a, std::int64_t b) {
  if (extent == 1) return;
  if (!p.batch.empty()) {
    std::int64_t next_a = 0;
    std::int64_t next_b = 0;
    std::int64_t merged = 0;
    const bool fits = !__builtin_mul_overflow(a, extent, &next_a) &&
                      !__builtin_mul_overflow(b, extent, &next_b) &&
                      !__builtin_mul_overflow(p.batch.back(), extent, &merged);
    if (fits && p.a.batch.back() == next_a && p.b.batch.back() == next_b) {
      p.batch.back() = merged;
      p.a.batch.back() = a;
      p.b.batch.back() = b;
      return;
    }
  }
  p.batch.push_back(extent);
  p.a.batch.push_back(a);
  p.b.batch.push_back(b);
}

}  // namespace

double Problem::flops() const {
  const double parts = in == GOBLIN_C64 || in == GOBLIN_C128 ? 8 : 2;
  double total = parts * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  for (const std::int64_t extent : batch) total *= static_cast<double>(extent);
  return total;
}

Result<goblin_dtype_v1> output_type(goblin_dtype_v1 in, std::int64_t asked) {
  const auto usual = in == GOBLIN_I8 ? goblin_dtype_v1{GOBLIN_I32} : in;
  if (asked == 0 || asked == usual) return usual;
  if (asked == in) return in;
  if (asked == GOBLIN_F32 && (in == GOBLIN_F16 || in == GOBLIN_BF16)) {
    return static_cast<goblin_dtype_v1>(GOBLIN_F32);
  }
  std::string allowed(dtype_name(usual));
  if (in != usual) allowed += " or " + std::string(dtype_name(in));
  if (in == GOBLIN_F16 || in == GOBLIN_BF16) allowed += " or f32";
  const std::string name(asked > 0 && asked < 16 ? dtype_name(static_cast<goblin_dtype_v1>(asked))
                                                 : "number " + std::to_string(asked));
  return fail(Code::kInvalidArgument, "out_dtype is " + name + "; a product of " +
                                          std::string(dtype_name(in)) + " gives " + allowed +
                                          ": leave it out, or convert the operands");
}

Result<Problem> make_problem(const Tensor& a, const Tensor& b, std::int64_t out_dtype) {
  GOBLIN_TRY_VOID(check_operand(a, "a"));
  GOBLIN_TRY_VOID(check_operand(b, "b"));
  if (a.dtype() != b.dtype()) {
    return fail(Code::kInvalidArgument, "a is " + std::string(dtype_name(a.dtype())) +
                                            " and b is " + std::string(dtype_name(b.dtype())) +
                                            "; matmul does not mix dtypes: convert " +
                                            conversion(a.dtype(), b.dtype()));
  }
  Problem p;
  p.in = a.dtype();
  GOBLIN_TRY(p.out, output_type(p.in, out_dtype));
  p.sum = p.in == GOBLIN_F16 || p.in == GOBLIN_BF16 ? goblin_dtype_v1{GOBLIN_F32} : p.out;

  const bool a_vector = a.rank() == 1;
  const bool b_vector = b.rank() == 1;
  p.m = a_vector ? 1 : a.dim(a.rank() - 2);
  p.k = a.dim(a.rank() - 1);
  p.a.row = a_vector ? 0 : a.stride(a.rank() - 2);
  p.a.column = a.stride(a.rank() - 1);
  const std::int64_t terms = b_vector ? b.dim(0) : b.dim(b.rank() - 2);
  p.n = b_vector ? 1 : b.dim(b.rank() - 1);
  p.b.row = b_vector ? b.stride(0) : b.stride(b.rank() - 2);
  p.b.column = b_vector ? 0 : b.stride(b.rank() - 1);
  if (p.k != terms) {
    return fail(Code::kInvalidArgument,
                "b has shape " + shape_text(b) + " and a " + shape_text(a) + ": b's " +
                    (b_vector ? "length" : "second last dimension") + ", " + std::to_string(terms) +
                    ", must equal a's last, " + std::to_string(p.k) +
                    "; transpose or reshape one of them");
  }

  p.result.dtype = p.out;
  const std::size_t rank =
      std::max(a.rank() > 2 ? a.rank() - 2 : 0, b.rank() > 2 ? b.rank() - 2 : 0);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const Leading from_a = leading(a, axis, rank);
    const Leading from_b = leading(b, axis, rank);
    if (from_a.extent != from_b.extent && from_a.extent != 1 && from_b.extent != 1) {
      return fail(Code::kInvalidArgument,
                  "b has shape " + shape_text(b) + " and a " + shape_text(a) +
                      ": their leading dimensions " + std::to_string(from_b.extent) + " and " +
                      std::to_string(from_a.extent) +
                      " do not broadcast; they must be equal, or one of them 1");
    }
    const std::int64_t extent = from_a.extent == 1 ? from_b.extent : from_a.extent;
    p.result.shape.push_back(extent);
    push_batch(p, extent, from_a.stride, from_b.stride);
  }
  if (!a_vector) p.result.shape.push_back(p.m);
  if (!b_vector) p.result.shape.push_back(p.n);

  // The same B for many A that lie one under the other: one taller product.
  while (!p.batch.empty() && p.b.batch.back() == 0 && p.m != 0) {
    std::int64_t height = 0;
    std::int64_t rows = 0;
    if (__builtin_mul_overflow(p.m, p.a.row, &height) ||
        __builtin_mul_overflow(p.m, p.batch.back(), &rows)) {
      break;
    }
    if (p.m == 1) {
      p.a.row = p.a.batch.back();
    } else if (p.a.batch.back() != height) {
      break;
    }
    p.m = rows;
    p.batch.pop_back();
    p.a.batch.pop_back();
    p.b.batch.pop_back();
  }

  // Whoever walks C may multiply extents without a second thought.
  std::int64_t size = p.out_bytes();
  std::int64_t stride = p.out_bytes();
  bool empty = p.m == 0 || p.n == 0;
  for (const std::int64_t extent : p.batch) empty = empty || extent == 0;
  bool overflow = false;
  // Extents beside a 0 are held to the same: such a type could not be described.
  for (const std::int64_t extent : p.result.shape) {
    overflow = overflow || __builtin_mul_overflow(size, std::max<std::int64_t>(extent, 1), &size);
  }
  if (overflow) {
    return fail(Code::kInvalidArgument, "the product of a " + shape_text(a) + " and b " +
                                            shape_text(b) +
                                            " has more than 2^63 bytes; multiply it in parts");
  }
  p.c.column = stride;
  p.c.row = empty ? 0 : stride * p.n;
  stride = empty ? 0 : p.c.row * p.m;
  p.c.batch.assign(p.batch.size(), 0);
  for (std::size_t i = p.batch.size(); i-- > 0 && !empty;) {
    p.c.batch[i] = stride;
    stride *= p.batch[i];
  }
  return p;
}

}  // namespace goblin::matmul
