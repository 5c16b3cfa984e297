// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/scheduler/matchmaker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace goblin::scheduler {
namespace {

using Pin = Matchmaker::Pin;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
constexpr Matchmaker::Micros kSecond = 1'000'000;

Pin pin(std::uint8_t kind, std::size_t number) {
  Pin out;
  out.bytes[0] = kind;
  out.bytes[1] = static_cast<std::uint8_t>(number >> 8);
  out.bytes[2] = static_cast<std::uint8_t>(number);
  return out;
}
Pin host(std::size_t number) { return pin('h', number); }
Pin lab(std::size_t number) { return pin('l', number); }

Matchmaker one_lab_per_host() { return Matchmaker({.labs_per_host = 1}); }

TEST(Matchmaker, FillsUpToWhatIsWanted) {
  Matchmaker matchmaker({});
  for (std::size_t i = 0; i < 10; ++i) {
    matchmaker.host_seen(host(i), true, 0);
  }
  EXPECT_THAT(matchmaker.update(0), IsEmpty());
  matchmaker.lab_seen(lab(0), 4, 0);
  matchmaker.lab_seen(lab(1), 100, 0);
  matchmaker.lab_seen(lab(2), 0, 0);
  const auto changed = matchmaker.update(0);
  EXPECT_TRUE(changed.contains(lab(0)) && changed.contains(lab(1)));
  EXPECT_FALSE(changed.contains(lab(2)));
  EXPECT_EQ(matchmaker.hosts_of(lab(0)).size(), 4u);
  EXPECT_EQ(matchmaker.hosts_of(lab(1)).size(), 10u);
  EXPECT_THAT(matchmaker.hosts_of(lab(2)), IsEmpty());
  EXPECT_THAT(matchmaker.hosts_of(lab(77)), IsEmpty());
  EXPECT_THAT(matchmaker.labs_of(host(77)), IsEmpty());
}

TEST(Matchmaker, AHostServesNoMoreThanItsLimit) {
  Matchmaker matchmaker({.labs_per_host = 2});
  matchmaker.host_seen(host(0), true, 0);
  for (std::size_t i = 0; i < 5; ++i) {
    matchmaker.lab_seen(lab(i), 1, 0);
  }
  matchmaker.update(0);
  EXPECT_EQ(matchmaker.labs_of(host(0)).size(), 2u);
}

TEST(Matchmaker, NothingChangesWithoutAReason) {
  Matchmaker matchmaker = one_lab_per_host();
  for (std::size_t i = 0; i < 20; ++i) {
    matchmaker.host_seen(host(i), true, 0);
  }
  matchmaker.lab_seen(lab(0), 10, 0);
  matchmaker.lab_seen(lab(1), 10, 0);
  matchmaker.update(0);
  const auto before = matchmaker.hosts_of(lab(0));
  for (Matchmaker::Micros now = kSecond; now < 300 * kSecond; now += kSecond) {
    for (std::size_t i = 0; i < 20; ++i) {
      matchmaker.host_seen(host(i), true, now);
    }
    matchmaker.lab_seen(lab(0), 10, now);
    matchmaker.lab_seen(lab(1), 10, now);
    EXPECT_THAT(matchmaker.update(now), IsEmpty()) << now;
  }
  EXPECT_EQ(matchmaker.hosts_of(lab(0)), before);
}

TEST(Matchmaker, TheSilentAreGoneAndTheirPlacesFilled) {
  Matchmaker matchmaker = one_lab_per_host();
  matchmaker.host_seen(host(0), true, 0);
  matchmaker.lab_seen(lab(0), 1, 0);
  matchmaker.update(0);
  EXPECT_THAT(matchmaker.hosts_of(lab(0)), UnorderedElementsAre(host(0)));
  matchmaker.host_seen(host(1), true, 30 * kSecond);
  matchmaker.lab_seen(lab(0), 1, 30 * kSecond);
  EXPECT_THAT(matchmaker.update(30 * kSecond), IsEmpty());  // silent for just as long as allowed
  EXPECT_THAT(matchmaker.update(30 * kSecond + 1), UnorderedElementsAre(host(0), host(1), lab(0)));
  EXPECT_THAT(matchmaker.hosts_of(lab(0)), UnorderedElementsAre(host(1)));
  EXPECT_THAT(matchmaker.labs_of(host(0)), IsEmpty());
  // A lab node that falls silent frees its hosts for others.
  matchmaker.host_seen(host(1), true, 70 * kSecond);
  matchmaker.lab_seen(lab(1), 1, 70 * kSecond);
  matchmaker.update(70 * kSecond);
  EXPECT_THAT(matchmaker.labs_of(host(1)), UnorderedElementsAre(lab(1)));
  EXPECT_THAT(matchmaker.hosts_of(lab(0)), IsEmpty());
}

TEST(Matchmaker, WhoLeavesIsUnlinkedAtOnce) {
  Matchmaker matchmaker({});
  matchmaker.host_seen(host(0), true, 0);
  matchmaker.host_seen(host(1), true, 0);
  matchmaker.lab_seen(lab(0), 2, 0);
  matchmaker.update(0);
  matchmaker.host_gone(host(0));
  matchmaker.host_gone(host(9));
  EXPECT_THAT(matchmaker.update(0), UnorderedElementsAre(host(0), lab(0)));
  EXPECT_THAT(matchmaker.hosts_of(lab(0)), UnorderedElementsAre(host(1)));
  matchmaker.lab_gone(lab(0));
  matchmaker.lab_gone(lab(9));
  EXPECT_THAT(matchmaker.update(0), UnorderedElementsAre(host(1), lab(0)));
  EXPECT_THAT(matchmaker.labs_of(host(1)), IsEmpty());
}

TEST(Matchmaker, APausedHostKeepsItsPlaceButGetsNoOther) {
  Matchmaker matchmaker({});
  matchmaker.host_seen(host(0), true, 0);
  matchmaker.host_seen(host(1), false, 0);
  matchmaker.lab_seen(lab(0), 5, 0);
  matchmaker.update(0);
  EXPECT_THAT(matchmaker.hosts_of(lab(0)), UnorderedElementsAre(host(0)));
  matchmaker.host_seen(host(0), false, 1);
  matchmaker.lab_seen(lab(1), 5, 1);
  EXPECT_THAT(matchmaker.update(1), IsEmpty());
  EXPECT_THAT(matchmaker.labs_of(host(0)), UnorderedElementsAre(lab(0)));
  matchmaker.host_seen(host(0), true, 2);
  matchmaker.update(2);
  EXPECT_THAT(matchmaker.labs_of(host(0)), UnorderedElementsAre(lab(0), lab(1)));
}

TEST(Matchmaker, AHostThatStaysPausedGivesItsPlaceBack) {
  Matchmaker matchmaker = one_lab_per_host();
  matchmaker.host_seen(host(0), true, 0);
  matchmaker.lab_seen(lab(0), 1, 0);
  matchmaker.update(0);
  for (Matchmaker::Micros now = kSecond; now <= 30 * kSecond; now += kSecond) {
    matchmaker.host_seen(host(0), false, now);
    matchmaker.lab_seen(lab(0), 1, now);
    EXPECT_THAT(matchmaker.update(now), IsEmpty()) << "it may resume";
  }
  matchmaker.host_seen(host(0), false, 31 * kSecond);
  matchmaker.host_seen(host(1), true, 31 * kSecond);
  matchmaker.lab_seen(lab(0), 1, 31 * kSecond);
  EXPECT_THAT(matchmaker.update(31 * kSecond), UnorderedElementsAre(host(0), host(1), lab(0)));
  EXPECT_THAT(matchmaker.hosts_of(lab(0)), UnorderedElementsAre(host(1)));
}

// ---- fewer places than lab nodes

/// How often each lab node had a host, of so many seconds.
std::vector<int> served(Matchmaker& matchmaker, std::size_t hosts, std::size_t labs,
                        std::uint32_t wanted, int seconds) {
  std::vector<int> had(labs, 0);
  for (int i = 0; i < seconds; ++i) {
    const Matchmaker::Micros now = kSecond * static_cast<Matchmaker::Micros>(i);
    for (std::size_t h = 0; h < hosts; ++h) matchmaker.host_seen(host(h), true, now);
    for (std::size_t l = 0; l < labs; ++l) matchmaker.lab_seen(lab(l), wanted, now);
    matchmaker.update(now);
    for (std::size_t l = 0; l < labs; ++l)
      had[l] += static_cast<int>(matchmaker.hosts_of(lab(l)).size());
  }
  return had;
}

TEST(Matchmaker, LabNodesTakeTurnsWherePlacesAreFew) {
  Matchmaker matchmaker({.labs_per_host = 1, .term = 60 * kSecond});
  // Two hosts, five lab nodes: each has two fifths of a host's time.
  const auto had = served(matchmaker, 2, 5, 1, 5 * 60 * 20);
  for (const int seconds : had) EXPECT_NEAR(seconds, 2 * 60 * 20, 2 * 60);
}

TEST(Matchmaker, NobodyIsMovedBeforeItsTerm) {
  Matchmaker matchmaker({.labs_per_host = 1, .term = 600 * kSecond});
  EXPECT_THAT(served(matchmaker, 1, 3, 1, 600), testing::ElementsAre(600, 0, 0));
}

TEST(Matchmaker, ThePlaceThatCannotBeSharedGoesRound) {
  Matchmaker matchmaker({.labs_per_host = 1, .term = 60 * kSecond});
  // Seven hosts, two lab nodes that want all of them: three each, and one in turns.
  const auto had = served(matchmaker, 7, 2, 7, 4000);
  EXPECT_NEAR(had[0], 14000, 60);
  EXPECT_NEAR(had[1], 14000, 60);
}

TEST(Matchmaker, GivesBackWhatIsNoLongerWanted) {
  Matchmaker matchmaker({});
  for (std::size_t i = 0; i < 8; ++i) {
    matchmaker.host_seen(host(i), true, 0);
  }
  matchmaker.lab_seen(lab(0), 8, 0);
  matchmaker.update(0);
  matchmaker.lab_seen(lab(0), 3, 0);
  EXPECT_EQ(matchmaker.update(0).size(), 6u);
  EXPECT_EQ(matchmaker.hosts_of(lab(0)).size(), 3u);
  matchmaker.lab_seen(lab(0), 0, 0);
  matchmaker.update(0);
  EXPECT_THAT(matchmaker.hosts_of(lab(0)), IsEmpty());
}

TEST(Matchmaker, ANewLabNodeGetsItsShareOneHostAtATime) {
  Matchmaker matchmaker = one_lab_per_host();
  for (std::size_t i = 0; i < 12; ++i) {
    matchmaker.host_seen(host(i), true, 0);
  }
  matchmaker.lab_seen(lab(0), 12, 0);
  matchmaker.update(0);
  matchmaker.lab_seen(lab(1), 12, 0);
  std::size_t rounds = 0;
  while (!matchmaker.update(0).empty()) {
    ASSERT_LT(++rounds, 20u);
  }
  EXPECT_EQ(matchmaker.hosts_of(lab(0)).size(), 6u);
  EXPECT_EQ(matchmaker.hosts_of(lab(1)).size(), 6u);
}

TEST(Matchmaker, SharesFollowWhatIsWanted) {
  Matchmaker matchmaker = one_lab_per_host();
  for (std::size_t i = 0; i < 30; ++i) {
    matchmaker.host_seen(host(i), true, 0);
  }
  matchmaker.lab_seen(lab(0), 40, 0);
  matchmaker.lab_seen(lab(1), 20, 0);
  while (!matchmaker.update(0).empty()) {
  }
  EXPECT_EQ(matchmaker.hosts_of(lab(0)).size(), 20u);
  EXPECT_EQ(matchmaker.hosts_of(lab(1)).size(), 10u);
}

/// Whatever happens: both sides agree, nobody exceeds a limit, nobody idles while wanted, what
/// changed is told, and with nothing new it comes to rest.
TEST(Matchmaker, AnyHistory) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto upto = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    const auto per_host = static_cast<std::uint32_t>(1 + upto(3));
    Matchmaker matchmaker({.labs_per_host = per_host});
    std::map<Pin, bool> hosts;
    std::map<Pin, std::uint32_t> labs;
    std::map<Pin, std::vector<Pin>> told;
    Matchmaker::Micros now = 0;
    for (int step = 0; step < 200; ++step) {
      now += kSecond;
      const Pin some_host = host(upto(12));
      const Pin some_lab = lab(upto(5));
      switch (upto(4)) {
        case 0:
          matchmaker.host_gone(some_host);
          hosts.erase(some_host);
          break;
        case 1:
          matchmaker.lab_gone(some_lab);
          labs.erase(some_lab);
          break;
        case 2:
          labs[some_lab] = static_cast<std::uint32_t>(upto(8));
          break;
        default:
          hosts[some_host] = upto(5) != 0;
      }
      for (const auto& [known, accepting] : hosts) matchmaker.host_seen(known, accepting, now);
      for (const auto& [known, wanted] : labs) matchmaker.lab_seen(known, wanted, now);
      std::size_t rounds = 0;
      for (auto changed = matchmaker.update(now); !changed.empty();
           changed = matchmaker.update(now)) {
        ASSERT_LT(++rounds, 100u) << "it does not come to rest";
        for (const auto& who : changed) {
          told[who] = who.bytes[0] == 'h' ? matchmaker.labs_of(who) : matchmaker.hosts_of(who);
        }
      }
      for (const auto& [known, accepting] : hosts) {
        const auto mine = matchmaker.labs_of(known);
        EXPECT_EQ(told[known], mine);
        EXPECT_LE(mine.size(), per_host);
        for (const auto& served : mine) {
          ASSERT_TRUE(labs.contains(served));
          EXPECT_THAT(matchmaker.hosts_of(served), testing::Contains(known));
        }
        for (const auto& [other, wanted] : labs) {
          const bool serves = std::find(mine.begin(), mine.end(), other) != mine.end();
          EXPECT_TRUE(!accepting || mine.size() == per_host || serves ||
                      matchmaker.hosts_of(other).size() >= wanted)
              << "a host idles though it is wanted";
        }
      }
      for (const auto& [known, wanted] : labs) {
        EXPECT_EQ(told[known], matchmaker.hosts_of(known));
        EXPECT_LE(matchmaker.hosts_of(known).size(), wanted);
      }
    }
  }
}

}  // namespace
}  // namespace goblin::scheduler
