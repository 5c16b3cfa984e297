// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// TLS connections: who is let in, who is not, and what each side reads about it.
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cstring>

#include "core/net/sha256.hpp"
#include "net_test.hpp"

namespace goblin::net {
namespace {

using wire::FrameType;

class TlsTest : public NetTest {
 public:
  TlsTest()
      : server_id_(*Identity::load_or_create(scratch_.file("server"))),
        client_id_(*Identity::load_or_create(scratch_.file("client"))) {}

  Result<std::unique_ptr<Listener>> listen(ListenerLimits limits = {}, std::uint16_t port = 0) {
    return listen_tls(loop(), server_id_, "127.0.0.1", port, std::move(limits));
  }
  Task<Result<std::unique_ptr<Channel>>> connect(std::uint16_t port) {
    return connect_tls(loop(), client_id_, "127.0.0.1", port, server_id_->pin());
  }
  /// A connected pair, greetings not done.
  Task<Pair> connected(Listener& listener) {
    Task<Result<std::unique_ptr<Channel>>> accepting = listener.accept();
    accepting.start();
    auto client = co_await connect(listener.port());
    Pair pair;
    if (!client) {
      ADD_FAILURE() << client.error().message;
      co_return pair;
    }
    auto server = co_await accepting;
    if (!server) {
      ADD_FAILURE() << server.error().message;
      co_return pair;
    }
    pair.a = std::move(*client);
    pair.b = std::move(*server);
    co_return pair;
  }
  std::string key_file(const std::string& who) { return scratch_.file(who + "/identity.key"); }
  std::string certificate_file(const std::string& who) {
    return scratch_.file(who + "/identity.crt");
  }

 protected:
  Scratch scratch_;
  std::shared_ptr<const Identity> server_id_, client_id_;
};

TEST_F(TlsTest, BothSidesKnowEachOtherByKey) {
  run([](TlsTest& test, wire::Digest server, wire::Digest client) -> Task<void> {
    auto listener = test.listen();
    CO_ASSERT_OK(listener);
    Pair pair = co_await test.connected(**listener);
    CO_ASSERT(pair.a && pair.b);
    EXPECT_EQ(pair.a->peer().pin, server);
    EXPECT_EQ(pair.b->peer().pin, client);
    EXPECT_EQ(pair.b->peer().address, "127.0.0.1");
    EXPECT_FALSE(pair.b->peer().local);
    auto sent = co_await pair.a->send(make_frame(FrameType::kHello, wire::Hello{}));
    CO_ASSERT_OK(sent);
    auto frame = co_await pair.b->receive();
    CO_ASSERT_OK(frame);
    EXPECT_EQ(frame->type, FrameType::kHello);
    pair.a.reset();
    auto end = co_await pair.b->receive();
    expect_error(end, Code::kUnavailable, "closed the connection");
  }(*this, server_id_->pin(), client_id_->pin()));
}

TEST_F(TlsTest, WrongPinNamesBothKeys) {
  run([](TlsTest& test, std::shared_ptr<const Identity> client, wire::Digest server) -> Task<void> {
    auto listener = test.listen();
    CO_ASSERT_OK(listener);
    wire::Digest wrong = server;
    wrong.bytes[31] ^= 1;
    auto channel =
        co_await connect_tls(test.loop(), client, "127.0.0.1", (*listener)->port(), wrong);
    expect_error(channel, Code::kCorrupt, server.hex());
    expect_error(channel, Code::kCorrupt, wrong.hex());
  }(*this, client_id_, server_id_->pin()));
}

TEST_F(TlsTest, PortInUseAndNobodyThere) {
  run([](TlsTest& test) -> Task<void> {
    auto listener = test.listen();
    CO_ASSERT_OK(listener);
    const std::uint16_t port = (*listener)->port();
    auto second = test.listen({}, port);
    expect_error(second, Code::kUnavailable, "127.0.0.1 port " + std::to_string(port));
    expect_error(second, Code::kUnavailable, "in use");
    listener->reset();
    auto nobody = co_await test.connect(port);
    expect_error(nobody, Code::kUnavailable, "refused");
    auto again = test.listen({}, port);
    CO_ASSERT_OK(again);
  }(*this));
}

TEST_F(TlsTest, UnknownHostName) {
  run([](TlsTest& test, std::shared_ptr<const Identity> client) -> Task<void> {
    auto channel = co_await connect_tls(test.loop(), client, "no such host", 1, wire::Digest());
    expect_error(channel, Code::kUnavailable, "no such host");
  }(*this, client_id_));
}

// ---- hostile clients, with OpenSSL itself in blocking mode on a worker

/// How a test client differs from ours.
struct Client {
  const char* name;
  bool certificate = true;
  bool alpn = true;
  int version = TLS1_3_VERSION;
  const char* alpn_bytes = "\x08goblin/1";
  bool p256 = false;
};

/// `from`: one of 127.0.0.0/8, which a listener counts by itself.
int connect_to(std::uint16_t port, const char* from = "127.0.0.1") {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  ::inet_pton(AF_INET, from, &own.sin_addr);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&own), sizeof own) != 0) return -1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 ? fd : -1;
}

/// What the client saw: "ok" when the server let it in (a read then waits for ever).
std::string try_client(std::uint16_t port, Client client, const std::string& key,
                       const std::string& certificate) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_max_proto_version(context, client.version);
  if (client.alpn) {
    SSL_CTX_set_alpn_protos(context, reinterpret_cast<const unsigned char*>(client.alpn_bytes),
                            static_cast<unsigned>(std::strlen(client.alpn_bytes)));
  }
  if (client.p256) {
    EVP_PKEY* other = EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256");
    X509* x = X509_new();
    X509_gmtime_adj(X509_getm_notBefore(x), 0);
    X509_gmtime_adj(X509_getm_notAfter(x), 1000);
    X509_set_pubkey(x, other);
    X509_sign(x, other, EVP_sha256());
    SSL_CTX_use_certificate(context, x);
    SSL_CTX_use_PrivateKey(context, other);
    X509_free(x);
    EVP_PKEY_free(other);
  } else if (client.certificate) {
    SSL_CTX_use_certificate_file(context, certificate.c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM);
  }
  SSL* ssl = SSL_new(context);
  const int fd = connect_to(port);
  SSL_set_fd(ssl, fd);
  std::string seen = "ok";
  char byte = 0;
  if (SSL_connect(ssl) != 1 || SSL_read(ssl, &byte, 1) != 1) {
    const char* reason = ERR_reason_error_string(ERR_peek_last_error());
    seen = reason == nullptr ? "closed" : reason;
  }
  ERR_clear_error();
  SSL_free(ssl);
  ::close(fd);
  SSL_CTX_free(context);
  return seen;
}

class HostileClient : public TlsTest, public ::testing::WithParamInterface<Client> {};

TEST_P(HostileClient, IsNotAccepted) {
  run([](TlsTest& test, Client client) -> Task<void> {
    auto listener = test.listen();
    CO_ASSERT_OK(listener);
    auto attempt = [port = (*listener)->port(), client, key = test.key_file("client"),
                    certificate = test.certificate_file("client")] {
      return try_client(port, client, key, certificate);
    };
    const std::string seen = co_await test.loop().offload(attempt);
    EXPECT_NE(seen, "ok") << client.name;
    // The next one is served, and it is the first that accept() sees.
    Pair pair = co_await test.connected(**listener);
    CO_ASSERT(pair.a && pair.b);
  }(*this, GetParam()));
}
INSTANTIATE_TEST_SUITE_P(
    Tls, HostileClient,
    ::testing::Values(Client{"no_certificate", false}, Client{"no_alpn", true, false},
                      Client{"other_alpn", true, true, TLS1_3_VERSION, "\x08goblin/9"},
                      Client{"tls_1_2", true, true, TLS1_2_VERSION},
                      Client{"p256_key", true, true, TLS1_3_VERSION, "\x08goblin/1", true}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST_F(TlsTest, TheTestClientItselfIsAcceptedWhenItDoesAllRight) {
  // Otherwise the refusals above would prove nothing.
  run([](TlsTest& test) -> Task<void> {
    auto listener = test.listen();
    CO_ASSERT_OK(listener);
    auto attempt = [port = (*listener)->port(), key = test.key_file("client"),
                    certificate = test.certificate_file("client")] {
      return try_client(port, Client{"good"}, key, certificate);
    };
    Task<std::string> client = test.loop().offload(attempt);
    client.start();
    auto channel = co_await (*listener)->accept();
    CO_ASSERT_OK(channel);
    auto sent = co_await (*channel)->send(make_frame(FrameType::kHello, wire::Hello{}));
    CO_ASSERT_OK(sent);
    const std::string seen = co_await client;
    EXPECT_EQ(seen, "ok");
  }(*this));
}

TEST_F(TlsTest, SilentAndGarblingClientsAreDroppedAndHoldUpNobody) {
  run([](TlsTest& test) -> Task<void> {
    ListenerLimits limits;
    limits.handshake = Milliseconds(2'000);  // an honest one takes 3 ms of an idle machine
    auto listener = test.listen(limits);
    CO_ASSERT_OK(listener);
    std::vector<UniqueFd> silent;
    for (int i = 0; i < 5; ++i) {
      silent.emplace_back(connect_to((*listener)->port()));
    }
    const UniqueFd garbage(connect_to((*listener)->port()));
    write_all(garbage.get(), "GET / HTTP/1.1\r\nHost: goblin\r\n\r\n");
    Pair pair = co_await test.connected(**listener);
    CO_ASSERT(pair.a && pair.b);
    for (const UniqueFd& fd : silent) {
      co_await test.loop().readable(fd.get());
      char byte = 0;
      EXPECT_EQ(::recv(fd.get(), &byte, 1, MSG_DONTWAIT), 0) << "not closed";
    }
    co_await test.loop().readable(garbage.get());
  }(*this));
}

/// Waits for the peer to close a socket to which nothing was sent.
Task<void> closed_by_peer(Loop& loop, int fd) {
  co_await loop.readable(fd);
  char byte = 0;
  EXPECT_EQ(::recv(fd, &byte, 1, MSG_DONTWAIT), 0);
}
bool seems_open(int fd) {
  char byte = 0;
  return ::recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

TEST_F(TlsTest, TooManyOfOneAddressAreClosedAndTheOldestHandshakeGivesWay) {
  run([](TlsTest& test) -> Task<void> {
    ListenerLimits limits;
    limits.handshake = Milliseconds(600'000);  // none is dropped for being slow
    limits.per_address = 4;
    limits.handshakes = 2;
    std::vector<std::string> refused;
    limits.refused = [&refused](const std::string& why) { refused.push_back(why); };
    auto listener = test.listen(limits);
    CO_ASSERT_OK(listener);
    const std::uint16_t port = (*listener)->port();
    std::vector<UniqueFd> silent;
    for (int i = 0; i < 3; ++i) {
      silent.emplace_back(connect_to(port));
    }
    // The third ended the first.
    co_await closed_by_peer(test.loop(), silent[0].get());
    std::vector<Pair> admitted;
    for (int i = 0; i < 4; ++i) {
      Pair pair = co_await test.connected(**listener);
      CO_ASSERT(pair.a && pair.b);
      pair.b->set_state(wire::PeerState::kOpen);
      admitted.push_back(std::move(pair));
    }
    // The silent ones gave way to them; nobody gives way now.
    co_await closed_by_peer(test.loop(), silent[1].get());
    co_await closed_by_peer(test.loop(), silent[2].get());
    const UniqueFd over(connect_to(port));
    co_await closed_by_peer(test.loop(), over.get());
    const UniqueFd again(connect_to(port));  // told of once a minute
    co_await closed_by_peer(test.loop(), again.get());
    EXPECT_EQ(refused, std::vector<std::string>({"connections from 127.0.0.1 are closed: 4 are "
                                                 "open, as many as one address may have"}));
    for (const Pair& pair : admitted) EXPECT_TRUE(pair.b->is_open());
    admitted.pop_back();
    Pair last = co_await test.connected(**listener);
    CO_ASSERT(last.a && last.b);
  }(*this));
}

// A peer that does its TLS handshake with some key and says nothing then is no better than one that
// is silent from the start.
TEST_F(TlsTest, WhoDoesNotGreetGivesWayAndWhoWasAdmittedNeverDoes) {
  run([](TlsTest& test) -> Task<void> {
    ListenerLimits limits;
    limits.per_address = 3;
    limits.connections = 5;
    auto listener = test.listen(limits);
    CO_ASSERT_OK(listener);
    Pair honest = co_await test.connected(**listener);
    CO_ASSERT(honest.b);
    honest.b->set_state(wire::PeerState::kOpen);
    std::vector<Pair> mute;
    for (int i = 0; i < 3; ++i) {
      mute.push_back(co_await test.connected(**listener));
      CO_ASSERT(mute.back().b);
    }
    // The third took the place of the first.
    EXPECT_FALSE(mute[0].b->is_open());
    auto ended = co_await mute[0].b->receive();
    expect_error(ended, Code::kUnavailable, "had not greeted");
    EXPECT_TRUE(mute[1].b->is_open());
    EXPECT_TRUE(mute[2].b->is_open());
    EXPECT_TRUE(honest.b->is_open());
  }(*this));
}

TEST_F(TlsTest, AnAddressThatOpensManyCrowdsOutItself) {
  run([](TlsTest& test) -> Task<void> {
    ListenerLimits limits;
    limits.handshake = Milliseconds(600'000);  // none is dropped for being slow
    limits.handshakes = 6;
    limits.connections = 8;
    auto listener = test.listen(limits);
    CO_ASSERT_OK(listener);
    const std::uint16_t port = (*listener)->port();
    const UniqueFd slow(connect_to(port, "127.0.0.2"));  // an honest peer of a slow link
    std::vector<UniqueFd> flood;
    for (int i = 0; i < 20; ++i) {
      flood.emplace_back(connect_to(port, "127.0.0.3"));
    }
    for (int i = 0; i < 15; ++i) {
      co_await closed_by_peer(test.loop(), flood[static_cast<std::size_t>(i)].get());
    }
    EXPECT_TRUE(seems_open(slow.get()));
    EXPECT_TRUE(seems_open(flood.back().get()));
    // Places that are short altogether are taken from it, too.
    std::vector<Pair> admitted;
    for (int i = 0; i < 6; ++i) {
      Pair pair = co_await test.connected(**listener);
      CO_ASSERT(pair.b);
      pair.b->set_state(wire::PeerState::kOpen);
      admitted.push_back(std::move(pair));
    }
    for (std::size_t i = 15; i < 19; ++i) {
      co_await closed_by_peer(test.loop(), flood[i].get());
    }
    EXPECT_TRUE(seems_open(slow.get()));
    for (const Pair& pair : admitted) EXPECT_TRUE(pair.b->is_open());
  }(*this));
}

TEST_F(TlsTest, HundredMegabytesArriveIntact) {
  run([](TlsTest& test) -> Task<void> {
    auto listener = test.listen();
    CO_ASSERT_OK(listener);
    Pair pair = co_await test.connected(**listener);
    CO_ASSERT(pair.a && pair.b);
    pair.a->set_state(wire::PeerState::kOpen);
    pair.b->set_state(wire::PeerState::kOpen);
    auto sender = [](Channel& channel) -> Task<wire::Digest> {
      Sha256 hash;
      for (std::uint32_t i = 0; i < 110; ++i) {
        // Odd sizes, so that frames and records never line up.
        wire::Bytes bytes = filled(1'000'003 - i * 977, i);
        hash.update(bytes);
        auto sent = co_await channel.send(data_frame(i, std::move(bytes)));
        EXPECT_TRUE(sent);
      }
      co_return hash.finish();
    };
    Task<wire::Digest> sending = sender(*pair.a);
    sending.start();
    Sha256 hash;
    std::uint64_t total = 0;
    for (int i = 0; i < 110; ++i) {
      auto frame = co_await pair.b->receive();
      CO_ASSERT_OK(frame);
      hash.update(frame->payload);
      total += frame->payload.size();
    }
    EXPECT_GT(total, 100'000'000u);
    const wire::Digest sent = co_await sending;
    EXPECT_EQ(hash.finish(), sent);
  }(*this));
}

TEST_F(TlsTest, BothDirectionsAtOnceAndAPeerThatNeverReads) {
  run([](TlsTest& test) -> Task<void> {
    auto listener = test.listen();
    CO_ASSERT_OK(listener);
    Pair pair = co_await test.connected(**listener);
    CO_ASSERT(pair.a && pair.b);
    pair.a->set_state(wire::PeerState::kOpen);
    pair.b->set_state(wire::PeerState::kOpen);
    auto flood = [](Channel& channel, std::uint32_t count) -> Task<bool> {
      for (std::uint32_t i = 0; i < count; ++i) {
        auto sent = co_await channel.send(data_frame(i, wire::Bytes(1u << 20)));
        if (!sent) {
          co_return false;
        }
      }
      co_return true;
    };
    Task<bool> forth = flood(*pair.a, 64);
    Task<bool> back = flood(*pair.b, 64);
    forth.start();
    back.start();
    co_await settle(test.loop());
    EXPECT_FALSE(forth.done()) << "64 MiB were queued without a limit";
    for (int i = 0; i < 64; ++i) {
      auto one = co_await pair.a->receive();
      CO_ASSERT_OK(one);
      auto other = co_await pair.b->receive();
      CO_ASSERT_OK(other);
    }
    const bool sent_forth = co_await forth;
    const bool sent_back = co_await back;
    EXPECT_TRUE(sent_forth && sent_back);
  }(*this));
}

TEST_F(TlsTest, DescriptorsAndRunnerFramesDoNotTravelOverTls) {
  run([](TlsTest& test) -> Task<void> {
    auto listener = test.listen();
    CO_ASSERT_OK(listener);
    Pair pair = co_await test.connected(**listener);
    CO_ASSERT(pair.a && pair.b);
    pair.a->set_state(wire::PeerState::kOpen);
    pair.b->set_state(wire::PeerState::kOpen);
    Frame frame = data_frame(1, {});
    frame.fds.emplace_back(::dup(0));
    auto refused = co_await pair.a->send(std::move(frame));
    expect_error(refused, Code::kInvalidArgument, "Unix sockets");
    auto sent = co_await pair.a->send(Frame(FrameType::kCancelWork));
    CO_ASSERT_OK(sent);
    auto received = co_await pair.b->receive();
    expect_error(received, Code::kCorrupt, "over TLS");
  }(*this));
}

TEST_F(TlsTest, DestroyAcceptConnectAndHandshakeMidway) {
  run([](TlsTest& test, std::shared_ptr<const Identity> client) -> Task<void> {
    auto listener = test.listen();
    CO_ASSERT_OK(listener);
    // A server that never answers: the plain backlog of a socket nobody accepts from.
    const UniqueFd mute(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(mute.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(mute.get(), 8), 0);
    ::getsockname(mute.get(), reinterpret_cast<sockaddr*>(&address), &length);
    const std::uint16_t port = ntohs(address.sin_port);
    {
      Task<Result<std::unique_ptr<Channel>>> accepting = (*listener)->accept();
      accepting.start();
      Task<Result<std::unique_ptr<Channel>>> connecting = test.connect(port);
      connecting.start();
      co_await settle(test.loop());
      EXPECT_FALSE(connecting.done());
    }
    ConnectLimits limits;
    limits.handshake = Milliseconds(20);
    auto late =
        co_await connect_tls(test.loop(), client, "127.0.0.1", port, wire::Digest(), limits);
    expect_error(late, Code::kUnavailable, "handshake took too long");
  }(*this, client_id_));
}

TEST_F(TlsTest, AClientThatTheServerRefusedLearnsItFromTheGreeting) {
  // The client's handshake succeeds before the server has judged its certificate.
  run([](TlsTest& test) -> Task<void> {
    auto listener = test.listen();
    CO_ASSERT_OK(listener);
    auto channel = co_await test.connect((*listener)->port());
    CO_ASSERT_OK(channel);
    listener->reset();  // it goes before the greeting
    auto welcome = co_await greet_server(test.loop(), **channel, wire::Role::kHost);
    expect_error(welcome, Code::kUnavailable, "");
  }(*this));
}

}  // namespace
}  // namespace goblin::net
