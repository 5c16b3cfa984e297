// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/validation/validation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace goblin::validation {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using wire::Policy;

wire::Digest digest(std::uint8_t name) {
  wire::Digest d;
  d.bytes[0] = name;
  return d;
}
const wire::Digest kRight = digest(1), kWrong = digest(2), kOther = digest(3);

std::vector<std::pair<LeaseId, RefusalReason>> refusals(const Decision& decision) {
  std::vector<std::pair<LeaseId, RefusalReason>> list;
  for (const Refusal& r : decision.refuse) list.emplace_back(r.lease, r.reason);
  return list;
}

/// Host n works under lease 100 + n; its group is n unless said otherwise.
struct Judged : TaskValidation {
  using TaskValidation::TaskValidation;
  Decision commit(HostId host, const wire::Digest& d, bool trusted = false) {
    return commit_in(host, host, d, trusted);
  }
  Decision commit_in(std::uint64_t group, HostId host, const wire::Digest& d,
                     bool trusted = false) {
    committed(100 + host, host, group, trusted, d);
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
};

const PolicySpec kAlgebraic{Policy::kAlgebraic, 2};
const PolicySpec kValidator{Policy::kValidator, 2};

// ---- algebraic

TEST(Algebraic, FetchesChecksAndAcceptsOnceEach) {
  Judged v(kAlgebraic, false);
  EXPECT_EQ(v.decide().want_results, 1u);
  Decision d = v.commit(1, kRight);
  EXPECT_EQ(d.fetch, 101u);
  EXPECT_FALSE(d.check || d.accept || d.want_validator);
  EXPECT_EQ(d.want_results, 0u);
  EXPECT_FALSE(v.decide().fetch);
  d = v.arrive(1);
  EXPECT_EQ(d.check, 101u);
  EXPECT_FALSE(d.accept);
  EXPECT_FALSE(v.decide().check);
  EXPECT_EQ(v.check(1, Verdict::kAccept).accept, 101u);
  EXPECT_FALSE(v.decide().accept);
  EXPECT_THAT(v.voters(), ElementsAre(1u));
}

TEST(Algebraic, NothingIsAcceptedWithoutBytesOrWithoutACheck) {
  Judged v(kAlgebraic, false);
  v.commit(1, kRight);
  EXPECT_FALSE(v.check(1, Verdict::kAccept).accept) << "no check was asked for";
  Judged w(kAlgebraic, false);
  EXPECT_FALSE(w.check(1, Verdict::kAccept).accept) << "nobody has committed";
  EXPECT_FALSE(w.arrive(1).check) << "nobody has committed";
}

TEST(Algebraic, RejectedIsRefusedAndAnotherHostAsked) {
  Judged v(kAlgebraic, false);
  v.commit(1, kWrong);
  v.arrive(1);
  const Decision d = v.check(1, Verdict::kReject);
  EXPECT_THAT(refusals(d), ElementsAre(std::pair(101u, RefusalReason::kCheckFailed)));
  EXPECT_EQ(d.want_results, 1u);
  EXPECT_FALSE(d.accept);
  EXPECT_THAT(v.decide().refuse, IsEmpty());
  EXPECT_FALSE(v.may_ask(1, 1, false));
  EXPECT_TRUE(v.may_ask(2, 1, false));
  v.commit(2, kRight);
  v.arrive(2);
  EXPECT_EQ(v.check(2, Verdict::kAccept).accept, 102u);
}

TEST(Algebraic, OtherBytesThanCommittedAreRefused) {
  Judged v(kAlgebraic, false);
  v.commit(1, kRight);
  v.fetch_failed(101, true);
  const Decision d = v.decide();
  EXPECT_THAT(refusals(d), ElementsAre(std::pair(101u, RefusalReason::kBytesDiffer)));
  EXPECT_EQ(d.want_results, 1u);
}

TEST(Algebraic, LostBytesAreNobodysFaultAndTheSameHostMayTryAgain) {
  Judged v(kAlgebraic, false);
  v.commit(1, kRight);
  EXPECT_FALSE(v.may_ask(1, 1, false));
  v.fetch_failed(101, false);
  const Decision d = v.decide();
  EXPECT_THAT(d.refuse, IsEmpty());
  EXPECT_EQ(d.want_results, 1u);
  EXPECT_TRUE(v.may_ask(1, 1, false));
  EXPECT_EQ(v.results(), 0u);
}

TEST(Algebraic, ASecondEqualResultWaitsAndServesWhenTheFirstIsLost) {
  Judged v(kAlgebraic, false);
  v.commit(1, kRight);
  EXPECT_FALSE(v.commit(2, kRight).fetch);
  v.fetch_failed(101, false);
  EXPECT_EQ(v.decide().fetch, 102u);
}

TEST(Algebraic, TwoDifferentResultsAreBothCheckedBeforeOneIsUsed) {
  Judged v(kAlgebraic, false);
  v.commit(1, kWrong);
  EXPECT_EQ(v.commit(2, kRight).fetch, 102u) << "another digest: other bytes to look at";
  v.arrive(1);
  Decision d = v.check(1, Verdict::kAccept);
  EXPECT_FALSE(d.accept) << "a disagreement is proof that one is wrong";
  EXPECT_EQ(v.arrive(2).check, 102u);
  d = v.check(2, Verdict::kAccept);
  EXPECT_FALSE(d.accept) << "both pass: digests decide";
  EXPECT_EQ(d.want_results, 1u);
  for (HostId more = 3; more < 5; ++more) {
    d = v.commit(more, kRight);
    EXPECT_FALSE(d.accept) << "a majority of one or two settles nothing";
    EXPECT_THAT(d.refuse, IsEmpty());
  }
  d = v.commit(5, kRight);
  EXPECT_EQ(d.accept, 102u);
  EXPECT_THAT(refusals(d), ElementsAre(std::pair(101u, RefusalReason::kQuorumDiffers)));
  EXPECT_THAT(v.voters(), ElementsAre(2u, 3u, 4u, 5u));
}

TEST(Algebraic, OfTwoDifferentResultsTheOneThatFailsItsCheckGoes) {
  Judged v(kAlgebraic, false);
  v.commit(1, kRight);
  v.commit(2, kWrong);
  v.arrive(1);
  v.check(1, Verdict::kAccept);
  v.arrive(2);
  const Decision d = v.check(2, Verdict::kReject);
  EXPECT_EQ(d.accept, 101u);
  EXPECT_THAT(refusals(d), ElementsAre(std::pair(102u, RefusalReason::kCheckFailed)));
}

TEST(Algebraic, AbstentionGoesToAValidator) {
  Judged v(kAlgebraic, true);
  v.commit(1, kWrong);
  v.arrive(1);
  Decision d = v.check(1, Verdict::kAbstain);
  EXPECT_TRUE(d.want_validator);
  EXPECT_EQ(d.want_results, 0u);
  EXPECT_TRUE(v.by_digest());
  d = v.commit(9, kRight, true);
  EXPECT_THAT(d.refuse, IsEmpty()) << "one word against another";
  EXPECT_EQ(d.fetch, 109u);
  EXPECT_EQ(d.want_results, 1u);
  EXPECT_FALSE(v.arrive(9).check) << "it cannot tell";
  d = v.commit(2, kRight);
  EXPECT_THAT(refusals(d), ElementsAre(std::pair(101u, RefusalReason::kValidatorDiffers)));
  EXPECT_EQ(d.accept, 109u);
}

TEST(Algebraic, AbstentionWithoutAValidatorNeedsTwoIndependentHosts) {
  Judged v(kAlgebraic, false);
  v.commit_in(7, 1, kRight);
  v.arrive(1);
  Decision d = v.check(1, Verdict::kAbstain);
  EXPECT_FALSE(d.want_validator);
  EXPECT_EQ(d.want_results, 1u);
  EXPECT_TRUE(v.needs_independence());
  EXPECT_FALSE(v.may_ask(2, 7, false)) << "same group";
  EXPECT_TRUE(v.may_ask(2, 8, false));
  EXPECT_FALSE(v.commit_in(7, 2, kRight).accept) << "one group is one vote";
  EXPECT_EQ(v.commit_in(8, 3, kRight).accept, 101u);
}

TEST(Algebraic, ValidatorsComingAndGoingMoveTheDecision) {
  Judged v(kAlgebraic, true);
  v.commit(1, kRight);
  v.arrive(1);
  EXPECT_TRUE(v.check(1, Verdict::kAbstain).want_validator);
  v.set_validator_available(false);
  const Decision d = v.decide();
  EXPECT_FALSE(d.want_validator);
  EXPECT_EQ(d.want_results, 1u);
  v.set_validator_available(true);
  EXPECT_TRUE(v.decide().want_validator);
}

TEST(Algebraic, ARerunAfterAnAbstentionIsDecidedByDigestsFromTheStart) {
  Judged v(kAlgebraic, false, true);
  EXPECT_EQ(v.decide().want_results, 2u);
  const Decision first = v.commit(1, kRight);
  EXPECT_EQ(first.want_results, 1u);
  EXPECT_EQ(first.fetch, 101u);
  EXPECT_FALSE(v.commit(2, kRight).fetch);
  EXPECT_EQ(v.arrive(1).accept, 101u);
}

// ---- validator

TEST(Validator, AsksAHostThenATrustedOneAndAcceptsEqualDigests) {
  Judged v(kValidator, true);
  Decision d = v.decide();
  EXPECT_EQ(d.want_results, 1u);
  EXPECT_FALSE(d.want_validator);
  d = v.commit(1, kRight);
  EXPECT_EQ(d.want_results, 0u);
  EXPECT_TRUE(d.want_validator);
  EXPECT_EQ(d.fetch, 101u) << "the host need not wait for the validator";
  EXPECT_FALSE(v.commit(9, kRight, true).fetch);
  EXPECT_EQ(v.arrive(1).accept, 101u);
  EXPECT_THAT(v.voters(), ElementsAre(1u, 9u));
}

TEST(Validator, NeverSettlesForAnOrdinaryHost) {
  Judged v(kValidator, false);
  v.commit(1, kRight);
  v.commit(2, kRight);
  const Decision d = v.commit(3, kRight);
  EXPECT_FALSE(d.fetch || d.accept);
  EXPECT_TRUE(d.want_validator);
}

TEST(Validator, LostBytesAreComputedAgainByWhoeverAgrees) {
  Judged v(kValidator, true);
  v.commit(1, kRight);
  v.commit(9, kRight, true);
  v.fetch_failed(101, false);
  EXPECT_EQ(v.decide().fetch, 109u);
  v.fetch_failed(109, false);
  EXPECT_EQ(v.decide().want_results, 1u);
  EXPECT_TRUE(v.may_ask(1, 1, false));
  v.committed(200, 1, 1, false, kRight);
  EXPECT_EQ(v.decide().fetch, 200u);
}

TEST(Validator, ChangingACommitmentIsRefused) {
  Judged v(kValidator, true);
  v.commit(1, kRight);
  v.commit(9, kRight, true);
  v.fetch_failed(101, false);
  v.decide();
  v.fetch_failed(109, false);
  v.decide();
  v.committed(200, 1, 1, false, kWrong);
  EXPECT_THAT(refusals(v.decide()),
              ElementsAre(std::pair(200u, RefusalReason::kCommitmentChanged)));
}

// ---- replicate

class ReplicateQuorum : public testing::TestWithParam<std::uint32_t> {};

TEST_P(ReplicateQuorum, NeedsThatManyEqualDigestsOfDifferentGroups) {
  const std::uint32_t k = GetParam();
  Judged v({Policy::kReplicate, k}, true);
  EXPECT_EQ(v.decide().want_results, k);
  for (HostId host = 1; host < k; ++host) {
    const Decision d = v.commit(host, kRight);
    EXPECT_EQ(d.fetch.has_value(), host == 1) << "one copy is enough";
    EXPECT_FALSE(d.accept);
    EXPECT_EQ(d.want_results, k - host);
  }
  EXPECT_FALSE(v.commit(k, kRight).fetch);
  EXPECT_EQ(v.arrive(1).accept, 101u);
  EXPECT_EQ(v.voters().size(), k);
}

TEST_P(ReplicateQuorum, FailsAfterTooManyDifferentResults) {
  const std::uint32_t k = GetParam();
  Judged v({Policy::kReplicate, k}, false, true);
  for (HostId host = 1; host < 2 * k + 3; ++host)
    EXPECT_FALSE(v.commit(host, digest(std::uint8_t(10 + host))).fail) << host;
  const Decision d = v.commit(2 * k + 3, digest(200));
  ASSERT_TRUE(d.fail);
  EXPECT_THAT(d.fail->message, testing::HasSubstr(std::to_string(2 * k + 3) + " results"));
}

INSTANTIATE_TEST_SUITE_P(Quorums, ReplicateQuorum, testing::Values(2, 3, 5, 16));

TEST(Replicate, SybilsOfOneGroupAreOneVote) {
  Judged v({Policy::kReplicate, 2}, false);
  for (HostId host = 1; host <= 4; ++host)
    EXPECT_EQ(v.commit_in(5, host, kWrong).fetch.has_value(), host == 1);
  EXPECT_FALSE(v.arrive(1).accept) << "its bytes are here, its votes are one";
  EXPECT_FALSE(v.may_ask(6, 5, false));
  EXPECT_EQ(v.commit(10, kRight).fetch, 110u);
  v.arrive(10);
  v.check(1, Verdict::kAbstain);
  v.commit(11, kRight);
  v.commit(12, kRight);
  const Decision d = v.commit(13, kRight);
  EXPECT_EQ(d.refuse.size(), 4u);
  EXPECT_EQ(d.accept, 110u);
}

TEST(Replicate, DiscardedHostsLoseTheirVote) {
  Judged v({Policy::kReplicate, 2}, false);
  v.commit(1, kRight);
  v.commit(2, kRight);
  v.discard(1);
  Decision d = v.arrive(1);
  EXPECT_FALSE(d.accept) << "its bytes came after it was caught";
  EXPECT_EQ(d.want_results, 1u);
  EXPECT_EQ(d.fetch, 102u);
  EXPECT_FALSE(v.commit(3, kRight).accept);
  EXPECT_EQ(v.arrive(2).accept, 102u);
}

TEST(Replicate, LostBytesKeepTheirVote) {
  Judged v({Policy::kReplicate, 2}, false);
  v.commit(1, kRight);
  v.fetch_failed(101, false);
  EXPECT_EQ(v.decide().want_results, 1u);
  EXPECT_FALSE(v.may_ask(1, 1, false)) << "its vote stands";
  EXPECT_EQ(v.commit(2, kRight).fetch, 102u);
}

TEST(Replicate, LyingAboutBytesLosesTheVote) {
  Judged v({Policy::kReplicate, 2}, false);
  EXPECT_EQ(v.commit(1, kRight).fetch, 101u);
  EXPECT_FALSE(v.commit(2, kRight).fetch);
  v.fetch_failed(101, true);
  const Decision d = v.decide();
  EXPECT_THAT(refusals(d), ElementsAre(std::pair(101u, RefusalReason::kBytesDiffer)));
  EXPECT_EQ(d.want_results, 1u);
  EXPECT_EQ(d.fetch, 102u);
}

TEST(Replicate, EqualResultsAreReleasedOnceOneIsHere) {
  Judged v({Policy::kReplicate, 3}, false);
  v.commit(1, kRight);
  EXPECT_THAT(v.commit(2, kRight).release, IsEmpty()) << "the first may not arrive";
  EXPECT_THAT(v.arrive(1).release, ElementsAre(102u));
  EXPECT_THAT(v.decide().release, IsEmpty()) << "said once";
  const Decision other = v.commit(3, kWrong);
  EXPECT_EQ(other.fetch, 103u) << "it may win";
  EXPECT_THAT(other.release, IsEmpty());
  v.arrive(3);
  v.check(1, Verdict::kAccept);
  v.check(3, Verdict::kReject);
  EXPECT_EQ(v.commit(4, kRight).accept, 101u) << "released votes count";
}

TEST(Replicate, ReleasedVotesStandWhenTheCopyGoes) {
  Judged v({Policy::kReplicate, 2}, false);
  v.commit(1, kRight);
  v.arrive(1);
  v.discard(1);
  EXPECT_EQ(v.commit(2, kRight).fetch, 102u) << "the copy went with its host";
  v.arrive(2);
  Judged w({Policy::kReplicate, 3}, false);
  w.commit(1, kRight);
  w.arrive(1);
  EXPECT_THAT(w.commit(2, kRight).release, ElementsAre(102u));
  w.discard(1);
  EXPECT_EQ(w.commit(3, kRight).fetch, 103u);
  EXPECT_FALSE(w.arrive(3).accept) << "two votes of three";
  EXPECT_EQ(w.commit(4, kRight).accept, 103u);
}

TEST(LateFetch, AnotherResultIsFetchedAndDecides) {
  for (const wire::Digest& second : {kRight, kOther}) {
    Judged v(kAlgebraic, false);
    EXPECT_EQ(v.commit(1, kRight).fetch, 101u);
    v.fetch_late(101);
    const Decision late = v.decide();
    EXPECT_EQ(late.want_results, 0u) << "it may still come";
    EXPECT_TRUE(v.may_ask(2, 2, false));
    EXPECT_EQ(v.commit(2, second).fetch, 102u);
    EXPECT_EQ(v.arrive(2).check, 102u);
    EXPECT_EQ(v.check(2, Verdict::kAccept).accept, 102u);
    EXPECT_THAT(v.voters(), ElementsAre(2));
  }
}

TEST(LateFetch, TheLateOneIsCheckedWhenItComesFirst) {
  Judged v(kAlgebraic, false);
  v.commit(1, kRight);
  v.fetch_late(101);
  EXPECT_EQ(v.commit(2, kRight).fetch, 102u);
  EXPECT_EQ(v.arrive(1).check, 101u);
  EXPECT_FALSE(v.arrive(2).check) << "one check speaks for both";
  EXPECT_EQ(v.check(1, Verdict::kAccept).accept, 101u);
}

TEST(LateFetch, AnotherVoterOfTheQuorumIsAsked) {
  Judged v({Policy::kReplicate, 2}, false);
  EXPECT_EQ(v.commit(1, kRight).fetch, 101u);
  EXPECT_FALSE(v.commit(2, kRight).fetch);
  v.fetch_late(101);
  EXPECT_EQ(v.decide().fetch, 102u);
  v.fetch_late(102);
  const Decision both = v.decide();
  EXPECT_FALSE(both.fetch);
  EXPECT_EQ(both.want_results, 0u);
  v.fetch_failed(102, false);
  EXPECT_EQ(v.decide().want_results, 0u) << "host 1 may still send";
  v.fetch_failed(101, false);
  EXPECT_EQ(v.decide().want_results, 1u);
}

TEST(LateFetch, OnlyAFetchThatWasAskedForIsLate) {
  Judged v(kAlgebraic, false);
  v.fetch_late(101);
  v.commit(1, kRight);
  v.arrive(1);
  v.fetch_late(101);
  EXPECT_EQ(v.check(1, Verdict::kAccept).accept, 101u);
}

TEST(AnyPolicy, UnknownRepeatedAndLateMessagesChangeNothing) {
  for (const Policy policy : {Policy::kAlgebraic, Policy::kValidator, Policy::kReplicate}) {
    Judged v({policy, 2}, true);
    v.fetched(5);
    v.checked(5, Verdict::kAccept);
    v.fetch_failed(5, true);
    v.discard(5);
    Decision d = v.decide();
    EXPECT_FALSE(d.fetch || d.check || d.accept || d.fail);
    EXPECT_THAT(d.refuse, IsEmpty());
    v.commit(1, kRight);
    EXPECT_THAT(v.commit(1, kOther).refuse, IsEmpty()) << "a repeated commitment is ignored";
    EXPECT_EQ(v.results(), 1u);
    v.commit(9, kRight, true);
    v.arrive(1);
    v.check(1, Verdict::kAccept);
    EXPECT_FALSE(v.voters().empty());
    v.checked(101, Verdict::kReject);
    v.fetch_failed(101, true);
    v.discard(1);
    v.commit(4, kWrong);
    d = v.decide();
    EXPECT_FALSE(d.fetch || d.check || d.accept || d.fail);
    EXPECT_THAT(d.refuse, IsEmpty()) << "the decision stands";
  }
}

// ---- what people are told

TEST(Differing, NamesOneHostForEachDigest) {
  Judged v({Policy::kReplicate, 3}, false);
  EXPECT_THAT(v.differing(), IsEmpty());
  v.commit(1, kRight);
  v.commit(2, kRight);
  EXPECT_THAT(v.differing(), IsEmpty()) << "they agree";
  v.commit(3, kWrong);
  EXPECT_THAT(v.differing(), ElementsAre(1u, 3u));
  v.arrive(1);
  v.arrive(3);
  v.check(1, Verdict::kAccept);
  v.check(3, Verdict::kReject);
  EXPECT_THAT(v.differing(), IsEmpty());
}

}  // namespace
}  // namespace goblin::validation
