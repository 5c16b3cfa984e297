// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The user id that a runner computes under. A daemon that runs as root gives each of its runners an
// id that nobody else has; any other daemon's runners have the daemon's own.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "core/jail/layers.hpp"
#include "goblin/error.hpp"

namespace goblin::jail {

struct OwnUid {
  uid_t outside = 0;  ///< as the computer knows it
  uid_t inside = 0;   ///< as the runner's user namespace does; the same without one
};

/// An id for the runner of the spawner with this pid: 0x60000000 + pid, which nobody uses and no
/// two living runners share; where the ids of this container end before, one of the 4,336 that
/// systemd keeps for services of a moment. kUnavailable says why there is none.
Result<OwnUid> choose_own_uid(pid_t spawner);

/// Single-threaded. Leaves every group, takes the id, and drops every capability, for good.
Result<void> drop_credentials(const std::optional<OwnUid>& own);

}  // namespace goblin::jail
