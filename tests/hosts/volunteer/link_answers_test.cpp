// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A lab node measures the link; the host says how fast it is.
#include "hosts/volunteer/link_answers.hpp"

#include <gtest/gtest.h>

#include "hosts/volunteer/own_speed.hpp"

namespace goblin::volunteer {
namespace {

class LinkAnswersTest : public ::testing::Test {
 protected:
  /// Frames of a probe, each of so many payload bytes; the answers to the last one.
  std::vector<net::Frame> probe(std::uint32_t number, std::uint32_t count, std::size_t bytes,
                                std::uint32_t wanted) {
    std::vector<net::Frame> out;
    for (std::uint32_t index = 0; index < count; ++index) {
      wire::LinkProbe one;
      one.number = number;
      one.index = index;
      one.count = count;
      one.answers = wanted;
      received_ += bytes;
      out = answers_.on(one, bytes, received_);
      EXPECT_TRUE(index + 1 == count || out.empty()) << index;
    }
    return out;
  }
  static wire::LinkEcho echo_of(const net::Frame& frame) {
    auto echo = wire::decode_link_echo(frame.message);
    EXPECT_TRUE(echo);
    return echo.value_or(wire::LinkEcho{});
  }

  std::unique_ptr<net::Loop> loop_ = std::move(*net::Loop::create(1));
  LinkAnswers answers_{*loop_};
  std::uint64_t received_ = 0;
};

TEST_F(LinkAnswersTest, SaysWhatCameAfterTheMiddle) {
  const auto out = probe(1, 16, 1000, 16);
  ASSERT_EQ(out.size(), 16u);
  for (std::uint32_t i = 0; i < 16; ++i) {
    const wire::LinkEcho echo = echo_of(out[i]);
    EXPECT_EQ(echo.number, 1u);
    EXPECT_EQ(echo.index, i);
    EXPECT_EQ(echo.count, 16u);
    EXPECT_EQ(echo.bytes, 7000u) << "frames 9 to 15";
    EXPECT_EQ(out[i].payload.size(), 1000u);
  }
}

TEST_F(LinkAnswersTest, OneEmptyFrameIsARoundTrip) {
  const auto out = probe(1, 1, 0, 1);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(echo_of(out[0]).bytes, 0u);
  EXPECT_TRUE(out[0].payload.empty());
}

TEST_F(LinkAnswersTest, AnswersAreBounded) {
  std::uint64_t sent = 0;
  for (std::uint32_t number = 1; number <= 20; ++number) {
    for (const auto& frame : probe(number, 64, 32'768, 64)) {
      sent += frame.payload.size();
    }
  }
  EXPECT_EQ(sent, 16u << 20);
  EXPECT_TRUE(probe(99, 4, 100, 0).empty()) << "none were asked for";
}

TEST(OwnSpeed, IsThatOfAProcessor) {
  const OwnSpeed one = measure_own_speed(1);
  EXPECT_GT(one.f32, 1e8);
  EXPECT_LT(one.f32, 1e13);
  EXPECT_GT(one.f64, 1e8);
  EXPECT_LE(one.f64, 1.5 * one.f32);
}

}  // namespace
}  // namespace goblin::volunteer
