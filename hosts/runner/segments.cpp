// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/runner/segments.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "goblin/tensor.hpp"

namespace goblin::runner {
namespace {

tl::unexpected<Error> invalid(std::string message) {
  return fail(Code::kInvalidArgument, std::move(message));
}

tl::unexpected<Error> too_large() { return invalid("its size does not fit into 63 bits"); }

}  // namespace

Result<Extent> extent(const goblin_tensor_v1& tensor) {
  const auto item = static_cast<std::int64_t>(dtype_size(tensor.dtype));
  if (item == 0) {
    return invalid("it has an unknown dtype (" + std::to_string(tensor.dtype) + ")");
  }
  if (tensor.rank > GOBLIN_MAX_RANK) {
    return invalid("it has " + std::to_string(tensor.rank) + " dimensions; at most " +
                   std::to_string(GOBLIN_MAX_RANK) + " are possible");
  }
  bool empty = false;
  std::int64_t bytes = item;  // of the elements, were they row-major
  Extent out{0, item};
  for (std::uint32_t i = 0; i < tensor.rank; ++i) {
    const std::int64_t length = tensor.shape[i];
    const std::int64_t stride = tensor.strides[i];
    if (length < 0) {
      return invalid("dimension " + std::to_string(i) + " has length " + std::to_string(length));
    }
    if (stride % item != 0) {
      return invalid("stride " + std::to_string(stride) + " is no multiple of the item size " +
                     std::to_string(item));
    }
    if (length == 0) {
      empty = true;
      continue;
    }
    std::int64_t span = 0;
    if (__builtin_mul_overflow(bytes, length, &bytes) ||
        __builtin_mul_overflow(length - 1, stride, &span) ||
        __builtin_add_overflow(span < 0 ? out.low : out.high, span,
                               span < 0 ? &out.low : &out.high)) {
      return too_large();
    }
  }
  // A difference of ends that overflows would make later sums of offsets lie.
  std::int64_t width = 0;
  if (__builtin_sub_overflow(out.high, out.low, &width)) {
    return too_large();
  }
  return empty ? Extent{} : out;
}

Result<goblin_tensor_v1> make_tensor(wire::DType dtype, std::span<const std::int64_t> shape,
                                     std::span<const std::int64_t> strides) {
  if (shape.size() > GOBLIN_MAX_RANK || (!strides.empty() && strides.size() != shape.size())) {
    return invalid("it has " + std::to_string(shape.size()) + " dimensions and " +
                   std::to_string(strides.size()) + " strides");
  }
  goblin_tensor_v1 tensor{};
  tensor.dtype = dtype;
  tensor.rank = static_cast<std::uint32_t>(shape.size());
  auto stride = static_cast<std::int64_t>(dtype_size(dtype));
  for (std::size_t i = shape.size(); i-- > 0;) {
    tensor.shape[i] = shape[i];
    tensor.strides[i] = strides.empty() ? stride : strides[i];
    // Of an empty tensor the strides say nothing, but they must not overflow either.
    if (strides.empty() &&
        __builtin_mul_overflow(stride, std::max<std::int64_t>(shape[i], 1), &stride)) {
      return too_large();
    }
  }
  GOBLIN_TRY([[maybe_unused]] const Extent checked, extent(tensor));
  return tensor;
}

Segment::Segment(const wire::SegmentMap& request, const net::UniqueFd& fd)
    : size_(request.size), writable_(request.writable) {
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    problem_ = "its descriptor is missing";
    return;
  }
  // Touching what lies beyond the end of the file would kill the process.
  if (size_ > static_cast<std::uint64_t>(INT64_MAX) ||
      static_cast<std::uint64_t>(info.st_size) < size_) {
    problem_ =
        "its file has " + std::to_string(info.st_size) + " bytes, not " + std::to_string(size_);
    return;
  }
  if (size_ == 0) {
    return;
  }
  void* base =
      ::mmap(nullptr, size_, PROT_READ | (writable_ ? PROT_WRITE : 0), MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) {
    problem_ = std::string("mmap: ") + std::strerror(errno);
    return;
  }
  base_ = static_cast<std::byte*>(base);
}

Segment::~Segment() {
  if (base_ != nullptr) {
    ::munmap(base_, size_);
  }
}

Result<void> Segment::allow_writes(bool allow) const {
  if (base_ != nullptr && writable_ &&
      ::mprotect(base_, size_, PROT_READ | (allow ? PROT_WRITE : 0)) != 0) {
    return fail(Code::kExhausted, std::string("memory of outputs cannot be made ") +
                                      (allow ? "writable" : "read only") +
                                      ": mprotect: " + std::strerror(errno));
  }
  return {};
}

void Segment::let_go() const {
  if (base_ != nullptr) {
    (void)::madvise(base_, size_, MADV_DONTNEED);  // shared with the file: nothing is lost
  }
}

void Segments::map(const wire::SegmentMap& request, const net::UniqueFd& fd) {
  segments_[request.segment] = std::make_shared<const Segment>(request, fd);
}

void Segments::unmap(std::span<const std::uint32_t> segments) {
  for (const std::uint32_t segment : segments) {
    segments_.erase(segment);
  }
}

void Segments::keep_within(std::uint64_t most) {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const std::uint64_t peak = static_cast<std::uint64_t>(used.ru_maxrss) << 10;
  const auto faults = static_cast<std::uint64_t>(used.ru_minflt + used.ru_majflt);
  const std::lock_guard<std::mutex> lock(memory_);
  const std::uint64_t since = faults - faults_;
  const bool grown = peak > std::max(peak_, most);
  if (!grown && since < allowed_) {
    return;
  }
  if (grown) {
    peak_ = peak;
    allowed_ = std::clamp<std::uint64_t>(since / 4 * 3, 1, allowed_);
  }
  faults_ = faults;
  for (const auto& [number, segment] : segments_) {
    segment->let_go();
  }
}

Result<goblin_tensor_v1> Segments::resolve_one(const wire::TensorAt& at, Access access,
                                               Tensors& into) const {
  GOBLIN_TRY(goblin_tensor_v1 tensor, make_tensor(at.dtype, at.shape, at.strides));
  GOBLIN_TRY(const Extent touched, extent(tensor));
  const std::string where = "segment " + std::to_string(at.segment);
  const auto found = segments_.find(at.segment);
  if (found == segments_.end()) {
    return invalid(where + " is not mapped");
  }
  const Segment& segment = *found->second;
  if (!segment.problem().empty()) {
    return invalid(where + " could not be mapped: " + segment.problem());
  }
  // All in 64 bits: an offset is at most the size, which is below 2^63.
  if (at.offset > segment.size() ||
      touched.high > static_cast<std::int64_t>(segment.size() - at.offset) ||
      touched.low < -static_cast<std::int64_t>(at.offset)) {
    return invalid("it leaves " + where + " of " + std::to_string(segment.size()) +
                   " bytes: offset " + std::to_string(at.offset) + ", touching [" +
                   std::to_string(touched.low) + ", " + std::to_string(touched.high) + ")");
  }
  const std::uint64_t alignment = std::min<std::uint64_t>(dtype_size(tensor.dtype), 8);
  if (at.offset % alignment != 0) {
    return invalid("its offset " + std::to_string(at.offset) + " is no multiple of " +
                   std::to_string(alignment));
  }
  tensor.data = segment.base() == nullptr ? nullptr : segment.base() + at.offset;
  if (access != Access::kRead && !Tensor(tensor).is_row_major()) {
    return invalid("it is not row-major");
  }
  if (access == Access::kWrite && !segment.writable()) {
    return invalid(where + " is mapped read only");
  }
  into.hold.push_back(found->second);
  return tensor;
}

Result<Tensors> Segments::resolve(std::span<const wire::TensorAt> tensors, Access access,
                                  const char* what) const {
  Tensors out;
  out.list.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].dtype == 0) {
      out.list.push_back({});
      continue;
    }
    auto tensor = resolve_one(tensors[i], access, out);
    if (!tensor) {
      return fail(tensor.error().with_context(std::string(what) + " " + std::to_string(i)));
    }
    out.list.push_back(*tensor);
  }
  return out;
}

}  // namespace goblin::runner
