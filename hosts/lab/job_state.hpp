// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Small questions about the state of a job.
#pragma once

#include "core/wire/client.hpp"
#include "hosts/link/clock.hpp"

namespace goblin::lab {

using link::unix_ms;

inline bool is_ended(wire::JobState state) {
  return state == wire::JobState::kDone || state == wire::JobState::kFailed ||
         state == wire::JobState::kCancelled;
}

}  // namespace goblin::lab
