// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Frames over a ByteStream: what TLS and Unix channels share. For this folder's .cpp files only.
#pragma once

#include "core/net/channel.hpp"
#include "core/net/reactor.hpp"
#include "core/net/stream.hpp"

namespace goblin::net {

/// `lease`: kept as long as the connection is open (a listener counts its connections by it).
Result<std::unique_ptr<Channel>> frame_channel(Loop& loop, std::unique_ptr<ByteStream> stream,
                                               Peer peer, std::shared_ptr<void> lease = nullptr);

}  // namespace goblin::net
