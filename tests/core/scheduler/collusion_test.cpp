// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Hosts that agree on a lie: how often do they own a quorum? Each trial is a network of its own
// with fresh random numbers, and the counts are held against the formula of docs/validation.md. A
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

constexpr HostId kHosts = 12;
constexpr HostId kColluders = 3;

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
    for (const CheckResult& check : d.take<CheckResult>())
      d.s->checked(check.lease, Verdict::kAbstain, d.now);
    for (const AcceptResult& accept : d.take<AcceptResult>()) return accept.digest == named(kLie);
    d.wait(kSecond);
  }
  ADD_FAILURE() << "the task was never decided";
  return false;
}

/// The chance that the lie wins among hosts that are drawn one after another, of which so many are
/// left on each side: with the quorum where all agree, else with a lead of one more.
double stated(HostId liars, HostId honest, HostId lies, HostId rights, HostId replicas) {
  const bool disputed = lies > 0 && rights > 0;
  const HostId lead = disputed ? replicas + 1 : replicas;
  if (lies >= rights + lead) return 1;
  if (rights >= lies + lead) return 0;
  const double left = liars + honest;
  if (left == 0) return lies >= replicas && lies > rights ? 1 : 0;
  double sum = 0;
  if (liars > 0) sum += liars / left * stated(liars - 1, honest, lies + 1, rights, replicas);
  if (honest > 0) sum += honest / left * stated(liars, honest - 1, lies, rights + 1, replicas);
  return sum;
}

/// A job of many tasks that each take honest hosts a second, one at a time. Colluders compute
/// nothing, take all that they are given at once, wait for so long, and lie when two of them have
/// the same task: whoever does so is never in a dispute. How often does the lie win?
int lies_won_by_idle(TaskId tasks) {
  Config config;
  config.seed = random_numbers()();
  Driver d(config);
  d.job(1, wire::Policy::kReplicate, 2);
  for (HostId host = 1; host <= kHosts; ++host) {
    HostSpec spec = Driver::spec(host);
    spec.slots = host <= kColluders ? 64 : 1;
    d.host(host, spec);
  }
  struct Work {
    SendLease lease;
    Micros due;
  };
  std::vector<Work> work;
  std::map<TaskId, int> colluders;  // that have it
  TaskId planned = 0;
  TaskId accepted = 0;
  int wins = 0;
  for (int step = 0; accepted < tasks && step < 20'000; ++step) {
    for (const PlanMore& more : d.take<PlanMore>()) {
      for (std::uint32_t i = 0; i < more.max_tasks && planned < tasks; ++i) d.ready(1, planned++);
      d.plan(1, planned == tasks ? GOBLIN_PLAN_DONE : GOBLIN_PLAN_MORE);
    }
    for (const CancelLease& cancel : d.take<CancelLease>())
      std::erase_if(work, [&](const Work& w) { return w.lease.lease == cancel.lease; });
    for (const SendLease& lease : d.take<SendLease>()) {
      work.push_back({lease, d.now + kSecond});
      if (lease.host <= kColluders) ++colluders[lease.task];
    }
    std::vector<Work> ready;
    std::erase_if(work, [&](const Work& w) {
      const bool liar = w.lease.host <= kColluders;
      if (w.due > d.now && !(liar && colluders[w.lease.task] > 1)) return false;
      ready.push_back(w);
      return true;
    });
    for (const Work& w : ready) {
      const bool lie = w.lease.host <= kColluders && colluders[w.lease.task] > 1;
      d.say(w.lease.host, w.lease.lease, (lie ? kLie : kRight) * 1'000'003 + w.lease.task, kSecond);
    }
    for (const FetchResult& fetch : d.take<FetchResult>()) d.s->fetched(fetch.lease, d.now);
    for (const CheckResult& check : d.take<CheckResult>())
      d.s->checked(check.lease, Verdict::kAbstain, d.now);
    for (const AcceptResult& accept : d.take<AcceptResult>()) {
      wins += accept.digest == named(kLie * 1'000'003 + accept.task) ? 1 : 0;
      d.s->accepted(1, accept.task, d.now);
      ++accepted;
    }
    d.wait(50'000);
  }
  EXPECT_EQ(accepted, tasks);
  return wins;
}

void hold(const char* name, const Make& make, HostId colluders, std::uint32_t replicas) {
  const double share = double(colluders) / kHosts;
  const double chance = stated(colluders, kHosts - colluders, 0, 0, replicas);
  int wins = 0;
  for (int i = 0; i < kTrials; ++i) wins += lie_wins(kHosts, colluders, replicas, make) ? 1 : 0;
  std::printf("%s: %u of %u collude against %u replicas, the lie wins %d of %d, stated %.4f\n",
              name, colluders, kHosts, replicas, wins, kTrials, chance);
  EXPECT_GE(test::at_least(wins, kTrials, chance), kFalseAlarm);
  EXPECT_LE(chance, std::pow(share, replicas));
}

/// Being there first, or last, gives nothing: all places are drawn.
TEST(Collusion, OwnsAQuorumOfTwoNoOftenerThanByChance) {
  hold("anybody", any, kColluders, 2);
  hold("first", first, kColluders, 2);
  hold("last", last, kColluders, 2);
}
TEST(Collusion, OwnsAQuorumOfThreeNoOftenerThanByChance) { hold("first", first, 4, 3); }

TEST(Collusion, AnsweringAtOnceGivesNothing) {
  int wins = 0;
  constexpr int kNetworks = 40;
  constexpr TaskId kTasks = 100;
  for (int i = 0; i < kNetworks; ++i) wins += lies_won_by_idle(kTasks);
  const double chance = stated(kColluders, kHosts - kColluders, 0, 0, 2);
  std::printf("idle: the lie wins %d of %d, stated %.4f\n", wins, int(kNetworks * kTasks), chance);
  EXPECT_GE(test::at_least(wins, kNetworks * kTasks, chance), kFalseAlarm);
}

TEST(Collusion, TwoAreNoQuorumOfThree) {
  for (const Make& make : {Make(any), Make(first), Make(last)}) {
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(lie_wins(kHosts, 2, 3, make));
  }
}

}  // namespace
}  // namespace goblin::scheduler
