// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Bytes of a connection: what the reader of frames makes of them does not depend on how they were
// cut, and no frame is longer than its type and the connection's state allow.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/net/frame_reader.hpp"
#include "tests/fuzz/target.hpp"

namespace goblin::fuzz {
namespace {

/// Bytes that come in pieces, with descriptors in between.
class Pieces final : public net::ByteStream {
 public:
  /// `pattern` 0: one piece, no descriptors.
  Pieces(ByteView bytes, std::uint8_t pattern)
      : rest_(bytes), random_(pattern), cut_(pattern != 0) {}

  [[nodiscard]] int fd() const override { return -1; }
  [[nodiscard]] bool carries_fds() const override { return true; }
  Result<std::size_t> read(std::span<std::byte> out, std::vector<net::UniqueFd>& fds) override {
    if (rest_.empty()) {
      return fail(Code::kUnavailable, "the peer has closed the connection");
    }
    random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
    const std::uint64_t drawn = random_ >> 33;
    if (cut_ && drawn % 4 == 0 && !waited_) {
      waited_ = true;
      return std::size_t{0};
    }
    waited_ = false;
    const std::size_t piece = cut_ ? 1 + (drawn >> 3) % 37 : rest_.size();
    const std::size_t count = std::min({piece, out.size(), rest_.size()});
    std::memcpy(out.data(), rest_.data(), count);
    rest_ = rest_.subspan(count);
    if (cut_ && drawn % 64 == 1) {
      for (std::uint64_t i = 0; i < 1 + (drawn >> 20) % 12; ++i) {
        fds.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      }
    }
    return count;
  }
  Result<std::size_t> write(std::span<const iovec> /*parts*/,
                            std::span<const net::UniqueFd> /*fds*/) override {
    return std::size_t{0};
  }
  Result<bool> flush() override { return true; }
  void say_goodbye() override {}

 private:
  ByteView rest_;
  std::uint64_t random_;
  bool cut_;
  bool waited_ = false;
};

struct Read {
  std::vector<net::Frame> frames;
  std::optional<Error> error;  ///< always one in the end: the stream ends
  std::uint64_t consumed = 0;
};

Read read_all(ByteView bytes, std::uint8_t pattern, wire::PeerState state, bool local) {
  Pieces pieces(bytes, pattern);
  net::FrameReader reader(pieces);
  Read read;
  while (!read.error) {
    auto more = reader.advance(state, local);
    if (!more) {
      read.error = std::move(more).error();
    } else if (*more) {
      read.frames.push_back(reader.take());
      const net::Frame& frame = read.frames.back();
      const wire::FrameCaps caps = wire::frame_caps(static_cast<std::uint16_t>(frame.type), state);
      expect(caps.accepted, "a frame's type may come in this state");
      expect(frame.message.size() <= caps.message_bytes && frame.message.size() % 8 == 0 &&
                 frame.payload.size() <= caps.payload_bytes,
             "a frame is not longer than its type and state allow");
      expect(frame.fds.size() <= wire::kMaxFrameFds, "no more descriptors than a frame carries");
      expect(local || frame.type < wire::FrameType::kRunnerHello, "runners are of this machine");
      read.consumed += wire::kHeaderBytes + frame.message.size() + frame.payload.size();
    }
  }
  expect(read.error->code == Code::kCorrupt || read.error->code == Code::kUnavailable,
         "a reader ends with kCorrupt or kUnavailable");
  return read;
}

void run(ByteView input) {
  Draw draw(input);
  const std::uint8_t flags = draw.u8();
  const std::uint8_t pattern = draw.u8();
  const wire::PeerState state =
      (flags & 1) == 0 ? wire::PeerState::kOpen : wire::PeerState::kGreeting;
  const bool local = (flags & 2) != 0;
  const Read whole = read_all(draw.rest(), 0, state, local);
  expect(whole.consumed <= draw.rest().size(), "no byte is read twice");
  const Read cut = read_all(draw.rest(), static_cast<std::uint8_t>(pattern | 1), state, local);
  // Descriptors, which only the second one sees, may be too many.
  const bool too_many = cut.error->message.find("descriptors") != std::string::npos;
  expect(too_many
             ? cut.frames.size() <= whole.frames.size()
             : cut.frames.size() == whole.frames.size() && cut.error->code == whole.error->code,
         "the same frames however they are cut");
  for (std::size_t i = 0; i < cut.frames.size(); ++i) {
    expect(cut.frames[i].type == whole.frames[i].type &&
               cut.frames[i].message == whole.frames[i].message &&
               cut.frames[i].payload == whole.frames[i].payload,
           "the same bytes however they are cut");
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  const auto add = [&all](std::uint8_t flags, std::initializer_list<wire::FrameHeader> headers) {
    Script script;
    script.u8(flags).u8(7);
    for (const wire::FrameHeader& header : headers) {
      std::array<std::byte, wire::kHeaderBytes> raw{};
      wire::write_header(header, raw);
      const std::uint64_t body = std::uint64_t{header.message_bytes} + header.payload_bytes;
      script.bytes(raw).bytes(Bytes(std::min<std::uint64_t>(body, 100'000), std::byte{5}));
    }
    all.push_back(script.take());
  };
  const auto type = [](wire::FrameType t) { return static_cast<std::uint16_t>(t); };
  add(1, {{type(wire::FrameType::kHello), 64, 0}});
  add(0, {{type(wire::FrameType::kPing), 0, 0},
          {type(wire::FrameType::kLeases), 128, 200},
          {type(wire::FrameType::kPong), 0, 0}});
  add(0, {{type(wire::FrameType::kBlobData), 32, 70'000}, {type(wire::FrameType::kGoodbye), 8, 0}});
  add(2, {{type(wire::FrameType::kExecute), 80, 1}, {type(wire::FrameType::kCancelWork), 8, 0}});
  add(0, {{type(wire::FrameType::kExecute), 80, 0}});
  add(0, {{type(wire::FrameType::kResults), 0xfffffff8, 0xffffffff}});
  return all;
}

/// Spoils a field of a header rather than any byte.
std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t /*capacity*/,
                   std::uint64_t random) {
  std::vector<std::size_t> headers;
  for (std::size_t at = 2; at + wire::kHeaderBytes <= size; ++at) {
    if (std::memcmp(data + at, "GBLN", 4) == 0) headers.push_back(at);
  }
  if (headers.empty()) {
    return size;
  }
  const std::size_t at = headers[(random >> 8) % headers.size()];
  constexpr std::array<std::uint32_t, 7> kLengths = {0,       8,          16,        4096,
                                                     1 << 20, 0xfffffff8, 0xffffffff};
  const std::uint32_t length = kLengths[(random >> 20) % kLengths.size()];
  switch (random % 4) {
    case 0:
      data[at + 6] = static_cast<std::uint8_t>((random >> 30) % 120);
      break;
    case 1:
      std::memcpy(data + at + 8, &length, sizeof length);
      break;
    case 2:
      std::memcpy(data + at + 12, &length, sizeof length);
      break;
    default:
      data[0] = static_cast<std::uint8_t>(random >> 40);
      data[1] = static_cast<std::uint8_t>(random >> 48);
  }
  return size;
}

}  // namespace

Target frames_target() { return {"frames", run, seeds, mutate}; }

}  // namespace goblin::fuzz
