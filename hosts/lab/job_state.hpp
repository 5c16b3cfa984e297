// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Small questions about the state of a job.
#pragma once

#include <chrono>
#include <cstdint>

#include "core/wire/client.hpp"

namespace goblin::lab {

/// Milliseconds since 1970, for the journal.
inline std::int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

inline bool is_ended(wire::JobState state) {
  return state == wire::JobState::kDone || state == wire::JobState::kFailed ||
         state == wire::JobState::kCancelled;
}

}  // namespace goblin::lab
