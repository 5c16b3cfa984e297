// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Throughput over TLS on loopback, two processes: frames alone, then blobs with disk-free sources
// and hashing sinks. Prints GB/s and processor seconds per GB of each side. Not a test.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "core/net/blob_hash.hpp"
#include "core/net/blobs.hpp"

namespace goblin::net {
namespace {

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class Zeros final : public BlobSource {
 public:
  explicit Zeros(std::uint64_t size) : size_(size) {}
  [[nodiscard]] std::uint64_t size() const override { return size_; }
  Result<void> read(std::uint64_t, std::span<std::byte>) override { return {}; }

 private:
  std::uint64_t size_;
};
class Hasher final : public BlobSink {
 public:
  explicit Hasher(bool hash) : on_(hash) {}
  Result<void> begin(std::uint64_t) override { return {}; }
  Result<void> write(std::uint64_t, wire::ByteView bytes) override {
    if (on_) {
      hash_.update(bytes);
    }
    return {};
  }

 private:
  bool on_;
  BlobHash hash_;
};

constexpr std::uint64_t kTotal = 4ull << 30;

Task<void> serve(Loop& loop, Listener& listener, std::size_t frame) {
  auto channel = co_await listener.accept();
  const double before = cpu_seconds();
  (*channel)->set_state(wire::PeerState::kOpen);
  if (frame != 0) {
    wire::BlobData data;
    for (std::uint64_t sent = 0; sent < kTotal; sent += frame) {
      auto ok = co_await (*channel)->send(
          make_frame(wire::FrameType::kBlobData, data, wire::Bytes(frame)));
      if (!ok) {
        break;
      }
    }
    auto end = co_await (*channel)->receive();
  } else {
    auto find = [](const wire::Digest&) -> Task<Result<std::shared_ptr<BlobSource>>> {
      co_return std::make_shared<Zeros>(kTotal);
    };
    auto exchange = BlobExchange::create(loop, **channel, find);
    while (true) {
      auto got = co_await (*channel)->receive();
      if (!got || !exchange->handle(std::move(*got))) {
        break;
      }
    }
    exchange->shut_down();
  }
  std::printf(" sender %.2f cpu-s/GB\n", (cpu_seconds() - before) / (kTotal * 1e-9));
  std::fflush(stdout);
  loop.stop();
}

Task<void> receive_all(Channel& channel, BlobExchange& exchange) {
  while (true) {
    auto got = co_await channel.receive();
    if (!got || !exchange.handle(std::move(*got))) {
      co_return;
    }
  }
}

Task<void> fetch(Loop& loop, std::shared_ptr<const Identity> self, std::uint16_t port,
                 std::size_t frame, bool hash) {
  auto channel = co_await connect_tls(loop, self, "127.0.0.1", port, self->pin());
  if (!channel) {
    std::printf("%s\n", channel.error().message.c_str());
    loop.stop();
    co_return;
  }
  (*channel)->set_state(wire::PeerState::kOpen);
  const auto began = loop.now();
  const double before = cpu_seconds();
  if (frame != 0) {
    for (std::uint64_t got = 0; got < kTotal;) {
      auto received = co_await (*channel)->receive();
      if (!received) {
        break;
      }
      got += received->payload.size();
    }
  } else {
    auto find = [](const wire::Digest&) -> Task<Result<std::shared_ptr<BlobSource>>> {
      co_return fail(Code::kNotFound, "");
    };
    auto exchange = BlobExchange::create(loop, **channel, find);
    Task<void> receiving = receive_all(**channel, *exchange);
    receiving.start();
    auto size = co_await exchange->fetch(wire::Digest(), 0, std::make_shared<Hasher>(hash));
    receiving = Task<void>();
    exchange->shut_down();
  }
  const double seconds = std::chrono::duration<double>(loop.now() - began).count();
  if (frame != 0) {
    std::printf("frames of %zu KiB:", frame >> 10);
  } else {
    std::printf("blob%s:", hash ? ", hashed" : "");
  }
  std::printf(" %.2f GB/s, receiver %.2f cpu-s/GB", kTotal * 1e-9 / seconds,
              (cpu_seconds() - before) / (kTotal * 1e-9));
  std::fflush(stdout);
  channel->reset();
  loop.stop();
}

void measure(const std::string& directory, std::size_t frame, bool hash) {
  int ready[2];
  if (::pipe(ready) != 0) {
    return;
  }
  std::fflush(stdout);  // the child would print it again
  auto identity = *Identity::load_or_create(directory);
  if (const pid_t child = ::fork(); child == 0) {
    auto loop = *Loop::create(2);
    auto listener = *listen_tls(*loop, identity, "127.0.0.1", 0);
    const std::uint16_t port = listener->port();
    if (::write(ready[1], &port, sizeof port) == sizeof port) {
      loop->spawn(serve(*loop, *listener, frame));
      loop->run();
    }
    ::_exit(0);
  }
  std::uint16_t port = 0;
  if (::read(ready[0], &port, sizeof port) == sizeof port) {
    auto loop = *Loop::create(2);
    loop->spawn(fetch(*loop, identity, port, frame, hash));
    loop->run();
  }
  ::wait(nullptr);
}

void hash_speed() {
  const wire::Bytes bytes(64u << 20);
  BlobHash hash;
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 16; ++i) {
    hash.update(bytes);
  }
  hash.finish();
  const auto middle = std::chrono::steady_clock::now();
  for (int i = 0; i < 1'000'000; ++i) {
    blob_digest(wire::ByteView(bytes).first(64));
  }
  const auto end = std::chrono::steady_clock::now();
  std::printf("BLAKE3: %.2f GB/s, %.0f ns for 64 bytes\n",
              16.0 * 64 * 1.048576e-3 / std::chrono::duration<double>(middle - began).count(),
              std::chrono::duration<double>(end - middle).count() * 1e3);
}

}  // namespace
}  // namespace goblin::net

int main() {
  using namespace goblin::net;
  std::string name = (std::filesystem::temp_directory_path() / "goblin-net-XXXXXX").string();
  const std::string directory = ::mkdtemp(name.data());
  hash_speed();
  for (const std::size_t frame : {1u << 20, 256u << 10, 4u << 10}) {
    measure(directory, frame, false);
  }
  measure(directory, 0, false);
  measure(directory, 0, true);
  std::filesystem::remove_all(directory);
}
