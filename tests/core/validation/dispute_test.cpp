// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Results of one task that differ: nobody is believed at his word, no trusted host either.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/validation/validation.hpp"

namespace goblin::validation {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using wire::Policy;

wire::Digest digest(std::uint8_t name) {
  wire::Digest d;
  d.bytes[0] = name;
  return d;
}
const wire::Digest kRight = digest(1), kWrong = digest(2);
const PolicySpec kValidator{Policy::kValidator, 2};
const PolicySpec kReplicate{Policy::kReplicate, 2};

/// Host n works under lease 100 + n, in a group of its own unless said otherwise.
struct Judged : TaskValidation {
  using TaskValidation::TaskValidation;
  Decision commit(HostId host, const wire::Digest& d, bool trusted = false,
                  std::uint64_t group = 0) {
    committed(100 + host, host, group == 0 ? host : group, trusted, d);
    return decide();
  }
  Decision arrive(HostId host) {
    fetched(100 + host);
    return decide();
  }
  Decision check(HostId host, Verdict verdict) {
    checked(100 + host, verdict);
    return decide();
  }
  Decision left(bool validator, bool host) {
    set_left_to_ask(validator, host);
    return decide();
  }
};
/// Of a kind whose check cannot tell.
struct Blind : Judged {
  explicit Blind(const PolicySpec& policy) : Judged(policy, true, true) {}
};

std::vector<std::pair<HostId, RefusalReason>> refused(const Decision& decision) {
  std::vector<std::pair<HostId, RefusalReason>> list;
  for (const Refusal& r : decision.refuse) list.emplace_back(r.host, r.reason);
  return list;
}

// ---- the check

TEST(Dispute, TheCheckFindsTheLyingValidator) {
  Judged v(kValidator, true);
  v.commit(1, kRight);
  v.arrive(1);
  Decision d = v.commit(9, kWrong, true);
  EXPECT_TRUE(v.disputed());
  EXPECT_THAT(d.refuse, IsEmpty());
  EXPECT_FALSE(d.accept);
  EXPECT_EQ(d.check, 101u);
  EXPECT_EQ(d.fetch, 109u) << "the check looks at its bytes, too";
  EXPECT_FALSE(v.check(1, Verdict::kAccept).accept) << "the other may pass as well";
  EXPECT_EQ(v.arrive(9).check, 109u);
  d = v.check(9, Verdict::kReject);
  EXPECT_THAT(refused(d), ElementsAre(std::pair(9u, RefusalReason::kCheckFailed)));
  EXPECT_FALSE(d.accept);
  EXPECT_TRUE(d.want_validator) << "the policy asks for one that agrees";
  EXPECT_EQ(v.commit(8, kRight, true).accept, 101u);
}

TEST(Dispute, TheCheckFindsTheLyingHost) {
  Judged v(kValidator, true);
  v.commit(1, kWrong);
  v.arrive(1);
  v.commit(9, kRight, true);
  EXPECT_EQ(v.arrive(9).check, 109u) << "which may be wrong, too";
  const Decision d = v.check(1, Verdict::kReject);
  EXPECT_THAT(refused(d), ElementsAre(std::pair(1u, RefusalReason::kCheckFailed)));
  EXPECT_FALSE(d.accept);
  EXPECT_EQ(v.check(9, Verdict::kAccept).accept, 109u);
}

TEST(Dispute, OfReplicasTheCheckRefusesTheWrongOnesAndAQuorumIsStillDue) {
  Judged v(kReplicate, false);
  v.commit(1, kWrong);
  v.arrive(1);
  Decision d = v.commit(2, kRight);
  EXPECT_EQ(d.check, 101u);
  EXPECT_EQ(d.want_results, 0u) << "the check may tell";
  d = v.check(1, Verdict::kReject);
  EXPECT_EQ(d.want_results, 1u);
  v.arrive(2);
  EXPECT_EQ(v.commit(3, kRight).accept, 102u);
}

TEST(Dispute, WhatPassesTheCheckBesideAnotherIsDecidedByVotes) {
  Judged v(kReplicate, false);
  v.commit(1, kWrong);
  v.arrive(1);
  v.commit(2, kRight);
  v.arrive(2);
  v.check(1, Verdict::kAccept);
  EXPECT_EQ(v.decide().check, std::nullopt);
  const Decision d = v.check(2, Verdict::kAccept);
  EXPECT_FALSE(d.accept);
  EXPECT_EQ(d.want_results, 1u);
}

TEST(Dispute, BytesThatNeverComeDoNotHoldUpTheVotes) {
  Judged v(kReplicate, false);
  v.commit(1, kWrong);
  v.fetch_failed(101, false);
  v.commit(2, kRight);
  v.arrive(2);
  EXPECT_EQ(v.check(2, Verdict::kAccept).want_results, 1u);
}

// ---- one word

TEST(LoneValidator, IsLookedAtByTheCheck) {
  Judged v(kValidator, true);
  Decision d = v.commit(9, kRight, true);
  EXPECT_EQ(d.fetch, 109u);
  EXPECT_FALSE(d.accept);
  d = v.arrive(9);
  EXPECT_EQ(d.check, 109u);
  EXPECT_EQ(v.check(9, Verdict::kAccept).accept, 109u);
  Judged w(kValidator, true);
  w.commit(9, kWrong, true);
  w.arrive(9);
  d = w.check(9, Verdict::kReject);
  EXPECT_THAT(refused(d), ElementsAre(std::pair(9u, RefusalReason::kCheckFailed)));
  EXPECT_EQ(d.want_results, 1u);
}

TEST(LoneValidator, WithoutACheckSomebodyElseMustAgree) {
  Blind v(kValidator);
  v.commit(9, kRight, true);
  EXPECT_FALSE(v.arrive(9).accept);
  EXPECT_TRUE(v.left(true, true).want_validator);
  EXPECT_FALSE(v.may_ask(8, 9, true)) << "a validator of the same group";
  EXPECT_FALSE(v.may_ask(1, 9, false)) << "a host of the same group";
  EXPECT_EQ(v.left(false, true).want_results, 1u);
  EXPECT_EQ(v.commit(1, kRight).accept, 109u);
}

TEST(LoneValidator, IsAllThereIsWhereNobodyElseIs) {
  Blind v(kValidator);
  v.commit(9, kRight, true);
  v.arrive(9);
  EXPECT_EQ(v.left(false, false).accept, 109u);
}

// ---- one word against another

TEST(Dispute, OneValidatorsWordRefusesNobody) {
  Blind v(kValidator);
  v.commit(1, kRight);
  v.arrive(1);
  Decision d = v.commit(9, kWrong, true);
  EXPECT_THAT(d.refuse, IsEmpty());
  EXPECT_FALSE(d.accept);
  d = v.left(true, true);
  EXPECT_TRUE(d.want_validator);
  EXPECT_EQ(d.want_results, 0u);
  EXPECT_FALSE(v.may_ask(8, 9, true)) << "a validator of the same group";
  EXPECT_TRUE(v.may_ask(8, 8, true));
  EXPECT_EQ(v.left(false, true).want_results, 1u) << "there is no second one";
}

TEST(Dispute, ASecondValidatorAndAHostOutvoteTheFirst) {
  Blind v(kValidator);
  v.commit(1, kRight);
  v.arrive(1);
  v.commit(9, kWrong, true);
  EXPECT_THAT(v.commit(8, kRight, true).refuse, IsEmpty()) << "4 to 3";
  EXPECT_THAT(v.commit(2, kRight).refuse, IsEmpty()) << "5 to 3";
  const Decision d = v.commit(3, kRight);
  EXPECT_THAT(refused(d), ElementsAre(std::pair(9u, RefusalReason::kValidatorDiffers)));
  EXPECT_EQ(d.accept, 101u);
}

TEST(Dispute, AHostThatAgreesWithTheValidatorSettlesIt) {
  Blind v(kValidator);
  v.commit(1, kWrong);
  v.commit(9, kRight, true);
  v.arrive(9);
  const Decision d = v.commit(2, kRight);
  EXPECT_THAT(refused(d), ElementsAre(std::pair(1u, RefusalReason::kValidatorDiffers)));
  EXPECT_EQ(d.accept, 109u);
}

TEST(Dispute, SixHostsOutvoteAValidatorAndAnotherOneIsAsked) {
  Blind v(kValidator);
  v.commit(1, kRight);
  v.arrive(1);
  v.commit(9, kWrong, true);
  for (HostId host = 2; host < 6; ++host) EXPECT_THAT(v.commit(host, kRight).refuse, IsEmpty());
  const Decision d = v.commit(6, kRight);
  EXPECT_THAT(refused(d), ElementsAre(std::pair(9u, RefusalReason::kQuorumDiffers)));
  EXPECT_FALSE(d.accept);
  EXPECT_TRUE(d.want_validator);
}

TEST(Dispute, WhenNobodyIsLeftTheValidatorsStandsAndNobodyIsBlamed) {
  Blind v(kValidator);
  v.commit(1, kRight);
  v.commit(9, kWrong, true);
  v.arrive(9);
  const Decision d = v.left(false, false);
  EXPECT_THAT(refused(d), ElementsAre(std::pair(1u, RefusalReason::kUnsettled)));
  EXPECT_EQ(d.accept, 109u);
}

TEST(Dispute, AValidatorThatKeepsItsBytesFromTheCheckIsNotBelieved) {
  Judged v(kValidator, true);
  v.commit(1, kRight);
  v.arrive(1);
  v.commit(9, kWrong, true);
  v.fetch_failed(109, false);
  v.check(1, Verdict::kAccept);
  const Decision d = v.left(false, false);
  EXPECT_FALSE(d.accept);
  EXPECT_THAT(d.refuse, IsEmpty());
  EXPECT_TRUE(d.want_validator);
}

TEST(Dispute, WhenValidatorsDifferAndNobodyIsLeftOneMoreIsWaitedFor) {
  Blind v(kValidator);
  v.commit(9, kWrong, true);
  v.commit(8, kRight, true);
  const Decision d = v.left(false, false);
  EXPECT_FALSE(d.accept || d.fail);
  EXPECT_THAT(d.refuse, IsEmpty());
  EXPECT_TRUE(d.want_validator);
}

// ---- replicas

TEST(Dispute, OfReplicasOneSideMustLeadByOneMoreThanTheQuorum) {
  for (const std::uint32_t k : {2u, 3u, 5u}) {
    Blind v({Policy::kReplicate, k});
    v.commit(100, kWrong);
    v.commit(1, kRight);
    v.arrive(1);
    for (HostId host = 2; host <= k + 1; ++host) {
      const Decision d = v.commit(host, kRight);
      EXPECT_THAT(d.refuse, IsEmpty()) << host << " of " << k;
      EXPECT_FALSE(d.accept);
      EXPECT_EQ(d.want_results, 1u);
    }
    const Decision d = v.commit(k + 2, kRight);
    EXPECT_THAT(refused(d), ElementsAre(std::pair(100u, RefusalReason::kQuorumDiffers)));
    EXPECT_EQ(d.accept, 101u);
  }
}

TEST(Dispute, OfReplicasAMajorityDecidesWhenAllHaveSpoken) {
  Blind v(kReplicate);
  v.commit(1, kRight);
  v.arrive(1);
  v.commit(2, kWrong);
  EXPECT_EQ(v.left(false, false).want_results, 1u) << "no quorum yet";
  const Decision d = v.commit(3, kRight);
  EXPECT_THAT(refused(d), ElementsAre(std::pair(2u, RefusalReason::kQuorumDiffers)));
  EXPECT_EQ(d.accept, 101u);
}

TEST(Dispute, EqualSidesWaitForAnotherHost) {
  Blind v(kReplicate);
  v.commit(1, kRight);
  v.commit(2, kWrong);
  v.commit(3, kRight);
  v.commit(4, kWrong);
  const Decision d = v.left(false, false);
  EXPECT_FALSE(d.accept || d.fail);
  EXPECT_THAT(d.refuse, IsEmpty());
  EXPECT_EQ(d.want_results, 1u);
}

TEST(Dispute, OfReplicasAValidatorIsAskedFirst) {
  Blind v(kReplicate);
  v.commit(1, kRight);
  v.arrive(1);
  v.commit(2, kWrong);
  EXPECT_TRUE(v.left(true, true).want_validator);
  const Decision d = v.commit(9, kRight, true);
  EXPECT_THAT(refused(d), ElementsAre(std::pair(2u, RefusalReason::kValidatorDiffers)));
  EXPECT_EQ(d.accept, 101u);
}

TEST(Dispute, AQuorumAgainstAValidatorDoesNotWin) {
  Blind v(kReplicate);
  v.commit(9, kRight, true);
  v.arrive(9);
  v.commit(1, kWrong);
  EXPECT_FALSE(v.commit(2, kWrong).accept);
  EXPECT_FALSE(v.left(false, false).accept) << "three to two, nobody left, and no quorum with it";
  v.left(false, true);
  v.commit(3, kRight);
  const Decision d = v.commit(4, kRight);
  EXPECT_THAT(refused(d), UnorderedElementsAre(std::pair(1u, RefusalReason::kValidatorDiffers),
                                               std::pair(2u, RefusalReason::kValidatorDiffers)));
  EXPECT_EQ(d.accept, 109u);
}

TEST(Dispute, HostsOfOneGroupAreOneVote) {
  Blind v(kReplicate);
  v.commit(1, kRight);
  for (HostId host = 2; host < 12; ++host)
    EXPECT_THAT(v.commit(host, kWrong, false, 77).refuse, IsEmpty());
  EXPECT_FALSE(v.may_ask(20, 77, false));
  EXPECT_TRUE(v.may_ask(20, 78, false));
}

TEST(Dispute, EndsWhenHostsNeverAgree) {
  Blind v(kReplicate);
  Decision d;
  HostId host = 1;
  while (!d.fail && host < 100) {
    d = v.commit(host, host % 2 == 0 ? kRight : kWrong);
    ++host;
  }
  ASSERT_TRUE(d.fail);
  EXPECT_EQ(host, 19u);
  EXPECT_THAT(d.fail->message, HasSubstr("18 results were computed and none leads by 3 hosts"));
}

}  // namespace
}  // namespace goblin::validation
