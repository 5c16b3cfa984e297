// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/view.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/net/blob_hash.hpp"

namespace goblin::lab {
namespace {

Result<void> read_exactly(int fd, std::uint64_t offset, std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t n =
        ::pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return fail(Code::kCorrupt,
                  std::string("an input's file cannot be read: ") + std::strerror(errno));
    }
    if (n == 0) {
      return fail(Code::kCorrupt, "an input's file became shorter while the job was running");
    }
    done += static_cast<std::size_t>(n);
  }
  return {};
}

/// A tensor as runs of contiguous bytes: `outer` dimensions index the runs, row-major.
class ViewSource final : public net::BlobSource {
 public:
  explicit ViewSource(TensorFile tensor) : tensor_(std::move(tensor)) {
    const auto item = static_cast<std::int64_t>(wire::dtype_size(tensor_.dtype));
    size_ = static_cast<std::uint64_t>(item);
    for (const auto extent : tensor_.shape) {
      size_ *= static_cast<std::uint64_t>(extent);
    }
    // The longest contiguous suffix of dimensions makes one run.
    run_bytes_ = static_cast<std::uint64_t>(item);
    outer_ = tensor_.shape.size();
    while (outer_ > 0) {
      const auto extent = tensor_.shape[outer_ - 1];
      if (extent != 1 && tensor_.strides[outer_ - 1] != static_cast<std::int64_t>(run_bytes_)) {
        break;
      }
      run_bytes_ *= static_cast<std::uint64_t>(extent);
      --outer_;
    }
    if (outer_ > 0 && run_bytes_ == static_cast<std::uint64_t>(item)) {
      // Elements of the innermost dimension stand apart: gather them from one read of their span.
      inner_extent_ = tensor_.shape[outer_ - 1];
      inner_stride_ = tensor_.strides[outer_ - 1];
      const auto span = (inner_extent_ - 1) * std::abs(inner_stride_) + item;
      if (span <= kGatherSpan && inner_extent_ <= kGatherSpan / item) {
        gather_ = true;
        span_.resize(static_cast<std::size_t>(span));
        line_.resize(static_cast<std::size_t>(inner_extent_ * item));
        run_bytes_ = line_.size();
        --outer_;
      }
    }
  }

  [[nodiscard]] std::uint64_t size() const override { return size_; }

  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override {
    while (!out.empty()) {
      const std::uint64_t run = offset / run_bytes_;
      const std::uint64_t within = offset % run_bytes_;
      const auto n =
          static_cast<std::size_t>(std::min<std::uint64_t>(run_bytes_ - within, out.size()));
      const std::uint64_t base = position(run);
      if (gather_) {
        GOBLIN_TRY_VOID(gather_line(run, base));
        std::memcpy(out.data(), line_.data() + within, n);
      } else {
        GOBLIN_TRY_VOID(read_exactly(tensor_.fd->get(), base + within, out.first(n)));
      }
      out = out.subspan(n);
      offset += n;
    }
    return {};
  }

 private:
  static constexpr std::int64_t kGatherSpan = 64 << 20;

  [[nodiscard]] std::uint64_t position(std::uint64_t run) const {
    auto at = static_cast<std::int64_t>(tensor_.offset);
    for (std::size_t d = outer_; d-- > 0;) {
      const auto extent = static_cast<std::uint64_t>(tensor_.shape[d]);
      at += static_cast<std::int64_t>(run % extent) * tensor_.strides[d];
      run /= extent;
    }
    return static_cast<std::uint64_t>(at);
  }

  Result<void> gather_line(std::uint64_t run, std::uint64_t base) {
    if (line_run_ == run + 1) {
      return {};
    }
    line_run_ = 0;
    const auto item = wire::dtype_size(tensor_.dtype);
    const std::int64_t step = std::abs(inner_stride_);
    const std::uint64_t start =
        inner_stride_ > 0 ? base : base - static_cast<std::uint64_t>((inner_extent_ - 1) * step);
    GOBLIN_TRY_VOID(read_exactly(tensor_.fd->get(), start, span_));
    for (std::int64_t i = 0; i < inner_extent_; ++i) {
      const std::int64_t from = inner_stride_ > 0 ? i * step : (inner_extent_ - 1 - i) * step;
      std::memcpy(line_.data() + static_cast<std::size_t>(i) * item, span_.data() + from, item);
    }
    line_run_ = run + 1;
    return {};
  }

  TensorFile tensor_;
  std::uint64_t size_ = 0;
  std::uint64_t run_bytes_ = 0;
  std::size_t outer_ = 0;
  bool gather_ = false;
  std::int64_t inner_extent_ = 0, inner_stride_ = 0;
  wire::Bytes span_, line_;
  std::uint64_t line_run_ = 0;  ///< the run in line_, plus one
};

}  // namespace

std::vector<std::int64_t> TensorFile::row_major(wire::DType dtype,
                                                const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  auto step = static_cast<std::int64_t>(wire::dtype_size(dtype));
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step *= std::max<std::int64_t>(shape[d], 1);
  }
  return strides;
}

Result<Extent> extent_of(wire::DType dtype, const std::vector<std::int64_t>& shape,
                         const std::vector<std::int64_t>& strides) {
  GOBLIN_TRY(const std::uint64_t bytes, wire::TensorSpec{dtype, shape}.size_bytes());
  if (strides.size() != shape.size()) {
    return fail(Code::kInvalidArgument, "a tensor of rank " + std::to_string(shape.size()) +
                                            " has " + std::to_string(strides.size()) + " strides");
  }
  Extent extent;
  if (bytes == 0) {
    return extent;
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(shape[d] - 1, strides[d], &reach) ||
        __builtin_add_overflow(reach < 0 ? extent.low : extent.high, reach,
                               reach < 0 ? &extent.low : &extent.high)) {
      return fail(Code::kInvalidArgument,
                  "strides of dimension " + std::to_string(d) + " reach beyond 2^63 bytes");
    }
  }
  const auto item = static_cast<std::int64_t>(wire::dtype_size(dtype));
  if (__builtin_add_overflow(extent.high, item, &extent.high)) {
    return fail(Code::kInvalidArgument, "a tensor reaches beyond 2^63 bytes");
  }
  return extent;
}

Result<void> check_tensor_file(const TensorFile& tensor, const std::string& what) {
  auto extent = extent_of(tensor.dtype, tensor.shape, tensor.strides);
  if (!extent) {
    return fail(extent.error().with_context(what));
  }
  const auto offset = static_cast<std::int64_t>(tensor.offset);
  const auto limit = static_cast<std::int64_t>(tensor.file_bytes);
  if (offset < 0 || limit < 0 || offset > limit || offset + extent->low < 0 ||
      extent->high > limit - offset) {
    return fail(Code::kInvalidArgument,
                what + ": its elements reach from " + std::to_string(extent->low) + " to " +
                    std::to_string(extent->high) + " bytes after byte " +
                    std::to_string(tensor.offset) + " of a file that has " +
                    std::to_string(tensor.file_bytes) + " bytes; check offset, shape and strides");
  }
  return {};
}

Result<TensorFile> window(const TensorFile& source, const wire::View& view) {
  if (view.dtype != source.dtype) {
    return fail(Code::kInvalidArgument, "a view has another dtype than its source");
  }
  GOBLIN_TRY(const Extent whole, extent_of(source.dtype, source.shape, source.strides));
  GOBLIN_TRY(const Extent part, extent_of(view.dtype, view.shape, view.strides));
  if (part.high > part.low) {
    std::int64_t low = 0;
    std::int64_t high = 0;
    if (__builtin_add_overflow(view.offset, part.low, &low) ||
        __builtin_add_overflow(view.offset, part.high, &high) || low < whole.low ||
        high > whole.high) {
      return fail(Code::kInvalidArgument, "a view of the plan leaves its source: offset " +
                                              std::to_string(view.offset) + " of " +
                                              std::to_string(whole.high) + " bytes");
    }
  }
  TensorFile out = source;
  out.offset =
      part.high > part.low
          ? static_cast<std::uint64_t>(static_cast<std::int64_t>(source.offset) + view.offset)
          : source.offset;
  out.shape = view.shape;
  out.strides = view.strides;
  return out;
}

std::shared_ptr<net::BlobSource> make_view_source(const TensorFile& tensor) {
  return std::make_shared<ViewSource>(tensor);
}

Result<wire::Digest> hash_source(net::BlobSource& source) {
  net::BlobHash hash;
  wire::Bytes buffer(static_cast<std::size_t>(std::min<std::uint64_t>(source.size(), 256 << 10)));
  for (std::uint64_t at = 0; at < source.size();) {
    const auto n =
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), source.size() - at));
    GOBLIN_TRY_VOID(source.read(at, std::span(buffer).first(n)));
    hash.update(std::span(buffer).first(n));
    at += n;
  }
  return hash.finish();
}

}  // namespace goblin::lab
