// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Frames over a ByteStream: what TLS and Unix channels share. For this folder's .cpp files only.
#pragma once

#include "core/net/channel.hpp"
#include "core/net/place.hpp"
#include "core/net/reactor.hpp"
#include "core/net/stream.hpp"

namespace goblin::net {

/// `place`: of the listener that accepted it, kept as long as the connection is open.
Result<std::unique_ptr<Channel>> frame_channel(Loop& loop, std::unique_ptr<ByteStream> stream,
                                               Peer peer, std::shared_ptr<Place> place = nullptr);

}  // namespace goblin::net
