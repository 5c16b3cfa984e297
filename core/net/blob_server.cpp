// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <algorithm>
#include <limits>

#include "core/net/blob_streams.hpp"

namespace goblin::net {
namespace {

constexpr std::size_t kBuffers = 16;  // 4 MiB of read-ahead on one connection
/// Pieces that a worker reads at once, where credit and buffers allow: handing each over on its own
/// costs more than reading it.
constexpr std::size_t kPiecesAtOnce = 4;

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
  // Some pieces are read while those before them are sent.
  Task<Result<std::vector<Piece>>> ahead = next_pieces(stream);
  ahead.start();
  bool more = true;
  while (more) {
    auto pieces = co_await ahead;
    if (!pieces) {
      wire::BlobCancel cancel;
      cancel.stream = id;
      cancel.status = static_cast<std::int32_t>(
          pieces.error().code == Code::kCancelled ? Code::kUnavailable : pieces.error().code);
      co_await channel_.send(make_frame(wire::FrameType::kBlobCancel, cancel));
      co_return;
    }
    more = stream.read_to < stream.size;
    if (more) {
      ahead = next_pieces(stream);
      ahead.start();
    }
    for (Piece& piece : *pieces) {
      const Turnstile::Place turn = co_await sending_.enter();
      wire::BlobData data;
      data.stream = id;
      data.offset = piece.offset;
      auto sent = co_await channel_.send(
          make_frame(wire::FrameType::kBlobData, data, std::move(piece.bytes)));
      if (!sent) {
        co_return;
      }
      piece.buffer = {};
    }
  }
}

Task<Result<std::vector<BlobServer::Piece>>> BlobServer::next_pieces(Stream& stream) {
  while (stream.credit == 0) {
    stream.changed.reset();
    co_await stream.changed.wait();
  }
  std::vector<Piece> pieces;
  std::vector<std::uint64_t> sizes;
  std::optional<Turnstile::Place> buffer = co_await buffers_.enter();
  while (buffer) {
    Piece& piece = pieces.emplace_back();
    piece.buffer = std::move(*buffer);
    piece.offset = stream.read_to;
    sizes.push_back(std::min({kBlobPiece, stream.credit, stream.size - stream.read_to}));
    stream.credit -= sizes.back();
    stream.read_to += sizes.back();
    const bool last =
        pieces.size() == kPiecesAtOnce || stream.credit == 0 || stream.read_to == stream.size;
    buffer = last ? std::nullopt : buffers_.try_enter();
  }
  // The worker owns what it uses: this coroutine may go meanwhile.
  const auto read = [source = stream.source, offset = pieces.front().offset,
                     sizes]() -> Result<std::vector<wire::Bytes>> {
    std::vector<wire::Bytes> all;
    std::uint64_t at = offset;
    for (const std::uint64_t size : sizes) {
      wire::Bytes& bytes = all.emplace_back(size);
      GOBLIN_TRY_VOID(source->read(at, bytes));
      at += size;
    }
    return all;
  };
  GOBLIN_CO_TRY(std::vector<wire::Bytes> all, co_await loop_.offload(read));
  for (std::size_t i = 0; i < all.size(); ++i) {
    pieces[i].bytes = std::move(all[i]);
  }
  co_return std::move(pieces);
}

}  // namespace goblin::net
