// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/link/watched_fetch.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace goblin::link {
namespace {

/// Sends pieces of 1000 bytes, `pause` apart, `count` of them; then ends, or stalls.
class ScriptedExchange final : public net::BlobExchange {
 public:
  ScriptedExchange(net::Loop& loop, int count, net::Milliseconds pause, bool ends)
      : loop_(loop), never_(loop), count_(count), pause_(pause), ends_(ends) {}
  Result<void> handle(net::Frame) override { return {}; }
  net::Task<Result<std::uint64_t>> fetch(wire::Digest, std::uint64_t,
                                         std::shared_ptr<net::BlobSink> sink,
                                         std::uint64_t) override {
    const wire::Bytes piece(1000);
    for (int i = 0; i < count_; ++i) {
      co_await loop_.sleep(pause_);
      GOBLIN_CO_TRY_VOID(sink->write(static_cast<std::uint64_t>(i) * 1000, piece));
    }
    if (!ends_) {
      co_await never_.wait();
    }
    co_return static_cast<std::uint64_t>(count_) * 1000;
  }
  void shut_down() override {}

 private:
  net::Loop& loop_;
  net::Event never_;
  int count_;
  net::Milliseconds pause_;
  bool ends_;
};

class CountingSink final : public net::BlobSink {
 public:
  Result<void> begin(std::uint64_t) override { return {}; }
  Result<void> write(std::uint64_t, wire::ByteView bytes) override {
    count += bytes.size();
    return {};
  }
  std::uint64_t count = 0;
};

class WatchedFetch : public ::testing::Test {
 protected:
  Result<std::uint64_t> fetch(int count, net::Milliseconds pause, bool ends, FetchPace pace) {
    Result<std::uint64_t> answer = fail(Code::kInternal, "it never ended");
    loop_->spawn(run(count, pause, ends, pace, answer));
    loop_->run();
    return answer;
  }
  net::Task<void> run(int count, net::Milliseconds pause, bool ends, FetchPace pace,
                      Result<std::uint64_t>& answer) {
    ScriptedExchange exchange(*loop_, count, pause, ends);
    answer = co_await fetch_watched(*loop_, exchange, wire::Digest{}, 0, sink_, pace);
    loop_->stop();
  }

  std::unique_ptr<net::Loop> loop_ = std::move(*net::Loop::create(1));
  std::shared_ptr<CountingSink> sink_ = std::make_shared<CountingSink>();
};

constexpr net::Milliseconds kNone{0};

TEST_F(WatchedFetch, ABlobThatStallsEndsAndKeepsWhatCame) {
  const auto answer = fetch(3, kNone, false, {net::Milliseconds(100), 1});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
  EXPECT_NE(answer.error().message.find("stalls"), std::string::npos) << answer.error().message;
  EXPECT_EQ(sink_->count, 3000u);
}

TEST_F(WatchedFetch, ATrickleIsAStall) {
  const auto answer = fetch(1000, net::Milliseconds(20), true, {net::Milliseconds(200), 64u << 10});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
}

TEST_F(WatchedFetch, ASlowBlobThatGoesOnIsLeftAlone) {
  // Longer in all than the span, and never slower than its pace.
  const auto answer = fetch(30, net::Milliseconds(10), true, {net::Milliseconds(100), 1});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(*answer, 30'000u);
}

TEST_F(WatchedFetch, ABlobThatIsHereAtOnceNeedsNoSpan) {
  const auto answer = fetch(0, kNone, true, {net::Milliseconds(600'000), 64u << 10});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(*answer, 0u);
}

}  // namespace
}  // namespace goblin::link
