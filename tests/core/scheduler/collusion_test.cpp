// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Hosts that agree on a lie: how often do they own a quorum? Each trial is a network of its own
// with fresh random numbers, and the counts are held against the formula of docs/security.md. A
// right scheduler fails a run with probability 1e-6 at most.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>
#include <random>

#include "tests/core/scheduler/driver.hpp"
#include "tests/testing/binomial.hpp"
#include "tests/testing/seed.hpp"

namespace goblin::scheduler {
namespace {

constexpr int kTrials = 3000;
constexpr double kFalseAlarm = 1e-6 / 8;
constexpr std::uint64_t kLie = 666;
constexpr std::uint64_t kRight = 1;

std::mt19937_64& random_numbers() {
  static std::mt19937_64 random = [] {
    std::printf("GOBLIN_TEST_SEED=%llu\n", static_cast<unsigned long long>(test::drawn_seed()));
    return std::mt19937_64(test::drawn_seed());
  }();
  return random;
}

/// A network of which some lie: who, by number, and in which order they come.
struct Network {
  std::vector<HostId> order;
  std::vector<HostId> liars;
};
using Make = std::function<Network(HostId hosts, HostId colluders)>;

std::vector<HostId> shuffled(HostId hosts) {
  std::vector<HostId> ids(hosts);
  std::iota(ids.begin(), ids.end(), HostId{1});
  std::shuffle(ids.begin(), ids.end(), random_numbers());
  return ids;
}
/// Anybody lies, in any order.
Network any(HostId hosts, HostId colluders) {
  const std::vector<HostId> who = shuffled(hosts);
  return {shuffled(hosts), {who.begin(), who.begin() + colluders}};
}
/// Liars that the lab node has known first, and that are there before everybody else.
Network first(HostId hosts, HostId colluders) {
  Network network;
  for (HostId id = 1; id <= hosts; ++id) {
    network.order.push_back(id);
    if (id <= colluders) network.liars.push_back(id);
  }
  return network;
}
/// Those that come last.
Network last(HostId hosts, HostId colluders) {
  Network network = first(hosts, colluders);
  std::reverse(network.order.begin(), network.order.end());
  for (HostId& id : network.liars) id = hosts + 1 - id;
  std::reverse(network.order.begin(), network.order.end());
  return network;
}

/// One task under `replicate`. Did the lie win?
bool lie_wins(HostId hosts, HostId colluders, std::uint32_t replicas, const Make& make) {
  Config config;
  config.seed = random_numbers()();
  Driver d(config);
  const Network network = make(hosts, colluders);
  const auto lies = [&](HostId host) {
    return std::find(network.liars.begin(), network.liars.end(), host) != network.liars.end();
  };
  d.job(1, wire::Policy::kReplicate, replicas);
  for (const HostId host : network.order) d.host(host);
  d.ready(1, 0).plan_done(1);
  for (int step = 0; step < 200; ++step) {
    for (const SendLease& lease : d.take<SendLease>()) {
      d.say(lease.host, lease.lease, lies(lease.host) ? kLie : kRight);
    }
    for (const FetchResult& fetch : d.take<FetchResult>()) d.s->fetched(fetch.lease, d.now);
    for (const AcceptResult& accept : d.take<AcceptResult>()) return accept.digest == named(kLie);
    d.wait(kSecond);
  }
  ADD_FAILURE() << "the task was never decided";
  return false;
}

constexpr HostId kHosts = 12;
constexpr HostId kColluders = 3;

/// Of three hosts that are asked one after another, two lie: a third decides where two disagree.
/// `first_lies`: the probability that the first one does.
double two_of_three(double first_lies) {
  constexpr double kNext = (kColluders - 1.0) / (kHosts - 1.0);   // after a liar
  constexpr double kThird = (kColluders - 1.0) / (kHosts - 2.0);  // after one of each
  constexpr double kAfterHonest = kColluders / (kHosts - 1.0);
  return first_lies * (kNext + (1 - kNext) * kThird) + (1 - first_lies) * kAfterHonest * kThird;
}

void hold(const char* name, const Make& make, double stated) {
  int wins = 0;
  for (int i = 0; i < kTrials; ++i) wins += lie_wins(kHosts, kColluders, 2, make) ? 1 : 0;
  std::printf("%s: %u of %u collude, the lie wins %d of %d tasks, stated %.4f\n", name, kColluders,
              kHosts, wins, kTrials, stated);
  EXPECT_GE(test::at_least(wins, kTrials, stated), kFalseAlarm);
}

TEST(Collusion, OwnsAQuorumOfTwoNoOftenerThanByChance) {
  hold("anybody", any, two_of_three(double{kColluders} / kHosts));
}

// Who begins a task is whoever is idle; all others are drawn.
TEST(Collusion, BeingThereFirstGivesTheFirstPlaceOnly) { hold("first", first, two_of_three(1)); }
TEST(Collusion, BeingThereLastGivesNothing) {
  hold("last", last, two_of_three(double{kColluders} / kHosts));
}

TEST(Collusion, TwoAreNoQuorumOfThree) {
  for (const Make& make : {Make(any), Make(first), Make(last)}) {
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(lie_wins(kHosts, 2, 3, make));
  }
}

}  // namespace
}  // namespace goblin::scheduler
