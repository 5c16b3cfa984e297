// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/volunteer/job_runner.hpp"

#include <algorithm>

namespace goblin::volunteer {
namespace {

/// A buffer serves tasks down to this share of its size: a larger one would waste the host's
/// memory.
constexpr std::uint64_t kMostWaste = 2;

}  // namespace

net::Task<Result<OutputBuffer>> Work::JobRunner::output_buffer(std::uint64_t bytes,
                                                               std::uint64_t room) {
  OutputBuffer found;
  std::uint64_t spare = 0;
  std::vector<std::uint32_t> unmapped;
  for (auto it = buffers.begin(); it != buffers.end();) {
    const std::uint64_t size = it->memory->size();
    if (it->memory.use_count() > 1) {  // being fetched
      ++it;
    } else if (!found.memory && size >= bytes && size / kMostWaste <= bytes) {
      found = *it++;
    } else if (size <= room - std::min(room, spare)) {
      spare += size;
      ++it;
    } else {
      unmapped.push_back(it->segment);
      it = buffers.erase(it);
    }
  }
  if (!unmapped.empty()) {
    GOBLIN_CO_TRY_VOID(co_await client->unmap(std::move(unmapped)));
  }
  if (!found.memory) {
    GOBLIN_CO_TRY(found.memory, SharedBuffer::create(bytes));
    GOBLIN_CO_TRY(found.segment, co_await client->map(found.memory->fd(), bytes, true));
    buffers.push_back(found);
  }
  co_return found;
}

std::uint64_t Work::JobRunner::free_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& buffer : buffers) {
    bytes += buffer.memory.use_count() > 1 ? 0 : buffer.memory->size();
  }
  return bytes;
}

net::Task<void> Work::JobRunner::trim_buffers(std::uint64_t bytes) {
  std::uint64_t kept = 0;
  std::vector<std::uint32_t> unmapped;
  std::erase_if(buffers, [&](const OutputBuffer& buffer) {
    if (buffer.memory.use_count() > 1) {
      return false;
    }
    if (buffer.memory->size() <= bytes - std::min(bytes, kept)) {
      kept += buffer.memory->size();
      return false;
    }
    unmapped.push_back(buffer.segment);
    return true;
  });
  if (!unmapped.empty()) {
    // A runner that cannot answer has gone, and its maps with it.
    (void)co_await client->unmap(std::move(unmapped));
  }
}

}  // namespace goblin::volunteer
