// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Bytes over TLS: arrays that the client serves, results that it pulls.
#include <cstring>

#include "client.hpp"
#include "core/net/blob_hash.hpp"

namespace goblin::client {
namespace {

class MemorySource final : public net::BlobSource {
 public:
  explicit MemorySource(Memory memory) : memory_(std::move(memory)) {}
  std::uint64_t size() const override { return memory_.size; }
  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override {
    std::memcpy(out.data(), memory_.data + offset, out.size());
    return {};
  }

 private:
  Memory memory_;
};

class MemorySink final : public net::BlobSink {
 public:
  MemorySink(Memory memory, std::shared_ptr<std::atomic<std::uint64_t>> received)
      : memory_(std::move(memory)), received_(std::move(received)) {}
  Result<void> begin(std::uint64_t size) override {
    if (size != memory_.size) {
      return fail(Code::kCorrupt, "the lab node offers " + std::to_string(size) + " bytes where " +
                                      std::to_string(memory_.size) + " are expected");
    }
    return {};
  }
  Result<void> write(std::uint64_t offset, wire::ByteView bytes) override {
    if (offset > memory_.size || bytes.size() > memory_.size - offset) {
      return fail(Code::kCorrupt, "the lab node sends more bytes than it said");
    }
    std::memcpy(memory_.data + offset, bytes.data(), bytes.size());
    *received_ = offset + bytes.size();
    return {};
  }

 private:
  Memory memory_;
  std::shared_ptr<std::atomic<std::uint64_t>> received_;
};

}  // namespace

wire::Digest Client::serve(Memory memory) {
  const auto digest = net::blob_digest({memory.data, memory.size});
  const std::lock_guard lock(mutex_);
  auto it = served_.find(digest);
  if (it == served_.end()) {
    it = served_.emplace(digest, std::pair(std::move(memory), 0u)).first;
  }
  ++it->second.second;
  return digest;
}

void Client::unserve(const wire::Digest& digest) {
  Memory released;  // after the lock: its owner may need Python's
  const std::lock_guard lock(mutex_);
  const auto it = served_.find(digest);
  if (it != served_.end() && --it->second.second == 0) {
    released = std::move(it->second.first);
    served_.erase(it);
  }
}

net::Task<Result<std::shared_ptr<net::BlobSource>>> Client::find_blob(wire::Digest digest) {
  const std::lock_guard lock(mutex_);
  const auto it = served_.find(digest);
  if (it == served_.end()) {
    co_return fail(Code::kNotFound, "this client no longer offers the array");
  }
  co_return std::make_shared<MemorySource>(it->second.first);
}

std::shared_ptr<Call> Client::pull(const wire::Digest& digest, Memory memory, std::uint64_t offset,
                                   std::shared_ptr<std::atomic<std::uint64_t>> received) {
  auto call = std::make_shared<Call>();
  auto sink = std::make_shared<MemorySink>(std::move(memory), std::move(received));
  loop_->post([this, digest, offset, sink, call] {
    if (connection_) {
      loop_->spawn(fetch(connection_, digest, offset, sink, call));
    } else {
      call->finish({fail(Code::kUnavailable, "the lab node is away"), {}, true, epoch_});
    }
  });
  return call;
}

net::Task<void> Client::fetch(ConnectionPtr connection, wire::Digest digest, std::uint64_t offset,
                              std::shared_ptr<net::BlobSink> sink, std::shared_ptr<Call> call) {
  auto size = co_await connection->blobs->fetch(digest, offset, sink);
  sink.reset();
  Answer answer{wire::ReplyBody(wire::Ok{}), {}, false, epoch_};
  if (!size) {
    answer.lost = connection->closed;
    answer.body = fail(std::move(size).error());
  }
  call->finish(std::move(answer));
}

}  // namespace goblin::client
