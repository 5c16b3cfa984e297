// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// How many connections a daemon takes, and what its log says when they are too many.
#pragma once

#include "core/log/log.hpp"
#include "core/net/channel.hpp"

namespace goblin::link {

/// The limits, with a listener's refusals going to the log. Warns when the process may not open as
/// many descriptors as `connections` asks for.
net::ListenerLimits listener_limits(net::ListenerLimits limits, const log::Logger& logger);

/// Lets this process, and what it starts, open as many descriptors as the system allows it.
void raise_descriptor_limit();

}  // namespace goblin::link
