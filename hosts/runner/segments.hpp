// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Shared memory that the daemon lends, and tensors inside it. No tensor reaches a plugin before
// every byte that it may touch was found to lie in its segment.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/net/unique_fd.hpp"
#include "core/wire/runner.hpp"
#include "goblin/error.hpp"

namespace goblin::runner {

/// Bytes that a tensor may touch, relative to its element (0, …, 0): [low, high). Both 0 when it
/// has no elements.
struct Extent {
  std::int64_t low = 0;
  std::int64_t high = 0;
};

/// Checked: kInvalidArgument for an unknown dtype, a rank over GOBLIN_MAX_RANK, a negative extent,
/// a stride that is no multiple of the item size, or sizes that overflow.
Result<Extent> extent(const goblin_tensor_v1& tensor);

/// A tensor without data from wire values; no strides: row-major. Checked like extent().
Result<goblin_tensor_v1> make_tensor(wire::DType dtype, std::span<const std::int64_t> shape,
                                     std::span<const std::int64_t> strides = {});

class Segment {
 public:
  Segment(const wire::SegmentMap& request, const net::UniqueFd& fd);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] bool writable() const { return writable_; }
  /// Why it could not be mapped; empty when it was.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// Lets this process write to a writable segment, or ends that until it is let again: a thread
  /// that writes nevertheless ends the process by SIGSEGV. kExhausted when the system refuses.
  [[nodiscard]] Result<void> allow_writes(bool allow) const;
  /// This process has none of its pages in memory any more, until it touches them again; their
  /// bytes stay where they are, in the file or its cache.
  void let_go() const;

 private:
  std::byte* base_ = nullptr;
  std::uint64_t size_;
  bool writable_;
  std::string problem_;
};

enum class Access {
  kRead,          ///< any strides
  kReadRowMajor,  ///< inputs of execute
  kWrite,         ///< row-major, in a writable segment
};

/// Tensors with the segments that hold them.
struct Tensors {
  std::vector<goblin_tensor_v1> list;
  std::vector<std::shared_ptr<const Segment>> hold;
};

class Segments {
 public:
  /// A map that fails is remembered: whoever uses the segment gets the reason.
  void map(const wire::SegmentMap& request, const net::UniqueFd& fd);
  void unmap(std::span<const std::uint32_t> segments);
  /// kInvalidArgument names the tensor ("input 2") and what is wrong with it. dtype 0 gives an
  /// absent tensor.
  [[nodiscard]] Result<Tensors> resolve(std::span<const wire::TensorAt> tensors, Access access,
                                        const char* what) const;
  /// Call it now and then while a job's arrays are read or written: keeps this process' resident
  /// memory about at `most` bytes by letting all segments go. Any thread, also while others read
  /// and write the segments.
  void keep_within(std::uint64_t most);

 private:
  [[nodiscard]] Result<goblin_tensor_v1> resolve_one(const wire::TensorAt& tensor, Access access,
                                                     Tensors& into) const;
  std::map<std::uint32_t, std::shared_ptr<const Segment>> segments_;
  /// The system tells this process the highest that its memory ever was, not what it is now. So
  /// that many page faults let it grow beyond a bound once, after which it lets go in time.
  std::mutex memory_;
  std::uint64_t peak_ = 0;
  std::uint64_t faults_ = 0;  ///< when the segments were let go
  std::uint64_t allowed_ = UINT64_MAX;
};

}  // namespace goblin::runner
