// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/validation/validation.hpp"

namespace goblin::validation {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

wire::Digest digest(std::uint8_t name) {
  wire::Digest d;
  d.bytes[0] = name;
  return d;
}
const wire::Digest kRight = digest(1), kWrong = digest(2);
constexpr std::uint64_t kLong = 1000;  ///< passed so often, one host suffices

/// Host n works under lease 100 + n, in a group of its own.
struct Judged : TaskValidation {
  Judged() : TaskValidation({wire::Policy::kAdaptive, 2}, true) {}
  Decision commit(HostId host, const wire::Digest& d, std::uint64_t passed, bool trusted = false) {
    committed(100 + host, host, host, trusted, d, passed);
    return decide();
  }
  Decision arrive(HostId host) {
    fetched(100 + host);
    return decide();
  }
};

TEST(Adaptive, ABelievedHostsResultIsHeldAndAcceptedWhenItsBatchHasPassed) {
  Judged v;
  EXPECT_EQ(v.decide().want_results, 1u);
  Decision d = v.commit(1, kRight, kLong);
  EXPECT_EQ(d.fetch, 101u);
  EXPECT_FALSE(d.hold);
  EXPECT_FALSE(v.held());
  d = v.arrive(1);
  EXPECT_EQ(d.hold, 101u);
  EXPECT_FALSE(d.accept);
  EXPECT_EQ(d.want_results, 0u);
  EXPECT_FALSE(d.want_validator);
  EXPECT_FALSE(v.decide().hold) << "said once";
  EXPECT_THAT(v.voters(), ElementsAre(1u));
  v.release();
  EXPECT_EQ(v.decide().accept, 101u);
  EXPECT_FALSE(v.held());
}

TEST(Adaptive, NothingIsReleasedThatIsNotHeld) {
  Judged v;
  v.commit(1, kRight, kLong);
  v.release();
  EXPECT_EQ(v.arrive(1).hold, 101u);
  EXPECT_FALSE(v.decide().accept);
}

TEST(Adaptive, AnAuditedResultNeedsTheTrustedHost) {
  Judged v;
  v.commit(1, kRight, kLong);
  v.arrive(1);
  v.audit();
  Decision d = v.decide();
  EXPECT_TRUE(d.want_validator);
  EXPECT_EQ(d.want_results, 0u);
  d = v.commit(9, kRight, 0, true);
  EXPECT_EQ(d.accept, 101u);
  EXPECT_THAT(d.refuse, IsEmpty());
  EXPECT_THAT(v.voters(), ElementsAre(1u, 9u));
}

TEST(Adaptive, AnAuditThatDiffersRefusesAllWhoVouched) {
  Judged v;
  v.commit(1, kWrong, 5);
  v.commit(2, kWrong, 5);
  EXPECT_EQ(v.arrive(1).hold, 101u);
  v.audit();
  EXPECT_TRUE(v.decide().want_validator);
  Decision d = v.commit(9, kRight, 0, true);
  EXPECT_THAT(d.refuse, IsEmpty()) << "the check is asked first";
  EXPECT_EQ(d.check, 101u);
  EXPECT_EQ(d.fetch, 109u);
  v.checked(101, Verdict::kReject);
  d = v.decide();
  ASSERT_EQ(d.refuse.size(), 2u);
  EXPECT_EQ(d.refuse[0].reason, RefusalReason::kCheckFailed);
  EXPECT_EQ(v.arrive(9).check, 109u) << "it is looked at as well";
  v.checked(109, Verdict::kAccept);
  EXPECT_EQ(v.decide().accept, 109u);
}

TEST(Adaptive, HostsBetweenNewAndKnownNeedEachOther) {
  Judged v;
  Decision d = v.commit(1, kRight, 5);
  EXPECT_EQ(d.want_results, 1u);
  EXPECT_FALSE(d.want_validator);
  EXPECT_FALSE(v.may_ask(1, 1, false));
  EXPECT_FALSE(v.may_ask(7, 1, false)) << "one group is one voice";
  v.arrive(1);
  d = v.commit(2, kRight, 5);
  EXPECT_EQ(d.hold, 101u);
  EXPECT_THAT(d.release, ElementsAre(102u)) << "one copy of the bytes will do";
}

TEST(Adaptive, ANewHostIsCheckedByATrustedOneAtOnce) {
  Judged v;
  Decision d = v.commit(1, kRight, 0);
  EXPECT_TRUE(d.want_validator);
  EXPECT_EQ(d.want_results, 0u);
}

TEST(Adaptive, WhereNobodyElseCouldConfirmATrustedHostMust) {
  Judged v;
  v.set_replicas_available(false);
  EXPECT_TRUE(v.commit(1, kRight, 5).want_validator);
}

TEST(Adaptive, WhereResultsDifferAndTheCheckCannotTellATrustedHostIsAsked) {
  Judged v;
  v.commit(1, kWrong, kLong);
  EXPECT_EQ(v.arrive(1).hold, 101u);
  Decision d = v.commit(2, kRight, 2);
  EXPECT_EQ(d.check, 101u);
  v.arrive(2);
  v.checked(101, Verdict::kAbstain);
  EXPECT_TRUE(v.decide().want_validator);
  d = v.commit(9, kRight, 0, true);
  ASSERT_EQ(d.refuse.size(), 1u);
  EXPECT_EQ(d.refuse[0].host, 1u);
  EXPECT_EQ(d.accept, 102u);
}

TEST(Adaptive, WhatACaughtHostVouchedForIsNoLongerHeld) {
  Judged v;
  v.commit(1, kRight, 5);
  v.commit(2, kRight, 5);
  EXPECT_EQ(v.arrive(1).hold, 101u);
  v.discard(2);
  EXPECT_FALSE(v.held());
  v.release();
  Decision d = v.decide();
  EXPECT_FALSE(d.accept);
  EXPECT_EQ(d.want_results, 1u);
  d = v.commit(3, kRight, 5);
  EXPECT_EQ(d.hold, 101u);
}

TEST(Adaptive, TheHeldBytesOfACaughtHostGoWithIt) {
  Judged v;
  v.commit(1, kRight, 5);
  v.commit(2, kRight, kLong);
  EXPECT_EQ(v.arrive(1).hold, 101u);
  v.discard(1);
  const Decision d = v.decide();
  EXPECT_FALSE(d.hold);
  EXPECT_EQ(d.want_results, 1u) << "host 2 was told to let go of its copy";
  EXPECT_TRUE(v.may_ask(2, 2, false)) << "it may compute it again";
}

}  // namespace
}  // namespace goblin::validation
