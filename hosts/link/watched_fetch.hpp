// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A fetch that ends when the peer does not send: one that answers pings but stalls blobs would hold
// whoever waits for them for ever.
#pragma once

#include <memory>

#include "core/net/blobs.hpp"

namespace goblin::link {

/// In each `span` at least `bytes` must reach the sink, or the fetch must end.
struct FetchPace {
  net::Milliseconds span{60'000};
  std::uint64_t bytes = 64u << 10;
};

/// As BlobExchange::fetch, and kUnavailable when the peer is slower than `pace`. What arrived is in
/// the sink. The exchange is held by the caller until this ends. Loop's thread only.
net::Task<Result<std::uint64_t>> fetch_watched(net::Loop& loop, net::BlobExchange& exchange,
                                               wire::Digest digest, std::uint64_t offset,
                                               std::shared_ptr<net::BlobSink> sink,
                                               FetchPace pace = {});

}  // namespace goblin::link
