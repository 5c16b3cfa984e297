// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/conformance/arena.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace goblin::conformance {
namespace {

constexpr std::uint64_t kGuard = 64;
constexpr std::byte kMark{0xA5};
constexpr std::size_t kLookedAt = 64;

}  // namespace

Result<std::unique_ptr<Arena>> Arena::create() {
  net::UniqueFd fd(::memfd_create("goblin-conformance", MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(kSize)) != 0) {
    return fail(Code::kExhausted, std::string("shared memory: ") + std::strerror(errno));
  }
  void* base = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) {
    return fail(Code::kExhausted, std::string("shared memory: ") + std::strerror(errno));
  }
  return std::unique_ptr<Arena>(new Arena(std::move(fd), static_cast<std::byte*>(base)));
}

Arena::~Arena() { ::munmap(base_, kSize); }

Result<std::uint64_t> Arena::take(std::uint64_t bytes) {
  if (bytes > kSize || next_ + bytes + 2 * kGuard > kSize) {
    return fail(Code::kExhausted, "the job needs more than " + std::to_string(kSize) +
                                      " bytes of data: name a smaller one");
  }
  const std::uint64_t offset = next_;
  // Right behind the last byte, and on to where the next piece begins.
  const std::uint64_t end = (offset + bytes + kGuard + 63) / 64 * 64;
  std::fill(base_ + offset + bytes, base_ + end, kMark);
  guards_.push_back(offset + bytes);
  next_ = end;
  return offset;
}

void Arena::release(std::uint64_t mark) {
  next_ = mark;
  while (!guards_.empty() && guards_.back() >= mark) {
    guards_.pop_back();
  }
}

bool Arena::intact() const {
  const std::size_t count = guards_.size();
  const std::size_t first = std::min(kLookedAt, count);
  return intact_within(0, first) && intact_within(std::max(first, count - first), count);
}

bool Arena::intact_within(std::size_t first, std::size_t last) const {
  for (std::size_t i = first; i < last; ++i) {
    const std::byte* guard = base_ + guards_[i];
    if (!std::all_of(guard, guard + kGuard, [](std::byte b) { return b == kMark; })) {
      return false;
    }
  }
  return true;
}

}  // namespace goblin::conformance
