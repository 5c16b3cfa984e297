// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/coordinator/known_peers.hpp"

#include <gtest/gtest.h>

namespace goblin::coordinator {
namespace {

using wire::Refusal;
using wire::Role;

constexpr std::int64_t kHour = 3'600'000;

wire::Digest pin(std::uint16_t name) {
  wire::Digest digest;
  digest.bytes[0] = static_cast<std::uint8_t>(name);
  digest.bytes[1] = static_cast<std::uint8_t>(name >> 8);
  return digest;
}

store::PeerRecord record(std::uint16_t name, Role role = Role::kHost) {
  store::PeerRecord peer;
  peer.pin = pin(name);
  peer.role = role;
  return peer;
}

TEST(KnownPeers, AKnownPeerIsWrittenOnceAnHour) {
  KnownPeers known({}, 100, kHour);
  EXPECT_EQ(known.greet(pin(1), Role::kHost, "10.0.0.1", kHour), Refusal::kNone);
  const auto first = known.take_batch();
  ASSERT_EQ(first.seen.size(), 1u);
  EXPECT_EQ(first.seen[0].address, "10.0.0.1");
  EXPECT_FALSE(first.prune);
  known.greet(pin(1), Role::kHost, "10.0.0.2", 2 * kHour - 1);
  EXPECT_TRUE(known.take_batch().seen.empty());
  known.greet(pin(1), Role::kHost, "10.0.0.2", 2 * kHour);
  const auto later = known.take_batch();
  ASSERT_EQ(later.seen.size(), 1u);
  EXPECT_EQ(later.seen[0].address, "10.0.0.2");
  EXPECT_EQ(later.seen[0].first_seen_unix_ms, kHour);
}

TEST(KnownPeers, AnotherRoleAndBlockedOnesAreRefused) {
  store::PeerRecord blocked = record(2);
  blocked.blocked = true;
  KnownPeers known({record(1), blocked}, 100, kHour);
  EXPECT_EQ(known.greet(pin(1), Role::kLab, "10.0.0.1", kHour), Refusal::kWrongRole);
  EXPECT_EQ(known.greet(pin(2), Role::kHost, "10.0.0.1", kHour), Refusal::kNotAuthorised);
  EXPECT_TRUE(known.take_batch().seen.empty());
  EXPECT_EQ(known.greet(pin(1), Role::kHost, "10.0.0.1", kHour), Refusal::kNone);
}

TEST(KnownPeers, AStreamOfNewKeysForgetsTheOldestButNotWhatTheOperatorSet) {
  store::PeerRecord blocked = record(1);
  blocked.blocked = true;
  store::PeerRecord validator = record(2);
  validator.validator = true;
  KnownPeers known({blocked, validator}, 80, kHour);
  bool pruned = false;
  for (std::uint16_t i = 3; i < 1000; ++i) {
    EXPECT_EQ(known.greet(pin(i), Role::kHost, "10.0.0.1", i), Refusal::kNone);
    EXPECT_LE(known.size(), 90u);
    if (i % 100 == 0) {
      const auto batch = known.take_batch();
      EXPECT_LE(batch.seen.size(), 90u) << "who is forgotten is not written";
      pruned = pruned || batch.prune;
    }
  }
  EXPECT_TRUE(pruned);
  EXPECT_TRUE(known.is_validator(pin(2)));
  EXPECT_EQ(known.greet(pin(1), Role::kHost, "10.0.0.1", kHour), Refusal::kNotAuthorised);
  EXPECT_EQ(known.greet(pin(999), Role::kLab, "10.0.0.1", kHour), Refusal::kWrongRole)
      << "the latest is remembered";
  EXPECT_EQ(known.greet(pin(3), Role::kLab, "10.0.0.1", kHour), Refusal::kNone)
      << "the oldest is not";
}

TEST(KnownPeers, WhatAStartFindsBeyondTheCapIsForgotten) {
  std::vector<store::PeerRecord> records;
  for (std::uint16_t i = 0; i < 20; ++i) {
    records.push_back(record(i));
    records.back().last_seen_unix_ms = i;
  }
  KnownPeers known(records, 5, kHour);
  EXPECT_EQ(known.size(), 5u);
  EXPECT_TRUE(known.take_batch().prune);
}

}  // namespace
}  // namespace goblin::coordinator
