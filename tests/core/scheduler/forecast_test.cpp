// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/scheduler/forecast.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "core/scheduler/shared_link.hpp"

namespace goblin::scheduler {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr LinkRate kFree{kNoLimit, kNoLimit};

wire::Digest digest_of(std::uint64_t number) {
  wire::Digest digest;
  std::memcpy(digest.bytes.data(), &number, sizeof number);
  return digest;
}

ForecastHost host(double flops_per_s, LinkRate link = kFree, double rtt_s = 0) {
  ForecastHost one;
  one.spec.memory_bytes = 1u << 30;
  one.spec.cache_bytes = 1u << 30;
  one.spec.slots = 64;
  one.flops_per_s = flops_per_s;
  one.link = link;
  one.rtt_s = rtt_s;
  return one;
}

std::vector<ForecastHost> hosts(std::size_t count, const ForecastHost& like) {
  std::vector<ForecastHost> all(count, like);
  for (std::size_t i = 0; i < count; ++i) all[i].spec.group = i + 1;
  return all;
}

/// Tasks with one input each; every `sharing` of them have the same.
ForecastJob job(std::size_t count, double flops, std::uint64_t input, std::uint64_t output,
                std::size_t sharing = 1) {
  ForecastJob made;
  for (std::size_t i = 0; i < count; ++i) {
    ReadyTask task;
    task.task = i + 1;
    task.flops = flops;
    task.memory_bytes = 1u << 20;
    task.output_bytes = output;
    task.inputs = {{digest_of(i / sharing), input}};
    made.tasks.push_back(std::move(task));
    made.flops_total += flops;
  }
  return made;
}

TEST(FairRates, ShareWhatIsLeft) {
  EXPECT_THAT(fair_rates({4, 4, 4}, 6), ElementsAre(2, 2, 2));
  EXPECT_THAT(fair_rates({1, 4, 4}, 6), ElementsAre(1, 2.5, 2.5));
  EXPECT_THAT(fair_rates({1, 2, 0}, 6), ElementsAre(1, 2, 0));
  EXPECT_THAT(fair_rates({kNoLimit, 1}, 6), ElementsAre(5, 1));
  EXPECT_THAT(fair_rates({2, kNoLimit}, kNoLimit), ElementsAre(2, kNoLimit));
  EXPECT_TRUE(fair_rates({}, 1).empty());
}

TEST(Forecast, HostsSpeedBounds) {
  const auto told = forecast({}, hosts(4, host(1e9)), kFree, job(400, 1e8, 1000, 1000));
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_EQ(told->bound, wire::Bound::kHostsSpeed);
  EXPECT_THAT(told->hosts_speed_s, DoubleNear(10, 1e-6));
  EXPECT_THAT(told->seconds, DoubleNear(10, 0.3));
  EXPECT_EQ(told->starts, 400u);
  EXPECT_EQ(told->hosts, 4u);
  EXPECT_THAT(told->bytes_to_hosts, DoubleNear(4e5, 1));
  EXPECT_THAT(told->bytes_from_hosts, DoubleNear(4e5, 1));
  EXPECT_EQ(told->planned_share, 1);
}

TEST(Forecast, FastAndSlowHosts) {
  std::vector<ForecastHost> all = hosts(3, host(1e9));
  all[2].flops_per_s = 1e8;
  const auto told = forecast({}, all, kFree, job(210, 1e8, 1000, 1000));
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_THAT(told->seconds, DoubleNear(10, 1.0));
}

TEST(Forecast, ASlowHostLinkBounds) {
  std::vector<ForecastHost> all = hosts(1, host(1e12, {1e6, 1e6}, 0.1));
  const auto told = forecast({}, all, kFree, job(20, 1e6, 500'000, 1000));
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_EQ(told->bound, wire::Bound::kHostLink);
  EXPECT_THAT(told->host_link_s, DoubleNear(10, 1e-3));
  EXPECT_THAT(told->seconds, DoubleNear(10.3, 0.2)) << "the latency comes on top";
}

TEST(Forecast, ResultsComeBackOverALinkOfTheirOwn) {
  const auto told =
      forecast({}, hosts(1, host(1e12, {1e6, 1e5})), kFree, job(20, 1e6, 50'000, 50'000));
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_EQ(told->bound, wire::Bound::kHostLink);
  EXPECT_THAT(told->host_link_s, DoubleNear(10, 1e-3));
  EXPECT_THAT(told->seconds, DoubleNear(10, 0.3));
}

TEST(Forecast, TheLabsLinkBounds) {
  const auto told =
      forecast({}, hosts(8, host(1e12, {1e6, 1e6})), {2e6, 2e6}, job(80, 1e6, 250'000, 1000));
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_EQ(told->bound, wire::Bound::kLabLink);
  EXPECT_THAT(told->lab_link_s, DoubleNear(10, 1e-3));
  EXPECT_THAT(told->seconds, DoubleNear(10, 0.5));
}

TEST(Forecast, WhatAHostHasIsNotSentAgain) {
  const auto told =
      forecast({}, hosts(1, host(1e9, {1e6, 1e6})), kFree, job(100, 1e6, 500'000, 10, 50));
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_THAT(told->bytes_to_hosts, DoubleNear(1e6, 1));
}

TEST(Forecast, ReplicasCost) {
  ForecastJob twice = job(100, 1e8, 1000, 1000);
  twice.policy.policy = wire::Policy::kReplicate;
  twice.policy.replicas = 2;
  const auto told = forecast({}, hosts(4, host(1e9)), kFree, twice);
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_THAT(told->hosts_speed_s, DoubleNear(5, 0.3));
  EXPECT_THAT(told->seconds, DoubleNear(5, 1.0));
}

TEST(Forecast, WhatIsNotPlannedTakesAsLong) {
  ForecastJob more = job(100, 1e8, 1000, 1000);
  more.flops_total *= 5;
  const auto told = forecast({}, hosts(1, host(1e9)), kFree, more);
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_THAT(told->hosts_speed_s, DoubleNear(50, 1e-6));
  EXPECT_THAT(told->planned_share, DoubleNear(0.2, 1e-9));
}

TEST(Forecast, SaysWhyAJobCannotEnd) {
  ForecastJob large = job(3, 1e8, 1000, 1000);
  for (auto& task : large.tasks) task.memory_bytes = 2u << 30;
  const auto told = forecast({}, hosts(2, host(1e9)), kFree, large);
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().code, Code::kUnavailable);
  EXPECT_THAT(told.error().message, HasSubstr("each task needs 2048 MiB"));

  ForecastJob alone = job(3, 1e8, 1000, 1000);
  alone.policy.policy = wire::Policy::kValidator;
  const auto trusted = forecast({}, hosts(2, host(1e9)), kFree, alone);
  ASSERT_FALSE(trusted);
  EXPECT_EQ(trusted.error().code, Code::kUnavailable);
}

TEST(Forecast, RatesAreNumbersAboveNothing) {
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(forecast({}, hosts(1, host(bad)), kFree, job(1, 1, 1, 1)).error().code,
              Code::kInvalidArgument);
    EXPECT_EQ(forecast({}, hosts(1, host(1)), {bad, 1}, job(1, 1, 1, 1)).error().code,
              Code::kInvalidArgument);
    EXPECT_EQ(forecast({}, hosts(1, host(1, {1, bad})), kFree, job(1, 1, 1, 1)).error().code,
              Code::kInvalidArgument);
  }
  EXPECT_EQ(forecast({}, {}, kFree, job(1, 1, 1, 1)).error().code, Code::kInvalidArgument);
  EXPECT_EQ(forecast({}, hosts(1, host(1)), kFree, {}).error().code, Code::kInvalidArgument);
}

TEST(Forecast, ManyTasksOnManyHostsAreQuick) {
  const auto told = forecast({}, hosts(200, host(1e9, {1e7, 1e7}, 0.02)), {1e9, 1e9},
                             job(4000, 1e9, 100'000, 100'000, 20));
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_THAT(told->seconds, DoubleNear(20, 4));
}

}  // namespace
}  // namespace goblin::scheduler
