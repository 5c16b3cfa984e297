// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/net/frame_reader.hpp"

#include <algorithm>
#include <cstring>

namespace goblin::net {
namespace {

constexpr std::size_t kBuffer = 32u << 10;
/// From so many missing bytes on, they are read in place instead of through the buffer.
constexpr std::size_t kDirect = 16u << 10;
/// A body grows by so much at a time: a length that is claimed but not sent costs no memory.
constexpr std::size_t kStep = 256u << 10;

bool runner_type(std::uint16_t type) {
  return type >= static_cast<std::uint16_t>(wire::FrameType::kRunnerHello);
}

}  // namespace

std::uint64_t FrameReader::frame_bytes() const {
  return in_body_
             ? wire::kHeaderBytes + std::uint64_t{header_.message_bytes} + header_.payload_bytes
             : 0;
}

Result<std::size_t> FrameReader::read(std::span<std::byte> out) {
  std::vector<UniqueFd> fds;
  auto n = stream_.read(out, fds);
  if (!n) {
    if (in_frame() && n.error().code == Code::kUnavailable) {
      return fail(n.error().with_context("in the middle of a frame"));
    }
    return n;
  }
  received_ += *n;
  if (!fds.empty()) {
    batches_.push_back({received_, std::move(fds)});
    std::size_t waiting = 0;
    for (const Batch& batch : batches_) {
      waiting += batch.fds.size();
    }
    if (waiting > 2 * wire::kMaxFrameFds) {
      return fail(Code::kCorrupt, "the peer sent " + std::to_string(waiting) +
                                      " descriptors with one frame; at most " +
                                      std::to_string(wire::kMaxFrameFds) + " may come");
    }
  }
  return n;
}

Result<std::size_t> FrameReader::read_into_buffer() {
  if (!buffer_) {
    buffer_ = std::make_unique_for_overwrite<std::byte[]>(kBuffer);
  }
  if (begin_ != 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  auto n = read({buffer_.get() + end_, kBuffer - end_});
  if (n) {
    end_ += *n;
    if (*n == 0 && end_ == 0) {
      buffer_.reset();  // a connection that waits holds no buffer
    }
  }
  return n;
}

Result<bool> FrameReader::fill(wire::Bytes& bytes, std::size_t& filled, std::size_t length) {
  while (filled < length) {
    if (bytes.size() == filled) {
      bytes.resize(std::min(length, filled + kStep));
    }
    const std::size_t room = bytes.size() - filled;
    if (begin_ != end_) {
      const std::size_t n = std::min(room, end_ - begin_);
      std::memcpy(bytes.data() + filled, buffer_.get() + begin_, n);
      begin_ += n;
      filled += n;
      continue;
    }
    std::size_t n = 0;
    if (room >= kDirect) {
      GOBLIN_TRY(n, read({bytes.data() + filled, room}));
      filled += n;
    } else {
      GOBLIN_TRY(n, read_into_buffer());
    }
    if (n == 0) {
      return false;
    }
  }
  return true;
}

Result<void> FrameReader::attach_fds() {
  const std::uint64_t position = received_ - (end_ - begin_);
  while (!batches_.empty() && batches_.front().end <= position) {
    for (UniqueFd& fd : batches_.front().fds) {
      frame_.fds.push_back(std::move(fd));
    }
    batches_.pop_front();
  }
  if (frame_.fds.size() > wire::kMaxFrameFds) {
    return fail(Code::kCorrupt, "the peer sent " + std::to_string(frame_.fds.size()) +
                                    " descriptors with one frame; at most " +
                                    std::to_string(wire::kMaxFrameFds) + " may come");
  }
  return {};
}

Result<bool> FrameReader::advance(wire::PeerState state, bool local) {
  while (!in_body_) {
    if (end_ - begin_ < wire::kHeaderBytes) {
      GOBLIN_TRY(const std::size_t n, read_into_buffer());
      if (n == 0) {
        return false;
      }
      continue;
    }
    const std::span<const std::byte, wire::kHeaderBytes> bytes(buffer_.get() + begin_,
                                                               wire::kHeaderBytes);
    GOBLIN_TRY(header_, wire::read_header(bytes, state));
    if (!local && runner_type(header_.type)) {
      return fail(Code::kCorrupt, "frame type " + std::to_string(header_.type) +
                                      " is for runners of this machine; it came over TLS");
    }
    begin_ += wire::kHeaderBytes;
    in_body_ = true;
    frame_ = Frame{};
    frame_.type = static_cast<wire::FrameType>(header_.type);
    message_filled_ = payload_filled_ = 0;
    frame_.message.reserve(header_.message_bytes);
    frame_.payload.reserve(header_.payload_bytes);
  }
  GOBLIN_TRY(const bool message, fill(frame_.message, message_filled_, header_.message_bytes));
  if (!message) {
    return false;
  }
  GOBLIN_TRY(const bool payload, fill(frame_.payload, payload_filled_, header_.payload_bytes));
  if (!payload) {
    return false;
  }
  in_body_ = false;
  GOBLIN_TRY_VOID(attach_fds());
  return true;
}

}  // namespace goblin::net
