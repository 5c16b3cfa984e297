// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/admission.hpp"

#include <gtest/gtest.h>

namespace goblin::lab {
namespace {

wire::Digest pin(std::uint8_t name) {
  wire::Digest digest;
  digest.bytes[0] = name;
  return digest;
}

const net::TimePoint kStart{};
constexpr net::Milliseconds kLease{60'000};

wire::HostAssignments word(std::uint8_t host, bool validator) {
  wire::HostAssignments message;
  message.hosts.push_back({pin(host), validator, static_cast<std::uint32_t>(kLease.count())});
  return message;
}

TEST(Admission, OwnListsNeedNoLease) {
  const Admission admission({pin(1)}, {pin(2)});
  EXPECT_EQ(admission.standing(pin(1), kStart), Admission::Standing{false});
  EXPECT_EQ(admission.standing(pin(2), kStart), Admission::Standing{true});
  EXPECT_EQ(admission.standing(pin(3), kStart), std::nullopt);
}

TEST(Admission, ALeaseRunsOutUnlessItIsRenewed) {
  Admission admission({}, {});
  admission.assign(word(1, false), kStart);
  EXPECT_TRUE(admission.standing(pin(1), kStart + kLease - net::Milliseconds(1)));
  EXPECT_FALSE(admission.standing(pin(1), kStart + kLease));
  admission.assign(word(1, false), kStart + kLease / 2);
  EXPECT_TRUE(admission.standing(pin(1), kStart + kLease));
  EXPECT_EQ(admission.prune(kStart + kLease), 1u);
  EXPECT_EQ(admission.prune(kStart + 2 * kLease), 0u);
}

TEST(Admission, AHostThatIsNoLongerNamedKeepsItsLease) {
  Admission admission({}, {});
  admission.assign(word(1, false), kStart);
  admission.assign({}, kStart + kLease / 2);
  EXPECT_TRUE(admission.standing(pin(1), kStart + kLease / 2));
  EXPECT_FALSE(admission.standing(pin(1), kStart + kLease));
}

TEST(Admission, TheCoordinatorNamesNoValidatorsByItself) {
  Admission admission({}, {pin(2)});
  admission.assign(word(1, true), kStart);
  admission.assign(word(2, true), kStart);
  EXPECT_EQ(admission.standing(pin(1), kStart), Admission::Standing{false});
  EXPECT_EQ(admission.standing(pin(2), kStart), Admission::Standing{true}) << "the lab's own";
}

TEST(Admission, TrustFollowsTheCoordinatorsLastWord) {
  Admission admission({pin(2)}, {}, true);
  admission.assign(word(1, true), kStart);
  admission.assign(word(2, true), kStart);
  EXPECT_EQ(admission.standing(pin(1), kStart), Admission::Standing{true});
  admission.assign(word(1, false), kStart);
  EXPECT_EQ(admission.standing(pin(1), kStart), Admission::Standing{false});
  EXPECT_EQ(admission.standing(pin(2), kStart), Admission::Standing{true});
  EXPECT_EQ(admission.standing(pin(2), kStart + kLease), Admission::Standing{false})
      << "trust ends with the lease, and our own list still lets it in";
}

std::uint64_t group(std::uint8_t key, const std::string& address) {
  net::Peer peer;
  peer.pin = pin(key);
  peer.address = address;
  return independence_group(peer);
}

TEST(IndependenceGroup, IsOfTheNetworkNotOfTheAddress) {
  EXPECT_EQ(group(1, "192.0.2.1"), group(2, "192.0.2.1"));
  EXPECT_NE(group(1, "192.0.2.1"), group(1, "192.0.2.2"));
  EXPECT_EQ(group(1, "2001:db8:1:2::1"), group(2, "2001:db8:1:2:ffff:ffff:ffff:ffff"));
  EXPECT_NE(group(1, "2001:db8:1:2::1"), group(1, "2001:db8:1:3::1"));
}

TEST(IndependenceGroup, OnThisMachineEveryKeyIsItsOwn) {
  EXPECT_NE(group(1, "127.0.0.1"), group(2, "127.0.0.1"));
  EXPECT_NE(group(1, "::1"), group(2, "::1"));
  EXPECT_EQ(group(1, "127.0.0.1"), group(1, "::1"));
}

}  // namespace
}  // namespace goblin::lab
