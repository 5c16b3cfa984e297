// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What hosts earn, rare faults that are forgiven, hosts that are suspended.
#include <gmock/gmock.h>

#include "tests/core/scheduler/crowd.hpp"

namespace goblin::scheduler {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

/// One task of a job, answered by host 1 with this verdict.
void one_result(Driver& d, JobId job, TaskId task, Verdict verdict) {
  d.ready(job, task).collect();
  const auto sent = d.take<SendLease>();
  ASSERT_THAT(sent, SizeIs(1));
  ASSERT_EQ(sent[0].host, 1u);
  d.say(1, sent[0].lease, 5);
  d.s->fetched(sent[0].lease, d.now);
  d.s->checked(sent[0].lease, verdict, d.now);
  d.collect();
  for (const AcceptResult& a : d.take<AcceptResult>()) d.s->accepted(job, a.task, d.now);
  d.collect();
}

void earn(Driver& d, JobId job, std::uint64_t results) {
  for (std::uint64_t i = 0; i < results; ++i) one_result(d, job, i, Verdict::kAccept);
}

TEST(Standing, EveryCheckThatPassesCounts) {
  Driver d;
  d.job(1).host(1);
  earn(d, 1, 5);
  EXPECT_EQ(d.s->host_counts(1).standing.passed, 5u);
  const auto changes = d.take<StandingChanged>();
  ASSERT_THAT(changes, Not(IsEmpty()));
  EXPECT_EQ(changes.back().standing.passed, 5u);
  EXPECT_FALSE(changes.back().fault);
}

TEST(Standing, HostsThatAgreeWithEachOtherEarnNothingByIt) {
  Crowd crowd(1);
  crowd.host(1, Crowd::honest);
  crowd.host(2, Crowd::honest);
  crowd.play(1, 50, wire::Policy::kReplicate);
  ASSERT_TRUE(crowd.finished);
  EXPECT_EQ(crowd.d->s->host_counts(1).standing.passed, 0u);
}

TEST(Standing, AValidatorsWordCounts) {
  Crowd crowd(1);
  crowd.host(1, Crowd::honest);
  crowd.host(2, Crowd::honest, true);
  crowd.play(1, 50, wire::Policy::kValidator);
  ASSERT_TRUE(crowd.finished);
  EXPECT_EQ(crowd.d->s->host_counts(1).standing.passed, 50u);
  EXPECT_EQ(crowd.d->s->host_counts(2).standing.passed, 0u) << "it is not judged";
}

TEST(Standing, ARareFaultIsRejectedWithoutABan) {
  Config config;
  config.forgive_after = 100;
  Driver d(config);
  d.job(1).host(1);
  earn(d, 1, 100);
  d.kept.clear();
  one_result(d, 1, 1000, Verdict::kReject);
  EXPECT_THAT(d.take<Quarantine>(), IsEmpty());
  const auto incidents = d.take<Incident>();
  ASSERT_THAT(incidents, SizeIs(1));
  EXPECT_TRUE(incidents[0].refused);
  EXPECT_THAT(incidents[0].what, HasSubstr("forgiven"));
  EXPECT_THAT(d.take<Recheck>(), SizeIs(100)) << "what rests on its word alone";
  const auto standing = d.s->host_counts(1).standing;
  EXPECT_EQ(standing.passed, 0u) << "it begins anew";
  EXPECT_EQ(standing.forgiven, 1u);
  EXPECT_EQ(standing.faults, 0u);
  // The next one comes too soon.
  auto sent = d.take<SendLease>();
  ASSERT_THAT(sent, IsEmpty()) << "a refused host does not get the same task again";
  one_result(d, 1, 1001, Verdict::kReject);
  EXPECT_EQ(d.one<Quarantine>().host, 1u);
  EXPECT_EQ(d.s->host_counts(1).standing.faults, 1u);
}

TEST(Standing, OtherBytesThanCommittedToAreNeverForgiven) {
  Config config;
  config.forgive_after = 10;
  Driver d(config);
  d.job(1).host(1);
  earn(d, 1, 50);
  d.ready(1, 99).collect();
  const SendLease sent = d.one<SendLease>();
  d.say(1, sent.lease, 5);
  d.s->fetch_failed(sent.lease, true, d.now);
  d.collect();
  EXPECT_EQ(d.one<Quarantine>().host, 1u);
}

TEST(Standing, WhoIsCaughtInASecondJobIsSuspendedFromAll) {
  Driver d;
  d.job(1).job(2).job(3).host(1);
  one_result(d, 1, 0, Verdict::kReject);
  EXPECT_FALSE(d.s->host_counts(1).idle_reason.find("wrong result") != std::string::npos);
  one_result(d, 2, 0, Verdict::kReject);
  const auto changes = d.take<StandingChanged>();
  ASSERT_THAT(changes, SizeIs(2));
  EXPECT_TRUE(changes[1].fault);
  EXPECT_EQ(changes[1].standing.suspended_until, d.now + Config{}.suspend_min);
  d.ready(3, 0).collect();
  EXPECT_THAT(d.take<SendLease>(), IsEmpty());
  EXPECT_THAT(d.s->host_counts(1).idle_reason, HasSubstr("2 wrong results of it"));
  EXPECT_THAT(d.s->waiting_reason(3), HasSubstr("1 suspended for wrong results"));
  EXPECT_LE(d.s->next_wakeup(), d.now + Config{}.suspend_min);
  d.wait(Config{}.suspend_min);
  EXPECT_EQ(d.one<SendLease>().host, 1u) << "its time is over";
}

TEST(Standing, LeasesOfASuspendedHostGoToOthers) {
  Driver d;
  d.job(1).job(2).job(3).host(1);
  one_result(d, 1, 0, Verdict::kReject);
  d.ready(2, 0).ready(3, 7).collect();
  const auto sent = d.take<SendLease>();
  ASSERT_THAT(sent, SizeIs(2));
  const SendLease& lie = sent[0].job == 2 ? sent[0] : sent[1];
  const SendLease& other = sent[0].job == 2 ? sent[1] : sent[0];
  d.say(1, lie.lease, 5);
  d.s->fetched(lie.lease, d.now);
  d.s->checked(lie.lease, Verdict::kReject, d.now);
  EXPECT_EQ(d.one<CancelLease>().lease, other.lease);
  d.host(2);
  std::set<JobId> jobs;
  for (const SendLease& l : d.take<SendLease>()) jobs.insert(l.job);
  EXPECT_TRUE(jobs.contains(3));
}

TEST(Standing, AMajorityAgainstAHostEndsItsPartInTheJobOnly) {
  Crowd crowd(1);
  crowd.blind = true;
  crowd.host(1, [](TaskId, std::uint64_t) { return std::uint64_t{13}; });
  for (HostId id = 2; id < 7; ++id) crowd.host(id, Crowd::honest);
  for (JobId job = 1; job <= 3; ++job) {
    crowd.play(job, 20, wire::Policy::kReplicate);
    EXPECT_TRUE(crowd.caught.contains(1));
  }
  EXPECT_EQ(crowd.d->s->host_counts(1).standing.faults, 0u)
      << "those who agree may be the ones that lie";
}

TEST(Standing, ARestartChangesNothing) {
  Driver d;
  d.job(1).host(1).host(2);
  d.s->restore_standing(1, {.passed = 77, .faults = 3, .suspended_until = d.now + 5 * kSecond},
                        d.now);
  d.s->restore_standing(2, {.passed = 12}, d.now);
  d.ready(1, 0).ready(1, 1).collect();
  for (const SendLease& l : d.take<SendLease>()) EXPECT_EQ(l.host, 2u);
  EXPECT_EQ(d.s->host_counts(1).standing.passed, 77u);
  EXPECT_EQ(d.s->host_counts(2).standing.passed, 12u);
  d.wait(5 * kSecond);
  d.ready(1, 2).ready(1, 3).ready(1, 4).collect();
  bool came = false;
  for (const SendLease& l : d.take<SendLease>()) came = came || l.host == 1;
  EXPECT_TRUE(came);
}

}  // namespace
}  // namespace goblin::scheduler
