// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <algorithm>
#include <limits>

#include "core/net/blob_streams.hpp"

namespace goblin::net {
namespace {

constexpr std::size_t kBuffers = 16;  // 4 MiB of read-ahead on one connection

std::string stream_name(std::uint32_t stream) { return "blob stream " + std::to_string(stream); }

}  // namespace

struct BlobServer::Stream {
  Stream(Loop& loop, const wire::BlobGet& get) : request(get), credit(get.credit), changed(loop) {}

  wire::BlobGet request;
  std::uint64_t credit;  ///< bytes that may be read, then sent
  Event changed;
  std::shared_ptr<BlobSource> source;
  std::uint64_t size = 0;
  std::uint64_t read_to = 0;  ///< what has been read, or is being
  Task<void> task;
};

BlobServer::BlobServer(Loop& loop, Channel& channel, Outbox& outbox, BlobExchange::Find find)
    : loop_(loop),
      channel_(channel),
      outbox_(outbox),
      find_(std::move(find)),
      buffers_(loop, kBuffers),
      sending_(loop, 1) {}

BlobServer::~BlobServer() {
  *alive_ = false;
  shut_down();
}

void BlobServer::shut_down() {
  streams_.clear();
  ended_.clear();
}

Result<void> BlobServer::on_get(const wire::BlobGet& get) {
  if (streams_.contains(get.stream)) {
    return fail(Code::kCorrupt, stream_name(get.stream) + " was asked for twice");
  }
  if (streams_.size() >= kMaxBlobStreams) {
    return fail(Code::kCorrupt, "the peer asked for more than " + std::to_string(kMaxBlobStreams) +
                                    " blobs at once");
  }
  auto stream = std::make_shared<Stream>(loop_, get);
  streams_.emplace(get.stream, stream);
  stream->task = serve(stream);
  stream->task.start();
  return {};
}

Result<void> BlobServer::on_credit(const wire::BlobCredit& credit) {
  const auto found = streams_.find(credit.stream);
  if (found == streams_.end()) {
    return {};  // it crossed the stream's end
  }
  Stream& stream = *found->second;
  if (credit.bytes > std::numeric_limits<std::uint64_t>::max() - stream.credit) {
    return fail(Code::kCorrupt, stream_name(credit.stream) + ": a credit of " +
                                    std::to_string(credit.bytes) + " more bytes overflows");
  }
  stream.credit += credit.bytes;
  stream.changed.set();
  return {};
}

void BlobServer::on_cancel(std::uint32_t stream) {
  if (streams_.erase(stream) != 0) {
    outbox_.push(wire::FrameType::kBlobCancel, wire::BlobCancel{stream, GOBLIN_UNAVAILABLE});
  }
}

// `stream` must not be owned by its own coroutine: its destruction ends that one.
Task<void> BlobServer::serve(std::shared_ptr<Stream> stream) {
  Stream& s = *stream;
  stream.reset();
  co_await serve_blob(s);
  const auto found = streams_.find(s.request.stream);
  ended_.push_back(std::move(found->second));
  streams_.erase(found);
  loop_.post([this, alive = alive_] {
    if (*alive) {
      ended_.clear();
    }
  });
}

Task<void> BlobServer::serve_blob(Stream& stream) {
  const std::uint32_t id = stream.request.stream;
  auto source = co_await find_(stream.request.digest);
  wire::BlobInfo info;
  info.stream = id;
  if (!source) {
    info.status = static_cast<std::int32_t>(source.error().code);
  } else {
    stream.source = std::move(*source);
    stream.size = info.size = stream.source->size();
    stream.read_to = stream.request.offset;
    if (stream.request.offset > info.size) {
      info.status = GOBLIN_INVALID_ARGUMENT;
    }
  }
  auto told = co_await channel_.send(make_frame(wire::FrameType::kBlobInfo, info));
  if (!told || info.status != GOBLIN_OK || stream.read_to == stream.size) {
    co_return;
  }
  // One piece is read while the one before it is sent.
  Task<Result<Piece>> ahead = next_piece(stream);
  ahead.start();
  bool more = true;
  while (more) {
    auto piece = co_await ahead;
    if (!piece) {
      wire::BlobCancel cancel;
      cancel.stream = id;
      cancel.status = static_cast<std::int32_t>(
          piece.error().code == Code::kCancelled ? Code::kUnavailable : piece.error().code);
      co_await channel_.send(make_frame(wire::FrameType::kBlobCancel, cancel));
      co_return;
    }
    more = stream.read_to < stream.size;
    if (more) {
      ahead = next_piece(stream);
      ahead.start();
    }
    const Turnstile::Place turn = co_await sending_.enter();
    wire::BlobData data;
    data.stream = id;
    data.offset = piece->offset;
    auto sent = co_await channel_.send(
        make_frame(wire::FrameType::kBlobData, data, std::move(piece->bytes)));
    if (!sent) {
      co_return;
    }
  }
}

Task<Result<BlobServer::Piece>> BlobServer::next_piece(Stream& stream) {
  while (stream.credit == 0) {
    stream.changed.reset();
    co_await stream.changed.wait();
  }
  Piece piece;
  piece.buffer = co_await buffers_.enter();
  piece.offset = stream.read_to;
  const std::uint64_t size = std::min({kBlobPiece, stream.credit, stream.size - stream.read_to});
  stream.credit -= size;
  stream.read_to += size;
  const auto read = [source = stream.source, offset = piece.offset, size]() -> Result<wire::Bytes> {
    wire::Bytes bytes(size);
    GOBLIN_TRY_VOID(source->read(offset, bytes));
    return bytes;
  };
  GOBLIN_CO_TRY(piece.bytes, co_await loop_.offload(read));
  co_return std::move(piece);
}

}  // namespace goblin::net
