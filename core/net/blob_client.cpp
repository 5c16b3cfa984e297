// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <algorithm>
#include <limits>

#include "core/net/blob_streams.hpp"

namespace goblin::net {
namespace {

constexpr std::uint64_t kMinWindow = 64u << 10;

std::uint64_t add_saturating(std::uint64_t a, std::uint64_t b) {
  return b > std::numeric_limits<std::uint64_t>::max() - a
             ? std::numeric_limits<std::uint64_t>::max()
             : a + b;
}

std::string stream_name(std::uint32_t stream) { return "blob stream " + std::to_string(stream); }

}  // namespace

struct BlobClient::Stream {
  Stream(Loop& loop, std::uint32_t number, std::uint64_t from, std::uint64_t to)
      : id(number), position(from), granted(to), changed(loop) {}

  std::uint32_t id;
  std::uint64_t position;  ///< the next byte that comes
  std::uint64_t granted;   ///< bytes before this may come
  bool informed = false;
  std::uint64_t size = 0;
  bool abandoned = false;  ///< nobody wants the bytes that still come
  std::deque<wire::Bytes> arrived;
  std::optional<Error> ended;
  Event changed;

  void end(Error error) {
    ended = std::move(error);
    changed.set();
  }
};

/// Tells the peer when a fetch goes before its stream has ended.
class BlobClient::Guard {
 public:
  Guard(std::shared_ptr<BlobClient> client, std::uint32_t id)
      : client_(std::move(client)), id_(id) {}
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() { client_->abandon(id_); }

 private:
  std::shared_ptr<BlobClient> client_;
  std::uint32_t id_;
};

BlobClient::BlobClient(Loop& loop, Channel& channel, Outbox& outbox)
    : loop_(loop), channel_(&channel), outbox_(&outbox), open_(loop, kMaxBlobStreams) {}

void BlobClient::shut_down() {
  channel_ = nullptr;
  outbox_ = nullptr;
  for (auto& [id, stream] : streams_) {
    stream->end({Code::kUnavailable, "the connection ended before the blob had come"});
  }
  streams_.clear();
}

// The stream stays until the peer has confirmed: what it sent before it knew is on its way.
void BlobClient::abandon(std::uint32_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) {
    return;
  }
  found->second->abandoned = true;
  found->second->arrived.clear();
  outbox_->push(wire::FrameType::kBlobCancel, wire::BlobCancel{id, GOBLIN_CANCELLED});
}

Result<void> BlobClient::on_info(const wire::BlobInfo& info) {
  const auto found = streams_.find(info.stream);
  if (found == streams_.end() || found->second->informed) {
    return fail(Code::kCorrupt,
                stream_name(info.stream) +
                    (found == streams_.end() ? " was not asked for" : " was described twice"));
  }
  const std::shared_ptr<Stream> stream = found->second;
  if (info.status != GOBLIN_OK) {
    streams_.erase(found);
    const Code code = code_from_status(info.status);
    stream->end({code, "the peer cannot send the blob: " + std::string(code_name(code))});
    return {};
  }
  if (info.size < stream->position) {
    return fail(Code::kCorrupt, stream_name(info.stream) + " has " + std::to_string(info.size) +
                                    " bytes, fewer than the offset " +
                                    std::to_string(stream->position) + " that was accepted");
  }
  stream->informed = true;
  stream->size = info.size;
  if (stream->position == stream->size) {
    streams_.erase(found);
  }
  stream->changed.set();
  return {};
}

Result<void> BlobClient::on_data(const wire::BlobData& data, wire::Bytes payload) {
  const auto found = streams_.find(data.stream);
  const std::string name = stream_name(data.stream);
  if (found == streams_.end()) {
    return fail(Code::kCorrupt, name + " was not asked for, or has ended");
  }
  const std::shared_ptr<Stream> stream = found->second;
  if (!stream->informed || payload.empty()) {
    return fail(Code::kCorrupt,
                name + (payload.empty() ? ": no bytes in a frame" : ": bytes before their size"));
  }
  if (data.offset != stream->position) {
    return fail(Code::kCorrupt, name + ": bytes at " + std::to_string(data.offset) + "; those at " +
                                    std::to_string(stream->position) + " were expected");
  }
  const std::uint64_t limit = std::min(stream->granted, stream->size);
  if (payload.size() > limit - stream->position) {
    return fail(Code::kCorrupt,
                name + ": " + std::to_string(payload.size()) + " bytes at " +
                    std::to_string(data.offset) + " go beyond " +
                    (limit == stream->size ? "its size " : "the credit, which ends at ") +
                    std::to_string(limit));
  }
  stream->position += payload.size();
  if (!stream->abandoned) {
    stream->arrived.push_back(std::move(payload));
    stream->changed.set();
  }
  if (stream->position == stream->size) {
    streams_.erase(found);
  }
  return {};
}

Result<void> BlobClient::on_cancel(const wire::BlobCancel& cancel) {
  const auto found = streams_.find(cancel.stream);
  if (found == streams_.end() || cancel.status == GOBLIN_OK) {
    return fail(Code::kCorrupt, stream_name(cancel.stream) + " cannot be ended: status " +
                                    std::to_string(cancel.status) +
                                    (found == streams_.end() ? ", not open" : ""));
  }
  const std::shared_ptr<Stream> stream = found->second;
  streams_.erase(found);
  const Code code = code_from_status(cancel.status);
  stream->end({code, "the peer stopped sending the blob at byte " +
                         std::to_string(stream->position) + ": " + std::string(code_name(code))});
  return {};
}

Task<Result<std::uint64_t>> BlobClient::fetch(std::shared_ptr<BlobClient> self, wire::Digest digest,
                                              std::uint64_t offset, std::shared_ptr<BlobSink> sink,
                                              std::uint64_t window) {
  window = std::max(window, kMinWindow);
  const Turnstile::Place place = co_await self->open_.enter();
  if (self->channel_ == nullptr) {
    co_return fail(Code::kUnavailable, "the connection has ended");
  }
  while (self->streams_.contains(self->next_id_)) {
    ++self->next_id_;
  }
  wire::BlobGet get;
  get.stream = self->next_id_++;
  get.digest = digest;
  get.offset = offset;
  get.credit = window;
  const auto stream =
      std::make_shared<Stream>(self->loop_, get.stream, offset, add_saturating(offset, window));
  self->streams_.emplace(get.stream, stream);
  const Guard guard(self, get.stream);
  GOBLIN_CO_TRY_VOID(co_await self->channel_->send(make_frame(wire::FrameType::kBlobGet, get)));
  auto size = co_await self->take_all(*stream, std::move(sink), window);
  if (!size) {
    co_return fail(size.error().with_context("blob " + digest.hex()));
  }
  co_return size;
}

Task<Result<std::uint64_t>> BlobClient::take_all(Stream& stream, std::shared_ptr<BlobSink> sink,
                                                 std::uint64_t window) {
  std::uint64_t written = stream.position;
  while (!stream.informed) {
    if (stream.ended) {
      co_return fail(*stream.ended);
    }
    stream.changed.reset();
    co_await stream.changed.wait();
  }
  const auto begin = [sink, size = stream.size] { return sink->begin(size); };
  GOBLIN_CO_TRY_VOID(co_await loop_.offload(begin));
  while (written < stream.size) {
    while (stream.arrived.empty()) {
      if (stream.ended) {
        co_return fail(*stream.ended);
      }
      stream.changed.reset();
      co_await stream.changed.wait();
    }
    // In parts of a quarter: the peer goes on sending while the sink takes one.
    const auto batch = std::make_shared<std::vector<wire::Bytes>>();
    std::uint64_t bytes = 0;
    while (!stream.arrived.empty() && bytes < window / 4) {
      bytes += stream.arrived.front().size();
      batch->push_back(std::move(stream.arrived.front()));
      stream.arrived.pop_front();
    }
    const auto write = [sink, batch, offset = written]() -> Result<void> {
      std::uint64_t at = offset;
      for (wire::Bytes& piece : *batch) {
        GOBLIN_TRY_VOID(sink->write(at, piece));
        at += piece.size();
        piece = {};
      }
      return {};
    };
    GOBLIN_CO_TRY_VOID(co_await loop_.offload(write));
    written += bytes;
    const std::uint64_t target = std::min(stream.size, add_saturating(written, window));
    const bool open = outbox_ != nullptr && !stream.ended && stream.position < stream.size;
    if (open && target > stream.granted &&
        (target - stream.granted >= window / 4 || target == stream.size)) {
      outbox_->push(wire::FrameType::kBlobCredit,
                    wire::BlobCredit{stream.id, target - stream.granted});
      stream.granted = target;
    }
  }
  co_return stream.size;
}

}  // namespace goblin::net
