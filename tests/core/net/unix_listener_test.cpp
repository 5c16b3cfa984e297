// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <sys/un.h>

#include <cstring>

#include "net_test.hpp"

namespace goblin::net {
namespace {

using wire::FrameType;

TEST_F(NetTest, UnixListenerAcceptsAndCleansUp) {
  const Scratch scratch;
  run([](NetTest& test, std::string path) -> Task<void> {
    auto listener = listen_unix(test.loop(), path);
    CO_ASSERT_OK(listener);
    EXPECT_EQ(std::filesystem::status(path).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    auto second = listen_unix(test.loop(), path);
    expect_error(second, Code::kUnavailable, "in use");
    auto probe = co_await (*listener)->accept();  // of the second listener, to see who is there
    CO_ASSERT_OK(probe);
    auto client = co_await connect_unix(test.loop(), path);
    CO_ASSERT_OK(client);
    auto server = co_await (*listener)->accept();
    CO_ASSERT_OK(server);
    auto sent = co_await (*client)->send(make_frame(FrameType::kHello, wire::Hello{}));
    CO_ASSERT_OK(sent);
    auto frame = co_await (*server)->receive();
    CO_ASSERT_OK(frame);
    EXPECT_EQ(frame->type, FrameType::kHello);
    Task<Result<std::unique_ptr<Channel>>> accepting = (*listener)->accept();
    accepting.start();
    (*listener)->close();
    auto ended = co_await accepting;
    expect_error(ended, Code::kUnavailable, "listener was closed");
    EXPECT_FALSE(std::filesystem::exists(path));
    auto refused = co_await connect_unix(test.loop(), path);
    expect_error(refused, Code::kUnavailable, path);
  }(*this, scratch.file("s")));
}

TEST_F(NetTest, GroupMayHaveTheSocket) {
  const Scratch scratch;
  auto listener = listen_unix(loop(), scratch.file("s"), true);
  ASSERT_TRUE(listener);
  EXPECT_EQ(static_cast<unsigned>(std::filesystem::status(scratch.file("s")).permissions()), 0660u);
}

TEST_F(NetTest, AStaleSocketIsReplacedAndOtherFilesAreNot) {
  const Scratch scratch;
  const std::string path = scratch.file("s");
  {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ASSERT_TRUE(std::filesystem::exists(path));
  EXPECT_TRUE(listen_unix(loop(), path));
  file_with(scratch, "plain");
  expect_error(listen_unix(loop(), scratch.file("plain")), Code::kUnavailable, "is no socket");
  EXPECT_TRUE(std::filesystem::exists(scratch.file("plain")));
  expect_error(listen_unix(loop(), std::string(200, 'x')), Code::kInvalidArgument, "200 bytes");
  expect_error(listen_unix(loop(), scratch.file("none/s")), Code::kUnavailable, "none/s");
}

TEST_F(NetTest, ConnectionsOverTheLimitAreClosed) {
  const Scratch scratch;
  run([](NetTest& test, std::string path) -> Task<void> {
    ListenerLimits limits;
    limits.connections = 2;
    auto listener = listen_unix(test.loop(), path, false, limits);
    CO_ASSERT_OK(listener);
    auto one = co_await connect_unix(test.loop(), path);
    auto first = co_await (*listener)->accept();
    CO_ASSERT_OK(first);
    (*first)->set_state(wire::PeerState::kOpen);
    auto two = co_await connect_unix(test.loop(), path);
    auto second = co_await (*listener)->accept();
    CO_ASSERT_OK(second);
    // One that has not greeted gives way to the next.
    auto three = co_await connect_unix(test.loop(), path);
    auto third = co_await (*listener)->accept();
    CO_ASSERT_OK(third);
    (*third)->set_state(wire::PeerState::kOpen);
    EXPECT_FALSE((*second)->is_open());
    EXPECT_TRUE((*first)->is_open());
    auto four = co_await connect_unix(test.loop(), path);
    CO_ASSERT_OK(four);
    auto refused = co_await (*four)->receive();
    expect_error(refused, Code::kUnavailable, "");
    // One that ends makes room.
    first->reset();
    auto five = co_await connect_unix(test.loop(), path);
    CO_ASSERT_OK(five);
    auto last = co_await (*listener)->accept();
    CO_ASSERT_OK(last);
  }(*this, scratch.file("s")));
}

TEST_F(NetTest, AdoptRefusesWhatIsNoUnixSocket) {
  const Scratch scratch;
  expect_error(adopt_unix(loop(), file_with(scratch, "f")), Code::kInvalidArgument,
               "no Unix stream socket");
  expect_error(adopt_unix(loop(), UniqueFd(::socket(AF_INET, SOCK_STREAM, 0))),
               Code::kInvalidArgument, "no Unix stream socket");
}

}  // namespace
}  // namespace goblin::net
