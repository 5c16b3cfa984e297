// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#pragma once

#include <string>

namespace goblin::link {

/// Tells whoever started the daemon that it is up: writes `line` and a newline to `fd` and closes
/// it. Does nothing when `fd` is negative. Nobody may be there any more: then nobody waits for it.
void say_ready(int fd, const std::string& line);

}  // namespace goblin::link
