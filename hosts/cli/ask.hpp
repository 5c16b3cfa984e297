// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// One request to a running daemon over its Unix socket. Blocks.
#pragma once

#include <string>

#include "core/wire/client.hpp"
#include "core/wire/peer.hpp"

namespace goblin::cli {

/// The body of the reply; the daemon's own error, kUnavailable when nobody listens at `socket`, or
/// kInvalidArgument when a daemon of another role does.
Result<wire::ReplyBody> ask(const std::string& socket, wire::Role role, wire::RequestBody body);

}  // namespace goblin::cli
