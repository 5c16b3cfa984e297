// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What the tests of core/net share: a loop to run coroutines on, raw sockets, scratch directories.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/net/channel.hpp"

namespace goblin::net {

// GoogleTest's ASSERT_* return void; a coroutine needs these.
#define CO_ASSERT(...)             \
  if (!(__VA_ARGS__)) {            \
    ADD_FAILURE() << #__VA_ARGS__; \
    co_return;                     \
  }
#define CO_ASSERT_OK(result)                   \
  if (!(result)) {                             \
    ADD_FAILURE() << (result).error().message; \
    co_return;                                 \
  }

template <typename T>
void expect_error(const Result<T>& result, Code code, const std::string& part) {
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, code) << result.error().message;
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
}

class NetTest : public ::testing::Test {
 public:
  NetTest() : loop_(std::move(*Loop::create(2))) {}

  /// Runs the loop until `task` ends.
  void run(Task<void> task) {
    loop_->spawn(then_stop(std::move(task)));
    loop_->run();
  }
  Loop& loop() { return *loop_; }

  struct Pair {
    std::unique_ptr<Channel> a, b;
  };
  Pair unix_pair() {
    auto [a, b] = raw_pair();
    Pair pair{*adopt_unix(loop(), std::move(a)), *adopt_unix(loop(), std::move(b))};
    pair.a->set_state(wire::PeerState::kOpen);
    pair.b->set_state(wire::PeerState::kOpen);
    return pair;
  }
  static std::pair<UniqueFd, UniqueFd> raw_pair() {
    std::array<int, 2> fds{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
    return {UniqueFd(fds[0]), UniqueFd(fds[1])};
  }

 private:
  Task<void> then_stop(Task<void> task) {
    co_await task;
    loop_->stop();
  }

  std::unique_ptr<Loop> loop_;
};

/// Everything that can go on without new input has done so: many turns of the loop, with polls of
/// the sockets between them, instead of a sleep.
inline Task<void> settle(Loop& loop) {
  for (int i = 0; i < 200; ++i) {
    co_await loop.offload([] { return 0; });
  }
}

/// A directory of its own, removed at the end.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "goblin-net-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// A new file, named by what it holds.
inline UniqueFd file_with(const Scratch& scratch, const std::string& text) {
  UniqueFd fd(::open(scratch.file(text).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  EXPECT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return fd;
}

inline wire::Bytes filled(std::size_t size, std::uint32_t seed) {
  wire::Bytes bytes(size);
  std::uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
  for (std::byte& b : bytes) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    b = static_cast<std::byte>(x);
  }
  return bytes;
}

inline Frame data_frame(std::uint32_t stream, wire::Bytes payload) {
  return make_frame(wire::FrameType::kBlobData, wire::BlobData{stream, 0}, std::move(payload));
}

/// The bytes of a frame as they stand on the wire.
inline std::string raw_frame(wire::FrameType type, const wire::Bytes& message,
                             const std::string& payload = {}) {
  std::array<std::byte, wire::kHeaderBytes> header;
  wire::write_header({static_cast<std::uint16_t>(type), static_cast<std::uint32_t>(message.size()),
                      static_cast<std::uint32_t>(payload.size())},
                     header);
  std::string out(reinterpret_cast<const char*>(header.data()), header.size());
  out.append(reinterpret_cast<const char*>(message.data()), message.size());
  return out + payload;
}

inline void write_all(int fd, const std::string& bytes) {
  ASSERT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

}  // namespace goblin::net
