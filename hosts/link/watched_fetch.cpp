// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/link/watched_fetch.hpp"

#include <atomic>
#include <optional>
#include <string>

namespace goblin::link {
namespace {

/// Counts what passes. Written on a worker, read on the loop.
class CountingSink final : public net::BlobSink {
 public:
  explicit CountingSink(std::shared_ptr<net::BlobSink> sink) : sink_(std::move(sink)) {}
  Result<void> begin(std::uint64_t size) override { return sink_->begin(size); }
  Result<void> write(std::uint64_t offset, wire::ByteView bytes) override {
    count_ += bytes.size();
    return sink_->write(offset, bytes);
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  std::shared_ptr<net::BlobSink> sink_;
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace

net::Task<Result<std::uint64_t>> fetch_watched(net::Loop& loop, net::BlobExchange& exchange,
                                               wire::Digest digest, std::uint64_t offset,
                                               std::shared_ptr<net::BlobSink> sink,
                                               FetchPace pace) {
  const auto counting = std::make_shared<CountingSink>(std::move(sink));
  std::optional<Result<std::uint64_t>> value;
  net::Event done(loop);
  net::Task<Result<std::uint64_t>> fetch = exchange.fetch(digest, offset, counting);
  // Destroyed with this frame, which tells the peer to stop.
  net::Task<void> running = net::store_and_set(fetch, value, done);
  running.start();
  while (!done.is_set()) {
    const std::uint64_t before = counting->count();
    const bool ended = co_await done.wait_for(pace.span);
    const std::uint64_t came = counting->count() - before;
    if (!ended && !done.is_set() && came < pace.bytes) {
      co_return fail(Code::kUnavailable, "blob " + digest.hex() + ": " + std::to_string(came) +
                                             " bytes came in " + std::to_string(pace.span.count()) +
                                             " ms; the peer stalls, or its network does");
    }
  }
  co_return std::move(*value);
}

}  // namespace goblin::link
