// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/fuzz/guarded.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace goblin::fuzz {
namespace {

std::byte* pages() {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* all =
      ::mmap(nullptr, kMaxGuarded + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect(all != MAP_FAILED, "memory for guarded pages");
  std::byte* usable = static_cast<std::byte*>(all) + page;
  expect(::mprotect(usable, kMaxGuarded, PROT_READ | PROT_WRITE) == 0, "pages that can be used");
  return usable;
}

}  // namespace

ByteView guarded(ByteView bytes, Against edge) {
  static std::byte* const usable = pages();
  bytes = bytes.first(std::min(bytes.size(), kMaxGuarded));
  std::byte* place = edge == Against::kStart ? usable : usable + (kMaxGuarded - bytes.size());
  if (!bytes.empty()) {
    std::memcpy(place, bytes.data(), bytes.size());
  }
  return {place, bytes.size()};
}

}  // namespace goblin::fuzz
