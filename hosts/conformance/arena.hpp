// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Shared memory that a runner works in. Every piece is followed by bytes that nobody may change, so
// that a plugin which writes past its outputs is found out. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/net/unique_fd.hpp"
#include "goblin/error.hpp"

namespace goblin::conformance {

class Arena {
 public:
  static Result<std::unique_ptr<Arena>> create();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Offset of a piece, 64-byte aligned, whatever stood there before. kExhausted: the job is too
  /// large for a conformance test.
  Result<std::uint64_t> take(std::uint64_t bytes);
  /// Pieces that were taken after mark() are given back.
  [[nodiscard]] std::uint64_t mark() const { return next_; }
  void release(std::uint64_t mark);
  /// Has nobody written behind a piece? Looks at the first ones (a job's own) and the last.
  [[nodiscard]] bool intact() const;
  /// Looks at all of them.
  [[nodiscard]] bool all_intact() const { return intact_within(0, guards_.size()); }

  [[nodiscard]] std::byte* at(std::uint64_t offset) const { return base_ + offset; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::uint64_t size() const { return kSize; }

 private:
  static constexpr std::uint64_t kSize = std::uint64_t{512} << 20;  // sparse
  Arena(net::UniqueFd fd, std::byte* base) : fd_(std::move(fd)), base_(base) {}

  [[nodiscard]] bool intact_within(std::size_t first, std::size_t last) const;

  net::UniqueFd fd_;
  std::byte* base_;
  std::uint64_t next_ = 0;
  std::vector<std::uint64_t> guards_;  ///< offsets, ascending
};

}  // namespace goblin::conformance
