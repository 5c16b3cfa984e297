// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/store/peer_registry.hpp"

#include "tests/core/store/support.hpp"

namespace goblin::store::test {
namespace {

TEST(PeerRegistry, RemembersWhatItSawAndWhatTheOperatorSet) {
  const TempDir directory;
  const std::string path = directory / "peers.db";
  {
    auto registry = PeerRegistry::open(path);
    GOBLIN_ASSERT_OK(registry);
    const auto first = (*registry)->seen(digest_of(1), wire::Role::kHost, "10.0.0.1", 1000);
    GOBLIN_ASSERT_OK(first);
    EXPECT_FALSE(first->validator);
    EXPECT_EQ(first->first_seen_unix_ms, 1000);
    GOBLIN_ASSERT_OK((*registry)->seen(digest_of(2), wire::Role::kLab, "10.0.0.2", 1500));
    GOBLIN_ASSERT_OK((*registry)->set_validator(digest_of(1), true));
    GOBLIN_ASSERT_OK((*registry)->set_blocked(digest_of(2), true));
  }
  auto registry = PeerRegistry::open(path);
  GOBLIN_ASSERT_OK(registry);
  const auto again = (*registry)->seen(digest_of(1), wire::Role::kHost, "10.9.9.9", 2000);
  GOBLIN_ASSERT_OK(again);
  EXPECT_TRUE(again->validator);
  EXPECT_FALSE(again->blocked);
  EXPECT_EQ(again->first_seen_unix_ms, 1000);
  EXPECT_EQ(again->last_seen_unix_ms, 2000);
  EXPECT_EQ(again->address, "10.9.9.9");
  const auto found = (*registry)->find(digest_of(2)).value();
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->blocked);
  EXPECT_EQ(found->role, wire::Role::kLab);
  EXPECT_EQ((*registry)->list()->size(), 2u);
  EXPECT_FALSE((*registry)->find(digest_of(3)).value().has_value());
}

TEST(PeerRegistry, AnotherRoleIsRefusedAndNothingChanges) {
  const TempDir directory;
  auto registry = PeerRegistry::open(directory / "peers.db");
  GOBLIN_ASSERT_OK(registry);
  GOBLIN_ASSERT_OK((*registry)->seen(digest_of(1), wire::Role::kHost, "10.0.0.1", 1));
  const auto refused = (*registry)->seen(digest_of(1), wire::Role::kLab, "10.0.0.2", 2);
  GOBLIN_EXPECT_CODE(Code::kInvalidArgument, refused);
  EXPECT_NE(refused.error().message.find("registered as host"), std::string::npos);
  EXPECT_EQ((*registry)->find(digest_of(1)).value()->address, "10.0.0.1");
  // The transaction is over: the next call works.
  GOBLIN_ASSERT_OK((*registry)->seen(digest_of(1), wire::Role::kHost, "10.0.0.3", 3));
}

TEST(PeerRegistry, PruningKeepsTheLastSeenAndWhatTheOperatorSet) {
  const TempDir directory;
  auto registry = PeerRegistry::open(directory / "peers.db");
  GOBLIN_ASSERT_OK(registry);
  for (std::uint8_t i = 1; i <= 6; ++i) {
    GOBLIN_ASSERT_OK((*registry)->seen(digest_of(i), wire::Role::kHost, "10.0.0.1", 100 - i));
  }
  GOBLIN_ASSERT_OK((*registry)->set_validator(digest_of(5), true));
  GOBLIN_ASSERT_OK((*registry)->set_blocked(digest_of(6), true));
  const auto pruned = (*registry)->prune(2);
  GOBLIN_ASSERT_OK(pruned);
  EXPECT_EQ(*pruned, 2u);
  for (const std::uint8_t kept : {1, 2, 5, 6}) {
    EXPECT_TRUE((*registry)->find(digest_of(kept)).value().has_value()) << int{kept};
  }
  EXPECT_EQ((*registry)->list()->size(), 4u);
  EXPECT_EQ((*registry)->prune(100).value(), 0u);
}

TEST(PeerRegistry, UnknownPeersCannotBeSet) {
  const TempDir directory;
  auto registry = PeerRegistry::open(directory / "peers.db");
  GOBLIN_ASSERT_OK(registry);
  const auto refused = (*registry)->set_validator(digest_of(1), true);
  GOBLIN_EXPECT_CODE(Code::kNotFound, refused);
  EXPECT_NE(refused.error().message.find(digest_of(1).hex()), std::string::npos);
  GOBLIN_EXPECT_CODE(Code::kNotFound, (*registry)->set_blocked(digest_of(1), true));
  EXPECT_TRUE((*registry)->list()->empty());
}

TEST(PeerRegistry, OneProcessOnly) {
  const TempDir directory;
  auto registry = PeerRegistry::open(directory / "peers.db");
  GOBLIN_ASSERT_OK(registry);
  GOBLIN_EXPECT_CODE(Code::kUnavailable, PeerRegistry::open(directory / "peers.db"));
}

}  // namespace
}  // namespace goblin::store::test
