// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/net/blobs.hpp"

#include <cstring>
#include <map>
#include <mutex>

#include "core/net/blob_hash.hpp"
#include "net_test.hpp"

namespace goblin::net {
namespace {

using wire::FrameType;

class MemorySource final : public BlobSource {
 public:
  explicit MemorySource(wire::Bytes bytes, std::uint64_t fail_at = ~0ull)
      : bytes_(std::move(bytes)), fail_at_(fail_at) {}
  [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override {
    if (offset + out.size() > fail_at_) {
      return fail(Code::kCorrupt, "bad sector");
    }
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

 private:
  wire::Bytes bytes_;
  std::uint64_t fail_at_;
};

/// Keeps what comes; may refuse a size, or hold writes back until told.
class MemorySink final : public BlobSink {
 public:
  explicit MemorySink(std::uint64_t largest = 1u << 30) : largest_(largest) {}
  Result<void> begin(std::uint64_t size) override {
    if (size > largest_) {
      return fail(Code::kExhausted, "no room for " + std::to_string(size));
    }
    return {};
  }
  Result<void> write(std::uint64_t offset, wire::ByteView bytes) override {
    std::lock_guard lock(mutex);
    if (first == ~0ull) {
      first = offset;
    }
    if (offset != first + data.size()) {
      return fail(Code::kInternal, "out of order");
    }
    data.insert(data.end(), bytes.begin(), bytes.end());
    return {};
  }
  std::size_t size() {
    std::lock_guard lock(mutex);
    return data.size();
  }

  std::mutex mutex;
  std::uint64_t first = ~0ull;
  wire::Bytes data;

 private:
  std::uint64_t largest_;
};

/// One end: a channel, what it may serve, and its receive loop.
class End {
 public:
  End(Loop& loop, Channel& channel) : channel_(channel) {
    auto find = [this](const wire::Digest& digest) { return look_up(digest); };
    exchange_ = BlobExchange::create(loop, channel, find);
    task_ = receive();
    task_.start();
  }
  wire::Digest offer(wire::Bytes bytes, std::uint64_t fail_at = ~0ull) {
    const wire::Digest digest = blob_digest(bytes);
    blobs_[digest] = std::make_shared<MemorySource>(std::move(bytes), fail_at);
    return digest;
  }
  BlobExchange& exchange() { return *exchange_; }
  [[nodiscard]] const std::optional<Error>& broken() const { return broken_; }
  /// Completes when the receive loop has ended.
  Task<void> ended() { co_await task_; }
  std::size_t asked = 0;

 private:
  Task<Result<std::shared_ptr<BlobSource>>> look_up(wire::Digest digest) {
    ++asked;
    const auto found = blobs_.find(digest);
    if (found == blobs_.end()) {
      co_return fail(Code::kNotFound, "no such blob");
    }
    co_return std::shared_ptr<BlobSource>(found->second);
  }
  Task<void> receive() {
    while (true) {
      auto frame = co_await channel_.receive();
      if (!frame) {
        break;
      }
      auto handled = exchange_->handle(std::move(*frame));
      if (!handled) {
        broken_ = handled.error();
        channel_.close();
        break;
      }
    }
    exchange_->shut_down();
  }

  Channel& channel_;
  std::map<wire::Digest, std::shared_ptr<MemorySource>> blobs_;
  std::unique_ptr<BlobExchange> exchange_;
  std::optional<Error> broken_;
  Task<void> task_;
};

TEST_F(NetTest, FetchWholeEmptyAndFromAnOffset) {
  run([](NetTest& test) -> Task<void> {
    Pair pair = test.unix_pair();
    End here(test.loop(), *pair.a);
    End there(test.loop(), *pair.b);
    const wire::Bytes bytes = filled(20'000'001, 1);
    const wire::Digest digest = there.offer(bytes);
    for (const std::uint64_t offset : {0u, 1u, 19'999'999u, 20'000'001u}) {
      const auto sink = std::make_shared<MemorySink>();
      auto size = co_await here.exchange().fetch(digest, offset, sink);
      CO_ASSERT_OK(size);
      EXPECT_EQ(*size, bytes.size());
      EXPECT_TRUE(
          std::equal(sink->data.begin(), sink->data.end(), bytes.begin() + offset, bytes.end()));
    }
    const wire::Digest empty = there.offer({});
    const auto sink = std::make_shared<MemorySink>();
    auto size = co_await here.exchange().fetch(empty, 0, sink);
    CO_ASSERT_OK(size);
    EXPECT_EQ(*size, 0u);
    // The other way, with the smallest window.
    const wire::Digest back = here.offer(bytes);
    const auto other = std::make_shared<MemorySink>();
    auto reverse = co_await there.exchange().fetch(back, 0, other, 1);
    CO_ASSERT_OK(reverse);
    EXPECT_EQ(blob_digest(other->data), back);
  }(*this));
}

TEST_F(NetTest, RefusalsOfAFetch) {
  run([](NetTest& test) -> Task<void> {
    Pair pair = test.unix_pair();
    End here(test.loop(), *pair.a);
    End there(test.loop(), *pair.b);
    const auto sink = std::make_shared<MemorySink>(1000);
    auto unknown = co_await here.exchange().fetch(wire::Digest(), 0, sink);
    expect_error(unknown, Code::kNotFound, wire::Digest().hex());
    const wire::Digest large = there.offer(filled(30'000'000, 2));
    auto too_large = co_await here.exchange().fetch(large, 0, sink);
    expect_error(too_large, Code::kExhausted, "no room for 30000000");
    EXPECT_TRUE(sink->data.empty());
    const wire::Digest small = there.offer(filled(500, 3));
    auto beyond = co_await here.exchange().fetch(small, 501, sink);
    expect_error(beyond, Code::kInvalidArgument, small.hex());
    const wire::Digest broken = there.offer(filled(3'000'000, 4), 2'000'000);
    const auto part = std::make_shared<MemorySink>();
    auto failed = co_await here.exchange().fetch(broken, 0, part);
    expect_error(failed, Code::kCorrupt, "stopped sending the blob at byte");
    // What had come is there, and the connection is still good.
    EXPECT_GT(part->data.size(), 1'000'000u);
    auto good = co_await here.exchange().fetch(small, 0, sink);
    CO_ASSERT_OK(good);
    EXPECT_FALSE(here.broken() || there.broken());
  }(*this));
}

TEST_F(NetTest, ManyStreamsTakeTurns) {
  run([](NetTest& test) -> Task<void> {
    Pair pair = test.unix_pair();
    End here(test.loop(), *pair.a);
    End there(test.loop(), *pair.b);
    // More than may be open at once; the last is small and must not wait for the large ones.
    std::vector<wire::Digest> digests;
    for (std::uint32_t i = 0; i < 100; ++i) {
      digests.push_back(there.offer(filled(i < 10 ? 8'000'000 : 300'000 + i, 100 + i)));
    }
    std::vector<std::shared_ptr<MemorySink>> sinks;
    std::vector<Task<Result<std::uint64_t>>> fetches;
    for (const wire::Digest& digest : digests) {
      sinks.push_back(std::make_shared<MemorySink>());
      fetches.push_back(here.exchange().fetch(digest, 0, sinks.back()));
      fetches.back().start();
    }
    Task<Result<std::uint64_t>>& small = fetches[60];
    auto last = co_await small;
    CO_ASSERT_OK(last);
    EXPECT_FALSE(fetches[0].done()) << "a large blob went before a small one";
    for (std::size_t i = 0; i < fetches.size(); ++i) {
      if (i != 60) {
        Task<Result<std::uint64_t>>& fetch = fetches[i];
        auto size = co_await fetch;
        CO_ASSERT_OK(size);
      }
      EXPECT_EQ(blob_digest(sinks[i]->data), digests[i]);
    }
    EXPECT_FALSE(here.broken() || there.broken());
  }(*this));
}

TEST_F(NetTest, DestroyingAFetchStopsThePeerAndResumes) {
  run([](NetTest& test) -> Task<void> {
    Pair pair = test.unix_pair();
    End here(test.loop(), *pair.a);
    End there(test.loop(), *pair.b);
    const wire::Bytes bytes = filled(64'000'000, 5);
    const wire::Digest digest = there.offer(bytes);
    wire::Bytes got;
    for (int round = 0; round < 200; ++round) {
      // Destroyed at every stage: before the request left, while bytes come, … Later rounds wait
      // longer, so that some bytes come on a busy machine, too.
      const auto sink = std::make_shared<MemorySink>();
      Task<Result<std::uint64_t>> fetch = here.exchange().fetch(digest, got.size(), sink, 1u << 20);
      fetch.start();
      for (int i = 0; i < round % 13 * (round / 13 + 1); ++i) {
        co_await test.loop().offload([] { return 0; });
      }
      fetch = Task<Result<std::uint64_t>>();
      // A write may still be running on a worker.
      while (sink.use_count() != 1) {
        co_await test.loop().offload([] { return 0; });
      }
      got.insert(got.end(), sink->data.begin(), sink->data.end());
    }
    EXPECT_GT(got.size(), 0u);
    const auto sink = std::make_shared<MemorySink>();
    auto size = co_await here.exchange().fetch(digest, got.size(), sink);
    CO_ASSERT_OK(size);
    got.insert(got.end(), sink->data.begin(), sink->data.end());
    EXPECT_EQ(blob_digest(got), digest);
    EXPECT_FALSE(here.broken() || there.broken());
  }(*this));
}

TEST_F(NetTest, AFetchEndsWithItsConnection) {
  run([](NetTest& test) -> Task<void> {
    Pair pair = test.unix_pair();
    End here(test.loop(), *pair.a);
    auto there = std::make_unique<End>(test.loop(), *pair.b);
    const wire::Digest digest = there->offer(filled(64'000'000, 6));
    const auto sink = std::make_shared<MemorySink>();
    Task<Result<std::uint64_t>> fetch = here.exchange().fetch(digest, 0, sink);
    fetch.start();
    while (sink->size() == 0) {
      co_await test.loop().offload([] { return 0; });
    }
    there.reset();
    pair.b.reset();
    auto size = co_await fetch;
    expect_error(size, Code::kUnavailable, digest.hex());
    auto later = co_await here.exchange().fetch(digest, 0, sink);
    expect_error(later, Code::kUnavailable, "ended");
  }(*this));
}

TEST_F(NetTest, DestroyEverythingWhileBlobsMove) {
  run([](NetTest& test) -> Task<void> {
    for (int round = 0; round < 30; ++round) {
      Pair pair = test.unix_pair();
      End here(test.loop(), *pair.a);
      End there(test.loop(), *pair.b);
      const wire::Digest digest = there.offer(filled(3'000'000, 7));
      std::vector<Task<Result<std::uint64_t>>> fetches;
      for (int i = 0; i < 5; ++i) {
        fetches.push_back(here.exchange().fetch(digest, 0, std::make_shared<MemorySink>()));
        fetches.back().start();
      }
      for (int i = 0; i < round; ++i) {
        co_await test.loop().offload([] { return 0; });
      }
    }
  }(*this));
}

// ---- hostile peers: raw frames against an exchange

template <typename Message>
Task<void> put(Channel& channel, FrameType type, Message message, std::size_t payload = 0) {
  auto sent = co_await channel.send(make_frame(type, message, wire::Bytes(payload)));
  EXPECT_TRUE(sent);
}

/// A sender that breaks the rules after a proper BlobGet; what must be said of it.
struct BadSender {
  const char* name;
  std::vector<wire::BlobInfo> infos;
  std::uint64_t offset;
  std::size_t payload;
  const char* message;
};

TEST_F(NetTest, SendersThatBreakTheRules) {
  const wire::BlobInfo info{0, GOBLIN_OK, 10'000'000};
  const std::vector<BadSender> cases{
      {"no info", {}, 0, 10, "bytes before their size"},
      {"described twice", {info, info}, 0, 0, "described twice"},
      {"wrong offset", {info}, 5, 10, "bytes at 5"},
      {"empty", {info}, 0, 0, "no bytes in a frame"},
      {"over credit", {info}, 0, 70'000, "beyond the credit"},
      {"over size", {wire::BlobInfo{0, GOBLIN_OK, 100}}, 0, 101, "beyond its size"},
      {"unknown stream", {wire::BlobInfo{7, GOBLIN_OK, 100}}, 0, 10, "not asked for"},
      {"smaller than the offset", {wire::BlobInfo{0, GOBLIN_OK, 3}}, 0, 1, "fewer than"},
  };
  for (const BadSender& bad : cases) {
    run([](NetTest& test, const BadSender& sender) -> Task<void> {
      Pair pair = test.unix_pair();
      End here(test.loop(), *pair.a);
      const auto sink = std::make_shared<MemorySink>();
      const bool shrunk = sender.infos.size() == 1 && sender.infos[0].size == 3;
      Task<Result<std::uint64_t>> fetch =
          here.exchange().fetch(wire::Digest(), shrunk ? 4 : 0, sink, 65'536);
      fetch.start();
      auto request = co_await pair.b->receive();
      CO_ASSERT_OK(request);
      EXPECT_EQ(request->type, FrameType::kBlobGet);
      for (const wire::BlobInfo& told : sender.infos) {
        co_await put(*pair.b, FrameType::kBlobInfo, told);
      }
      co_await put(*pair.b, FrameType::kBlobData, wire::BlobData{0, sender.offset}, sender.payload);
      auto size = co_await fetch;
      expect_error(size, Code::kUnavailable, "");
      CO_ASSERT(here.broken().has_value());
      EXPECT_EQ(here.broken()->code, Code::kCorrupt) << sender.name;
      EXPECT_NE(here.broken()->message.find(sender.message), std::string::npos)
          << sender.name << ": " << here.broken()->message;
      EXPECT_TRUE(sink->data.empty());
    }(*this, bad));
  }
}

TEST_F(NetTest, AskersThatBreakTheRules) {
  run([](NetTest& test) -> Task<void> {
    {
      Pair pair = test.unix_pair();
      End there(test.loop(), *pair.b);
      wire::BlobGet get;
      get.digest = there.offer(filled(1'000'000, 8));
      for (get.stream = 0; get.stream < 65; ++get.stream) {
        co_await put(*pair.a, FrameType::kBlobGet, get);  // no credit: they stay open
      }
      co_await there.ended();
      CO_ASSERT(there.broken().has_value());
      EXPECT_NE(there.broken()->message.find("more than 64"), std::string::npos);
      EXPECT_EQ(there.asked, 64u);
    }
    {
      Pair pair = test.unix_pair();
      End there(test.loop(), *pair.b);
      wire::BlobGet get;
      get.digest = there.offer(filled(1'000'000, 8));
      co_await put(*pair.a, FrameType::kBlobGet, get);
      co_await put(*pair.a, FrameType::kBlobGet, get);
      co_await there.ended();
      CO_ASSERT(there.broken().has_value());
      EXPECT_NE(there.broken()->message.find("twice"), std::string::npos);
    }
    {
      Pair pair = test.unix_pair();
      End there(test.loop(), *pair.b);
      wire::BlobGet get;
      get.digest = there.offer(filled(1'000'000, 8));
      get.credit = 1;
      co_await put(*pair.a, FrameType::kBlobGet, get);
      co_await put(*pair.a, FrameType::kBlobCredit, wire::BlobCredit{0, ~0ull});
      co_await put(*pair.a, FrameType::kBlobCredit, wire::BlobCredit{0, ~0ull});
      co_await there.ended();
      CO_ASSERT(there.broken().has_value());
      EXPECT_NE(there.broken()->message.find("overflows"), std::string::npos);
    }
  }(*this));
}

TEST_F(NetTest, NoByteMoreThanTheCredit) {
  run([](NetTest& test) -> Task<void> {
    Pair pair = test.unix_pair();
    End there(test.loop(), *pair.b);
    wire::BlobGet get;
    get.digest = there.offer(filled(1'000'000, 9));
    get.credit = 300'000;
    co_await put(*pair.a, FrameType::kBlobGet, get);
    auto info = co_await pair.a->receive();
    CO_ASSERT_OK(info);
    std::size_t got = 0;
    while (got < 300'000) {
      auto data = co_await pair.a->receive();
      CO_ASSERT_OK(data);
      got += data->payload.size();
    }
    EXPECT_EQ(got, 300'000u);
    const auto more = co_await within(test.loop(), Milliseconds(20), pair.a->receive());
    EXPECT_FALSE(more.has_value());
    co_await put(*pair.a, FrameType::kBlobCredit, wire::BlobCredit{0, 7});
    auto seven = co_await pair.a->receive();
    CO_ASSERT_OK(seven);
    EXPECT_EQ(seven->payload.size(), 7u);
    // Credit and cancel for what has ended may cross its end.
    co_await put(*pair.a, FrameType::kBlobCancel, wire::BlobCancel{0, GOBLIN_CANCELLED});
    auto echo = co_await pair.a->receive();
    CO_ASSERT_OK(echo);
    EXPECT_EQ(echo->type, FrameType::kBlobCancel);
    co_await put(*pair.a, FrameType::kBlobCredit, wire::BlobCredit{0, 7});
    co_await put(*pair.a, FrameType::kBlobCancel, wire::BlobCancel{0, GOBLIN_CANCELLED});
    get.stream = 1;
    co_await put(*pair.a, FrameType::kBlobGet, get);
    auto next = co_await pair.a->receive();
    CO_ASSERT_OK(next);
    EXPECT_EQ(next->type, FrameType::kBlobInfo);
    EXPECT_FALSE(there.broken().has_value());
  }(*this));
}

}  // namespace
}  // namespace goblin::net
