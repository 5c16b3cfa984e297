// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The framing core, over Unix sockets: what it shares with TLS, and what only local peers may do.
#include <algorithm>
#include <cstring>

#include "net_test.hpp"

namespace goblin::net {
namespace {

using wire::FrameType;

Task<Result<void>> send_many(Channel& channel, int count, std::size_t payload) {
  for (int i = 0; i < count; ++i) {
    GOBLIN_CO_TRY_VOID(co_await channel.send(
        data_frame(static_cast<std::uint32_t>(i), filled(payload, static_cast<std::uint32_t>(i)))));
  }
  co_return Result<void>{};
}

TEST_F(NetTest, FramesArriveWholeAndInOrder) {
  run([](NetTest& test) -> Task<void> {
    Pair pair = test.unix_pair();
    for (const std::size_t size : {0u, 1u, 1000u, 40'000u, 1u << 20}) {
      const int count = size > 100'000 ? 20 : 2000;
      Task<Result<void>> sending = send_many(*pair.a, count, size);
      sending.start();
      for (int i = 0; i < count; ++i) {
        auto frame = co_await pair.b->receive();
        CO_ASSERT_OK(frame);
        auto data = wire::decode_blob_data(frame->message);
        CO_ASSERT_OK(data);
        EXPECT_EQ(data->stream, static_cast<std::uint32_t>(i));
        CO_ASSERT(frame->payload == filled(size, static_cast<std::uint32_t>(i)));
      }
      auto sent = co_await sending;
      CO_ASSERT_OK(sent);
    }
    EXPECT_EQ(pair.a->bytes_sent(), pair.b->bytes_received());
    EXPECT_GT(pair.a->bytes_sent(), 20u << 20);
    EXPECT_TRUE(pair.a->peer().local);
    EXPECT_EQ(pair.a->peer().uid, ::getuid());
  }(*this));
}

TEST_F(NetTest, ManySmallFramesLeaveTogether) {
  run([](NetTest& test) -> Task<void> {
    auto [a, b] = raw_pair();
    auto channel = *adopt_unix(test.loop(), std::move(a));
    channel->set_state(wire::PeerState::kOpen);
    for (int i = 0; i < 30; ++i) {
      auto sent = co_await channel->send(data_frame(1, {}));
      CO_ASSERT_OK(sent);
    }
    EXPECT_EQ(channel->bytes_sent(), 0u) << "written before the turn of the loop ended";
    co_await test.loop().readable(b.get());
    EXPECT_GT(channel->bytes_sent(), 30 * wire::kHeaderBytes);
  }(*this));
}

TEST_F(NetTest, OtherFramesGoAheadOfPiecesOfBlobs) {
  run([](NetTest& test) -> Task<void> {
    Pair pair = test.unix_pair();
    constexpr int kPieces = 12;
    constexpr std::uint32_t kLeases = 3;
    Task<Result<void>> pieces = send_many(*pair.a, kPieces, 256u << 10);
    pieces.start();
    Task<Result<void>> last =
        pair.a->send(make_frame(FrameType::kBlobCancel, wire::BlobCancel{7, GOBLIN_CANCELLED}));
    last.start();
    for (std::uint32_t i = 0; i < kLeases; ++i) {
      const wire::BlobGet get{i, {}, 0, 1};
      Task<Result<void>> urgent = pair.a->send(make_frame(FrameType::kBlobGet, get));
      urgent.start();
    }
    std::vector<std::string> came;
    while (came.size() < kPieces + kLeases + 1) {
      auto frame = co_await pair.b->receive();
      CO_ASSERT_OK(frame);
      came.push_back(frame->type == FrameType::kBlobData     ? "piece"
                     : frame->type == FrameType::kBlobGet    ? "get"
                     : frame->type == FrameType::kBlobCancel ? "cancel"
                                                             : "other");
      if (came.back() == "get") {
        auto get = wire::decode_blob_get(frame->message);
        CO_ASSERT_OK(get);
        EXPECT_EQ(get->stream, std::count(came.begin(), came.end(), "get") - 1) << "in order";
      }
    }
    const auto gets = std::find(came.begin(), came.end(), "get");
    EXPECT_GE(std::count(gets, came.end(), "piece"), kPieces / 2) << "they waited for pieces";
    EXPECT_EQ(came.back(), "cancel") << "a blob's end came before its pieces";
  }(*this));
}

TEST_F(NetTest, SendWaitsForAPeerThatNeverReads) {
  run([](NetTest& test) -> Task<void> {
    Pair pair = test.unix_pair();
    ChannelLimits limits;
    limits.send_queue_bytes = 1u << 20;
    pair.a->set_limits(limits);
    Task<Result<void>> sending = send_many(*pair.a, 100, 512u << 10);
    sending.start();
    co_await settle(test.loop());
    EXPECT_FALSE(sending.done());
    EXPECT_LT(pair.a->bytes_sent(), 2u << 20);
    // It goes on as soon as the peer reads.
    for (int i = 0; i < 100; ++i) {
      auto frame = co_await pair.b->receive();
      CO_ASSERT_OK(frame);
    }
    auto sent = co_await sending;
    CO_ASSERT_OK(sent);
    EXPECT_GT(pair.a->bytes_sent(), 50u << 20);
  }(*this));
}

TEST_F(NetTest, APeerThatNeverReadsIsClosedAtTheDeadline) {
  run([](NetTest& test) -> Task<void> {
    Pair pair = test.unix_pair();
    ChannelLimits limits;
    limits.send_queue_bytes = 1u << 20;
    limits.frame = Milliseconds(20);
    pair.a->set_limits(limits);
    auto sent = co_await send_many(*pair.a, 100, 512u << 10);
    expect_error(sent, Code::kUnavailable, "too slowly");
    EXPECT_FALSE(pair.a->is_open());
  }(*this));
}

TEST_F(NetTest, CloseEndsPendingCalls) {
  run([](NetTest& test) -> Task<void> {
    Pair pair = test.unix_pair();
    Task<Result<Frame>> receiving = pair.a->receive();
    receiving.start();
    Task<Result<void>> sending = send_many(*pair.a, 100, 512u << 10);
    sending.start();
    EXPECT_FALSE(sending.done());
    pair.a->close();
    auto received = co_await receiving;
    expect_error(received, Code::kUnavailable, "closed here");
    auto sent = co_await sending;
    expect_error(sent, Code::kUnavailable, "closed here");
    auto later = co_await pair.a->send(data_frame(1, {}));
    expect_error(later, Code::kUnavailable, "closed here");
  }(*this));
}

TEST_F(NetTest, DestroyingTheChannelEndsPendingCalls) {
  run([](NetTest& test) -> Task<void> {
    Pair pair = test.unix_pair();
    Task<Result<Frame>> receiving = pair.a->receive();
    receiving.start();
    Task<Result<Frame>> other_end = pair.b->receive();
    other_end.start();
    pair.a.reset();
    auto received = co_await receiving;
    expect_error(received, Code::kUnavailable, "closed here");
    auto other = co_await other_end;
    expect_error(other, Code::kUnavailable, "closed");
  }(*this));
}

TEST_F(NetTest, ALastFrameGetsOutBeforeClose) {
  run([](NetTest& test) -> Task<void> {
    Pair pair = test.unix_pair();
    auto sent = co_await pair.a->send(make_frame(FrameType::kGoodbye, wire::Goodbye{}));
    CO_ASSERT_OK(sent);
    pair.a.reset();
    auto frame = co_await pair.b->receive();
    CO_ASSERT_OK(frame);
    EXPECT_EQ(frame->type, FrameType::kGoodbye);
    auto end = co_await pair.b->receive();
    expect_error(end, Code::kUnavailable, "closed the connection");
  }(*this));
}

TEST_F(NetTest, DestroyAReceiveMidway) {
  run([](NetTest& test) -> Task<void> {
    auto [a, b] = raw_pair();
    auto channel = *adopt_unix(test.loop(), std::move(a));
    channel->set_state(wire::PeerState::kOpen);
    const std::string bytes = raw_frame(FrameType::kBlobData, wire::encode(wire::BlobData{9, 0}),
                                        std::string(100'000, 'x'));
    write_all(b.get(), bytes.substr(0, 50'000));
    Task<Result<Frame>> receiving = channel->receive();
    receiving.start();
    co_await settle(test.loop());
    receiving = Task<Result<Frame>>();
    write_all(b.get(), bytes.substr(50'000));
    co_await settle(test.loop());
    auto frame = co_await channel->receive();
    CO_ASSERT_OK(frame);
    EXPECT_EQ(frame->payload.size(), 100'000u);
    EXPECT_EQ(frame->payload.back(), std::byte{'x'});
  }(*this));
}

TEST_F(NetTest, DisconnectInTheMiddleOfAFrame) {
  run([](NetTest& test) -> Task<void> {
    auto [a, b] = raw_pair();
    auto channel = *adopt_unix(test.loop(), std::move(a));
    channel->set_state(wire::PeerState::kOpen);
    write_all(b.get(), raw_frame(FrameType::kBlobData, wire::encode(wire::BlobData{9, 0}),
                                 std::string(1000, 'x'))
                           .substr(0, 500));
    b.reset();
    auto frame = co_await channel->receive();
    expect_error(frame, Code::kUnavailable, "in the middle of a frame");
    EXPECT_FALSE(channel->is_open());
  }(*this));
}

/// What a raw peer sends, in which state, and what must be said about it.
struct Hostile {
  const char* name;
  wire::PeerState state;
  std::string bytes;
  const char* message;
};
class HostileBytes : public NetTest, public ::testing::WithParamInterface<Hostile> {};

TEST_P(HostileBytes, AreRefusedBeforeTheBody) {
  run([](NetTest& test, const Hostile& hostile) -> Task<void> {
    auto [a, b] = raw_pair();
    auto channel = *adopt_unix(test.loop(), std::move(a));
    channel->set_state(hostile.state);
    write_all(b.get(), hostile.bytes);  // the header only: no body is waited for
    auto frame = co_await channel->receive();
    expect_error(frame, Code::kCorrupt, hostile.message);
    EXPECT_FALSE(channel->is_open());
  }(*this, GetParam()));
}

std::string header_of(FrameType type, std::uint32_t message, std::uint32_t payload) {
  std::array<std::byte, wire::kHeaderBytes> header;
  wire::write_header({static_cast<std::uint16_t>(type), message, payload}, header);
  return {reinterpret_cast<const char*>(header.data()), header.size()};
}

INSTANTIATE_TEST_SUITE_P(
    Unix, HostileBytes,
    ::testing::Values(Hostile{"garbage", wire::PeerState::kGreeting, "GET / HTTP/1.1\r\n\r\n",
                              "GBLN"},
                      Hostile{"data_in_greeting", wire::PeerState::kGreeting,
                              header_of(FrameType::kBlobData, 48, 100), "before the greeting"},
                      Hostile{"long_hello", wire::PeerState::kGreeting,
                              header_of(FrameType::kHello, 8192, 0), "8192"},
                      Hostile{"payload_in_greeting", wire::PeerState::kGreeting,
                              header_of(FrameType::kHello, 48, 16), "payload"},
                      Hostile{"hello_when_open", wire::PeerState::kOpen,
                              header_of(FrameType::kHello, 48, 0), "type 1"},
                      Hostile{"unknown_type", wire::PeerState::kOpen,
                              header_of(static_cast<FrameType>(9999), 8, 0), "9999"},
                      Hostile{"longest_message", wire::PeerState::kOpen,
                              header_of(FrameType::kBlobData, 0xfffffff8, 0), "4294967288"},
                      Hostile{"longest_payload", wire::PeerState::kOpen,
                              header_of(FrameType::kBlobData, 48, 0xffffffff), "4294967295"},
                      Hostile{"odd_length", wire::PeerState::kOpen,
                              header_of(FrameType::kBlobData, 47, 0), "multiple of 8"}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST_F(NetTest, AnUnfinishedHeaderOrBodyMeetsItsDeadline) {
  const std::string frame =
      raw_frame(FrameType::kBlobData, wire::encode(wire::BlobData{9, 0}), std::string(1000, 'x'));
  for (const std::size_t part : {std::size_t{7}, std::size_t{500}}) {
    run([](NetTest& test, std::string bytes) -> Task<void> {
      auto [a, b] = raw_pair();
      auto channel = *adopt_unix(test.loop(), std::move(a));
      channel->set_state(wire::PeerState::kOpen);
      ChannelLimits limits;
      limits.idle = Milliseconds(0);
      limits.frame = Milliseconds(20);
      limits.min_bytes_per_s = 1u << 20;
      channel->set_limits(limits);
      write_all(b.get(), bytes);
      auto received = co_await channel->receive();
      expect_error(received, Code::kUnavailable, "too slowly");
    }(*this, frame.substr(0, part)));
  }
}

/// A byte each millisecond, until nobody takes them any more.
Task<void> drip(Loop& loop, int fd, std::string bytes) {
  for (const char byte : bytes) {
    if (::send(fd, &byte, 1, MSG_NOSIGNAL) != 1) {
      co_return;
    }
    co_await loop.sleep(Milliseconds(1));
  }
}

// The deadline is that of the frame: bytes that come do not put it off.
TEST_F(NetTest, ABytePerWhileMeetsTheDeadlineOfItsFrame) {
  run([](NetTest& test) -> Task<void> {
    auto [a, b] = raw_pair();
    auto channel = *adopt_unix(test.loop(), std::move(a));
    channel->set_state(wire::PeerState::kOpen);
    ChannelLimits limits;
    limits.idle = Milliseconds(0);
    limits.frame = Milliseconds(20);
    limits.min_bytes_per_s = 1u << 20;
    channel->set_limits(limits);
    // More than a second of dripping.
    std::string bytes =
        raw_frame(FrameType::kBlobData, wire::encode(wire::BlobData{9, 0}), std::string(1000, 'x'));
    Task<void> dripping = drip(test.loop(), b.get(), std::move(bytes));
    dripping.start();
    auto received = co_await channel->receive();
    expect_error(received, Code::kUnavailable, "too slowly");
    EXPECT_LT(channel->bytes_received(), 1000u);
    co_await dripping;
  }(*this));
}

TEST_F(NetTest, IdleDeadline) {
  run([](NetTest& test) -> Task<void> {
    Pair pair = test.unix_pair();
    ChannelLimits limits;
    limits.idle = Milliseconds(20);
    pair.a->set_limits(limits);
    const auto began = test.loop().now();
    auto received = co_await pair.a->receive();
    expect_error(received, Code::kUnavailable, "nothing for 20 ms");
    EXPECT_GE(test.loop().now() - began, Milliseconds(20));
    EXPECT_FALSE(pair.a->is_open());
  }(*this));
}

TEST_F(NetTest, FramesThatThePeerWouldRefuseAreNotSent) {
  run([](NetTest& test) -> Task<void> {
    Pair pair = test.unix_pair();
    auto too_long = co_await pair.a->send(data_frame(1, wire::Bytes(wire::kBlobChunkBytes + 1)));
    expect_error(too_long, Code::kInvalidArgument, "1048577");
    auto hello = co_await pair.a->send(make_frame(FrameType::kHello, wire::Hello{}));
    expect_error(hello, Code::kInvalidArgument, "type 1");
    Frame frame = data_frame(1, {});
    for (int i = 0; i < 17; ++i) {
      frame.fds.emplace_back(::dup(0));
    }
    auto too_many = co_await pair.a->send(std::move(frame));
    expect_error(too_many, Code::kInvalidArgument, "17 descriptors");
    EXPECT_TRUE(pair.a->is_open());
  }(*this));
}

TEST_F(NetTest, PingsAreAnsweredAndAFloodIsNot) {
  run([](NetTest& test) -> Task<void> {
    auto [a, b] = raw_pair();
    auto channel = *adopt_unix(test.loop(), std::move(a));
    channel->set_state(wire::PeerState::kOpen);
    std::string bytes;
    for (int i = 0; i < 1000; ++i) {
      bytes += raw_frame(FrameType::kPing, {});
    }
    bytes += raw_frame(FrameType::kBlobCredit, wire::encode(wire::BlobCredit{3, 1}));
    write_all(b.get(), bytes);
    auto frame = co_await channel->receive();
    CO_ASSERT_OK(frame);
    EXPECT_EQ(frame->type, FrameType::kBlobCredit);
    co_await test.loop().readable(b.get());
    EXPECT_GE(channel->bytes_sent(), wire::kHeaderBytes);
    EXPECT_LT(channel->bytes_sent(), 100 * wire::kHeaderBytes);
  }(*this));
}

// ---- descriptors

std::string read_back(const UniqueFd& fd) {
  std::array<char, 16> buffer{};
  const ssize_t n = ::pread(fd.get(), buffer.data(), buffer.size(), 0);
  return n < 0 ? "unreadable" : std::string(buffer.data(), static_cast<std::size_t>(n));
}

TEST_F(NetTest, DescriptorsStayWithTheirFrames) {
  const Scratch scratch;
  run([](NetTest& test, const Scratch& dir) -> Task<void> {
    Pair pair = test.unix_pair();
    // Frames with and without descriptors, small and large, queued together.
    for (int i = 0; i < 200; ++i) {
      Frame frame = data_frame(static_cast<std::uint32_t>(i),
                               wire::Bytes(i % 7 == 3 ? 300'000 : static_cast<std::size_t>(i)));
      for (int k = 0; k < (i % 3 == 0 ? 0 : 1 + i % 16); ++k) {
        frame.fds.push_back(file_with(dir, std::to_string(i) + "." + std::to_string(k)));
      }
      Task<Result<void>> sending = pair.a->send(std::move(frame));
      sending.start();  // queued now, whether or not it then waits
    }
    for (int i = 0; i < 200; ++i) {
      auto frame = co_await pair.b->receive();
      CO_ASSERT_OK(frame);
      const int count = i % 3 == 0 ? 0 : 1 + i % 16;
      EXPECT_EQ(frame->fds.size(), static_cast<std::size_t>(count));
      for (int k = 0; k < count; ++k) {
        const UniqueFd& fd = frame->fds[static_cast<std::size_t>(k)];
        EXPECT_EQ(read_back(fd), std::to_string(i) + "." + std::to_string(k));
        EXPECT_EQ(::fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
      }
    }
  }(*this, scratch));
}

void send_with_fds(int socket, const std::string& bytes, int count) {
  std::vector<int> fds(static_cast<std::size_t>(count), 0);
  std::vector<char> control(CMSG_SPACE(sizeof(int) * fds.size()));
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
  std::memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
  ASSERT_EQ(::sendmsg(socket, &message, 0), static_cast<ssize_t>(bytes.size()));
}

int open_descriptors() {
  int n = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    n += entry.exists() ? 1 : 0;
  }
  return n;
}

TEST_F(NetTest, TooManyDescriptorsCloseTheChannel) {
  const std::string frame =
      raw_frame(FrameType::kBlobData, wire::encode(wire::BlobData{9, 0}), std::string(40, 'x'));
  unix_pair();  // the loop opens its own on first use
  const int before = open_descriptors();
  run([](NetTest& test, std::string bytes) -> Task<void> {
    {
      auto [a, b] = raw_pair();
      auto channel = *adopt_unix(test.loop(), std::move(a));
      channel->set_state(wire::PeerState::kOpen);
      send_with_fds(b.get(), bytes, 17);
      auto received = co_await channel->receive();
      expect_error(received, Code::kCorrupt, "descriptors");
      EXPECT_FALSE(channel->is_open());
    }
    {
      // Spread over the bytes of one frame.
      auto [a, b] = raw_pair();
      auto channel = *adopt_unix(test.loop(), std::move(a));
      channel->set_state(wire::PeerState::kOpen);
      send_with_fds(b.get(), bytes.substr(0, 20), 9);
      send_with_fds(b.get(), bytes.substr(20), 9);
      auto received = co_await channel->receive();
      expect_error(received, Code::kCorrupt, "18 descriptors");
    }
    {
      // Piled up on a frame that never ends.
      auto [a, b] = raw_pair();
      auto channel = *adopt_unix(test.loop(), std::move(a));
      channel->set_state(wire::PeerState::kOpen);
      for (std::size_t i = 0; i < 40; ++i) {
        send_with_fds(b.get(), bytes.substr(i, 1), 16);
      }
      auto received = co_await channel->receive();
      expect_error(received, Code::kCorrupt, "descriptors");
    }
  }(*this, frame));
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace goblin::net
