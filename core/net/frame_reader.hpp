// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Cuts frames out of a ByteStream. For this folder's .cpp files only.
#pragma once

#include <deque>
#include <memory>

#include "core/net/channel.hpp"
#include "core/net/stream.hpp"

namespace goblin::net {

/// Loop's thread only. Holds at most one frame and kBuffer bytes; nothing of a frame is allocated
/// before its header has passed wire::read_header.
class FrameReader {
 public:
  explicit FrameReader(ByteStream& stream) : stream_(stream) {}

  /// True: take() has the next frame. False: the stream has no more bytes now. kCorrupt: the peer
  /// broke the rules.
  Result<bool> advance(wire::PeerState state, bool local);
  Frame take() { return std::move(frame_); }

  [[nodiscard]] bool in_frame() const { return in_body_ || begin_ != end_; }
  /// Bytes of the frame that has begun, its header included; 0 while the header is not complete.
  [[nodiscard]] std::uint64_t frame_bytes() const;
  [[nodiscard]] std::uint64_t bytes_received() const { return received_; }

 private:
  struct Batch {
    std::uint64_t end;  ///< stream position after the last byte that came with them
    std::vector<UniqueFd> fds;
  };
  Result<std::size_t> read(std::span<std::byte> out);
  Result<std::size_t> read_into_buffer();
  Result<bool> fill(wire::Bytes& bytes, std::size_t& filled, std::size_t length);
  Result<void> attach_fds();

  ByteStream& stream_;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  bool in_body_ = false;
  wire::FrameHeader header_;
  Frame frame_;
  std::size_t message_filled_ = 0, payload_filled_ = 0;
  std::uint64_t received_ = 0;
  std::deque<Batch> batches_;
};

}  // namespace goblin::net
