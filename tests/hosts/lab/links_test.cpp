// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Links are measured, alone and together; speeds are learnt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "goblin/abi/plugin.h"
#include "hosts/lab/host_speeds.hpp"
#include "hosts/lab/link_meter.hpp"
#include "hosts/lab/link_survey.hpp"

namespace goblin::lab {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;

std::map<scheduler::HostId, LinkMeasure> measured(
    const std::map<scheduler::HostId, double>& rates) {
  std::map<scheduler::HostId, LinkMeasure> all;
  for (const auto& [host, rate] : rates) {
    all.emplace(host, LinkMeasure{0.01, rate, 2 * rate});
  }
  return all;
}

TEST(LinksOf, HostsWithLinksOfTheirOwnDoNotShare) {
  const Links links = links_of(measured({{1, 10}, {2, 20}}), measured({{1, 11}, {2, 19}}));
  EXPECT_TRUE(std::isinf(links.lab.to_hosts));
  EXPECT_TRUE(std::isinf(links.lab.from_hosts));
  EXPECT_THAT(links.hosts.at(1).to_host, DoubleEq(11)) << "the better of both";
  EXPECT_THAT(links.hosts.at(2).to_host, DoubleEq(20));
}

TEST(LinksOf, WhatHostsLackTogetherTheLabsLinkDoesNotCarry) {
  const Links links =
      links_of(measured({{1, 5}, {2, 5}, {3, 5}, {4, 1}}), measured({{1, 20}, {2, 10}, {3, 12}}));
  EXPECT_THAT(links.lab.to_hosts, DoubleEq(16));
  EXPECT_THAT(links.lab.from_hosts, DoubleEq(32));
  EXPECT_THAT(links.hosts.at(1).to_host, DoubleEq(20));
  EXPECT_THAT(links.hosts.at(4).to_host, DoubleEq(12)) << "that of the median host";
}

TEST(LinksOf, OneHostAlone) {
  const Links links = links_of(measured({{1, 5}}), {});
  EXPECT_TRUE(std::isinf(links.lab.to_hosts));
  EXPECT_THAT(links.hosts.at(1).to_host, DoubleEq(5));
  EXPECT_TRUE(links_of({}, {}).hosts.empty());
}

class MeterTest : public ::testing::Test {
 protected:
  /// A host that answers at once; of each frame's bytes some are said to have come with the one
  /// before.
  void answer(const net::Frame& frame) {
    const auto probe = wire::decode_link_probe(frame.message);
    ASSERT_TRUE(probe);
    ++frames_;
    if (probe->index + 1 < probe->count || silent_) {
      return;
    }
    wire::LinkEcho echo;
    echo.number = probe->number;
    echo.count = probe->answers;
    echo.bytes = 1'000'000;
    echo.micros = 500'000;
    for (; echo.index < echo.count; ++echo.index) {
      received_ += frame.payload.size();
      meter_->on(echo, received_);
    }
  }
  net::Task<void> measure() {
    result_.emplace(co_await meter_->measure());
    loop_->stop();
  }

  std::unique_ptr<net::Loop> loop_ = std::move(*net::Loop::create(1));
  int frames_ = 0;
  bool silent_ = false;
  std::uint64_t received_ = 0;
  std::unique_ptr<LinkMeter> meter_ = std::make_unique<LinkMeter>(*loop_, [this](net::Frame frame) {
    loop_->post([this, frame = std::make_shared<net::Frame>(std::move(frame))] { answer(*frame); });
  });
  std::optional<Result<LinkMeasure>> result_;
};

TEST_F(MeterTest, MeasuresRoundTripAndRates) {
  loop_->spawn(measure());
  loop_->run();
  ASSERT_TRUE(result_ && *result_) << (result_ ? result_->error().message : "");
  EXPECT_GE(frames_, 3 + 16);
  EXPECT_THAT((*result_)->to_host, DoubleNear(2e6, 1));
  EXPECT_GT((*result_)->from_host, 0);
  EXPECT_LT((*result_)->rtt_s, 1);
}

TEST_F(MeterTest, OneMeasurementAtATime) {
  silent_ = true;
  loop_->spawn(measure());
  loop_->post([this] { loop_->spawn(measure()); });
  loop_->run();
  ASSERT_TRUE(result_ && !*result_);
  EXPECT_EQ(result_->error().code, Code::kUnavailable);
  EXPECT_THAT(result_->error().message, ::testing::HasSubstr("already"));
}

TEST_F(MeterTest, AHostThatGoesEndsIt) {
  silent_ = true;
  loop_->spawn(measure());
  loop_->post([this] { meter_->close(); });
  loop_->run();
  ASSERT_TRUE(result_ && !*result_);
  EXPECT_THAT(result_->error().message, ::testing::HasSubstr("gone"));
}

TEST_F(MeterTest, AnswersThatNobodyAskedForAreNothing) {
  wire::LinkEcho echo;
  echo.number = 77;
  meter_->on(echo, 5);
  loop_->spawn(measure());
  loop_->run();
  ASSERT_TRUE(result_ && *result_);
}

wire::HostCapacity capacity(double f32, double f64) {
  wire::HostCapacity one;
  one.threads = 2;
  one.flops_f32 = f32;
  one.flops_f64 = f64;
  return one;
}

TEST(HostSpeeds, WhatAHostMeasuredUntilSomethingWasSeen) {
  HostSpeeds speeds;
  const Computation f32 = Computation::of("matmul/1", {GOBLIN_F32, GOBLIN_F16});
  const Computation f64 = Computation::of("matmul/1", {GOBLIN_F32, GOBLIN_C128});
  EXPECT_NE(f32, f64);
  const auto narrow = speeds.of(1, capacity(100e9, 50e9), f32, 1e9);
  EXPECT_TRUE(narrow.assumed);
  EXPECT_THAT(narrow.flops_per_s, DoubleNear(85e9, 1e6));
  EXPECT_THAT(speeds.of(1, capacity(100e9, 50e9), f64, 1e9).flops_per_s, DoubleNear(42.5e9, 1e6));
  EXPECT_GT(speeds.of(1, capacity(0, 0), f32, 1e9).flops_per_s, 0) << "an older host";

  for (int i = 0; i < 10; ++i) {
    speeds.add(1, f32, 1e9, 0.02);
  }
  const auto seen = speeds.of(1, capacity(100e9, 50e9), f32, 1e9);
  EXPECT_FALSE(seen.assumed);
  EXPECT_THAT(seen.flops_per_s, DoubleNear(50e9, 1e6));
  EXPECT_TRUE(speeds.of(1, capacity(100e9, 50e9), f64, 1e9).assumed);
  EXPECT_TRUE(speeds.of(2, capacity(100e9, 50e9), f32, 1e9).assumed);
  EXPECT_TRUE(speeds.of(1, capacity(100e9, 50e9), f32, 1e12).assumed)
      << "tiny tasks say nothing of large ones";
  speeds.forget(1);
  EXPECT_TRUE(speeds.of(1, capacity(100e9, 50e9), f32, 1e9).assumed);
}

TEST(HostSpeeds, NonsenseIsNotLearnt) {
  HostSpeeds speeds;
  const Computation what = Computation::of("x/1", {});
  for (const double bad : {0.0, -1.0, std::nan("")}) {
    speeds.add(1, what, 1e9, bad);
    speeds.add(1, what, bad, 1);
  }
  EXPECT_TRUE(speeds.of(1, capacity(1e9, 1e9), what, 1e9).assumed);
}

}  // namespace
}  // namespace goblin::lab
