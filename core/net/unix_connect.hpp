// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// For this folder's .cpp files only.
#pragma once

#include "core/net/channel.hpp"
#include "core/net/place.hpp"

namespace goblin::net {

/// adopt_unix with something kept as long as the connection is open.
Result<std::unique_ptr<Channel>> adopt_unix_with(Loop& loop, UniqueFd socket,
                                                 std::shared_ptr<Place> place);

}  // namespace goblin::net
