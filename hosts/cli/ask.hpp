// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// One request to a running daemon over its Unix socket. Blocks.
#pragma once

#include <string>

#include "core/wire/client.hpp"

namespace goblin::cli {

/// The body of the reply; the daemon's own error, or kUnavailable when nobody listens at `socket`.
Result<wire::ReplyBody> ask(const std::string& socket, wire::RequestBody body);

}  // namespace goblin::cli
