// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Results that do not come, judgement, quarantine, rechecks.
#include <gmock/gmock.h>

#include "tests/core/scheduler/driver.hpp"

namespace goblin::scheduler {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// ---- refusals of all

TEST(Refusals, OfAllHostsReadAsAFaultOfTheKind) {
  Driver d;
  d.job(1).host(1).host(2).ready(1, 7).collect();
  const auto refuse = [&d] {
    const SendLease sent = d.one<SendLease>();
    d.say(sent.host, sent.lease, 5);
    d.s->fetched(sent.lease, d.now);
    d.s->checked(sent.lease, Verdict::kReject, d.now);
    d.collect();
  };
  refuse();
  EXPECT_THAT(d.s->waiting_reason(1), Not(HasSubstr("kind")));
  refuse();
  EXPECT_THAT(d.s->waiting_reason(1),
              AllOf(HasSubstr("all 2 hosts had results refused, first of task 7"),
                    HasSubstr("its kind, or the kind's check, is more likely at fault")));
}

TEST(Refusals, OfAllHostsAfterAnAcceptedResultReadAsTheirs) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  d.complete(1, d.one<SendLease>());
  d.host(2).host(3).ready(1, 1).collect();
  for (int i = 0; i < 3; ++i) {
    const SendLease sent = d.one<SendLease>();
    d.say(sent.host, sent.lease, 5);
    d.s->fetched(sent.lease, d.now);
    d.s->checked(sent.lease, Verdict::kReject, d.now);
    d.collect();
  }
  EXPECT_THAT(d.s->waiting_reason(1), AllOf(HasSubstr("all 3 hosts had results refused"),
                                            Not(HasSubstr("the kind's check"))));
}

// ---- delivery

/// Commits to a result of the one lease and cannot deliver it, `times` times in a row.
void fail_to_deliver(Driver& d, HostId host, std::uint32_t times) {
  for (std::uint32_t i = 0; i < times; ++i) {
    const auto sent = d.take<SendLease>();
    ASSERT_THAT(sent, SizeIs(1)) << "attempt " << i;
    ASSERT_EQ(sent[0].host, host);
    d.say(host, sent[0].lease, 5);
    d.s->fetch_failed(sent[0].lease, false, d.now);
    d.wait(Config{}.backoff_max);
  }
}

TEST(Delivery, AHostThatNeverDeliversIsBarredFromTheJob) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  fail_to_deliver(d, 1, Config{}.max_failed_fetches);
  EXPECT_THAT(d.take<SendLease>(), IsEmpty());
  EXPECT_THAT(d.take<Quarantine>(), IsEmpty()) << "it was not caught with anything wrong";
  bool said = false;
  for (const Incident& i : d.take<Incident>())
    said = said || i.what.find("took leases and did not deliver, 3 times") != std::string::npos;
  EXPECT_TRUE(said);
  EXPECT_THAT(d.s->host_counts(1).idle_reason, HasSubstr("took leases and did not deliver"));
  EXPECT_THAT(d.s->waiting_reason(1), HasSubstr("1 that took leases and did not deliver"));
  d.host(2);
  EXPECT_EQ(d.one<SendLease>().host, 2u);
  d.job(2).ready(2, 0).collect();
  EXPECT_EQ(d.one<SendLease>().host, 1u) << "other jobs are not concerned";
}

TEST(Delivery, ConnectingAnewGivesNoMoreTries) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  fail_to_deliver(d, 1, Config{}.max_failed_fetches - 1);
  d.s->host_left(1, d.now);
  d.kept.clear();
  d.host(1);
  fail_to_deliver(d, 1, 1);
  d.s->host_left(1, d.now);
  d.host(1);
  EXPECT_THAT(d.take<SendLease>(), IsEmpty());
  EXPECT_THAT(d.s->host_counts(1).idle_reason, HasSubstr("took leases and did not deliver"));
}

/// Commits, says nothing for `silence`, leaves and comes back.
void keep_back(Driver& d, HostId host, Micros silence, std::uint64_t bytes = 0) {
  const auto sent = d.take<SendLease>();
  ASSERT_THAT(sent, SizeIs(1));
  ASSERT_EQ(sent[0].host, host);
  d.say(host, sent[0].lease, 5).wait(silence / 2);
  if (bytes > 0) d.s->fetch_progress(sent[0].lease, bytes, d.now);
  d.wait(silence / 2);
  d.s->host_left(host, d.now);
  d.host(host);
}

TEST(Delivery, LeavingWithAResultThatNobodyGotCounts) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  for (std::uint32_t i = 0; i < Config{}.max_failed_fetches; ++i) keep_back(d, 1, 2 * kSecond);
  EXPECT_THAT(d.take<SendLease>(), IsEmpty());
  EXPECT_THAT(d.s->waiting_reason(1), HasSubstr("1 that took leases and did not deliver"));
}

TEST(Delivery, ALostConnectionIsNoFaultOfTheHost) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  for (int i = 0; i < 20; ++i) keep_back(d, 1, i % 2 == 0 ? 200'000 : 100 * kSecond, i % 2);
  EXPECT_THAT(d.take<SendLease>(), SizeIs(1)) << "it sent something, or had no time to";
}

TEST(Delivery, OneSilenceCountsOnceHoweverManyResultsItHides) {
  Driver d;
  d.job(1).host(1);
  for (TaskId task = 0; task < 8; ++task) d.ready(1, task);
  std::vector<SendLease> sent = d.collect().take<SendLease>();
  for (TaskId task = 0; task < 4; ++task) {
    d.say(1, sent.front().lease, task);
    sent.erase(sent.begin());
    for (const SendLease& more : d.take<SendLease>()) sent.push_back(more);
  }
  d.wait(2 * kSecond);
  d.s->host_left(1, d.now);
  d.kept.clear();
  d.host(1);
  EXPECT_THAT(d.tasks_sent_to(1), testing::Not(IsEmpty()));
}

TEST(Delivery, ResultsThatCameMakeUpForOneThatDidNot) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  for (TaskId task = 0; task < 10; ++task) {
    fail_to_deliver(d, 1, 1);
    for (TaskId i = 0; i < 4; ++i) {
      d.complete(1, d.one<SendLease>());
      d.ready(1, task * 4 + i + 1).collect();
    }
  }
  EXPECT_EQ(d.s->job_counts(1).accepted, 40u);
}

TEST(Delivery, ACommitmentAloneDoesNotEndThePause) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  fail_to_deliver(d, 1, 1);
  const SendLease second = d.one<SendLease>();
  d.say(1, second.lease, 5);
  d.s->fetch_failed(second.lease, false, d.now);
  d.wait(Config{}.backoff_min);
  EXPECT_THAT(d.take<SendLease>(), IsEmpty()) << "the pause is twice as long as the first";
  d.wait(Config{}.backoff_min);
  EXPECT_THAT(d.take<SendLease>(), SizeIs(1));
}

TEST(Delivery, AnotherHostComputesWhatDoesNotCome) {
  Driver d;
  d.job(1).host(1).ready(1, 0).plan_done(1);
  const SendLease first = d.one<SendLease>();
  d.say(1, first.lease, 0);
  EXPECT_EQ(d.one<FetchResult>().lease, first.lease);
  d.host(2);
  d.wait(Config{}.fetch_silence - 1);
  EXPECT_THAT(d.take<SendLease>(), IsEmpty()) << "not late yet";
  d.wait(1);
  const SendLease second = d.one<SendLease>();
  EXPECT_EQ(second.host, 2u);
  EXPECT_EQ(d.s->job_counts(1).second_starts, 1u);
  d.host(3).wait(10 * kSecond);
  EXPECT_THAT(d.take<SendLease>(), IsEmpty()) << "one at a time";
  d.say(2, second.lease, 0);
  EXPECT_EQ(d.one<FetchResult>().lease, second.lease) << "it does not wait for the first";
  d.s->fetched(second.lease, d.now);
  d.s->checked(second.lease, Verdict::kAccept, d.now);
  EXPECT_EQ(d.one<AcceptResult>().host, 2u);
  EXPECT_EQ(d.one<ReleaseResult>().lease, first.lease);
  d.s->accepted(1, 0, d.now);
  EXPECT_THAT(d.take<FinishJob>(), SizeIs(1));
}

/// However long the other host would need: what is silent does not end by itself.
TEST(Delivery, AHostThatIsSilentIsNotWaitedForLonger) {
  Driver d;
  d.job(1).host(1).ready(1, 0, 1e9).plan_done(1);
  const SendLease first = d.one<SendLease>();
  d.wait(60 * kSecond).say(1, first.lease, 0, 60 * kSecond);
  d.host(2).wait(Config{}.fetch_silence);
  EXPECT_EQ(d.one<SendLease>().host, 2u) << "though it will take a minute";
}

TEST(Delivery, ASlowLinkIsNoSilence) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  const SendLease first = d.one<SendLease>();
  d.say(1, first.lease, 0).host(2);
  const Micros end = d.now + Config{}.first_fetch;
  while (d.now + kSecond < end) {
    d.s->fetch_progress(first.lease, 2000, d.now);
    d.wait(kSecond);
    ASSERT_THAT(d.take<SendLease>(), IsEmpty()) << "bytes come";
  }
  d.s->fetch_progress(first.lease, 2000, d.now);
  d.wait(kSecond);
  const SendLease second = d.one<SendLease>();
  EXPECT_EQ(second.host, 2u) << "but not for ever";
  d.complete(2, second);
  EXPECT_EQ(d.s->job_counts(1).accepted, 1u);
  for (const Incident& i : d.take<Incident>()) EXPECT_TRUE(i.note) << i.what;
  d.s->host_left(2, d.now);
  d.ready(1, 1).collect();
  EXPECT_EQ(d.one<SendLease>().host, 1u) << "without a pause";
  EXPECT_THAT(d.s->host_counts(1).idle_reason, testing::Not(HasSubstr("deliver")));
}

TEST(Delivery, AByteNowAndThenIsSilence) {
  Driver d;
  d.job(1).host(1).ready(1, 0).plan_done(1);
  const SendLease first = d.one<SendLease>();
  d.say(1, first.lease, 0).host(2);
  for (Micros time = 0; time < Config{}.fetch_silence; time += kSecond) {
    d.s->fetch_progress(first.lease, 1, d.now);
    d.wait(kSecond);
  }
  d.wait(kSecond);
  EXPECT_EQ(d.one<SendLease>().host, 2u);
}

/// Results of one host take turns on its link: another one that comes is a sign of life.
TEST(Delivery, AResultThatWaitsItsTurnIsNotSilent) {
  Driver d;
  d.job(1).host(1).ready(1, 0).ready(1, 1).plan_done(1);
  const auto sent = d.take<SendLease>();
  ASSERT_THAT(sent, SizeIs(2));
  d.say(1, sent[0].lease, 0).say(1, sent[1].lease, 1).host(2);
  for (int i = 0; i < 10; ++i) {
    d.s->fetch_progress(sent[0].lease, 5000, d.now);
    d.wait(2 * kSecond);
    ASSERT_THAT(d.take<SendLease>(), IsEmpty());
  }
  d.s->fetched(sent[0].lease, d.now);
  d.wait(Config{}.fetch_silence - 1);
  EXPECT_THAT(d.take<SendLease>(), IsEmpty());
  d.wait(1);
  EXPECT_EQ(d.one<SendLease>().task, sent[1].task);
}

TEST(Delivery, WhatComesLateIsStillTaken) {
  Driver d;
  d.job(1).host(1).ready(1, 0).plan_done(1);
  const SendLease first = d.one<SendLease>();
  d.say(1, first.lease, 0).host(2).wait(Config{}.first_fetch);
  const SendLease second = d.one<SendLease>();
  d.s->fetched(first.lease, d.now);
  EXPECT_EQ(d.one<CheckResult>().lease, first.lease);
  d.s->checked(first.lease, Verdict::kAccept, d.now);
  EXPECT_EQ(d.one<AcceptResult>().host, 1u);
  EXPECT_EQ(d.one<CancelLease>().lease, second.lease);
}

TEST(Delivery, StallingUntilOthersHaveDoneTheWorkCounts) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  for (TaskId task = 0; task < Config{}.max_failed_fetches; ++task) {
    const SendLease stalled = d.one<SendLease>();
    ASSERT_EQ(stalled.host, 1u);
    d.say(1, stalled.lease, task).host(2).wait(Config{}.first_fetch * 2);
    for (const SendLease& l : d.take<SendLease>()) d.complete(l.host, l);
    EXPECT_EQ(d.s->job_counts(1).accepted, task + 1);
    d.s->host_left(2, d.now);
    d.wait(Config{}.backoff_max).ready(1, task + 1).collect();
  }
  EXPECT_THAT(d.take<SendLease>(), IsEmpty());
  EXPECT_THAT(d.s->host_counts(1).idle_reason, HasSubstr("took leases and did not deliver"));
}

// ---- trust

TEST(Quarantine, EndsTheHostsPartInThisJobOnly) {
  Driver d;
  d.job(1).host(1);
  for (TaskId t = 0; t < 4; ++t) d.ready(1, t);
  const auto leases = d.collect().take<SendLease>();
  ASSERT_THAT(leases, SizeIs(2));
  d.say(1, leases[0].lease, 1);
  d.s->fetched(leases[0].lease, d.now);
  d.s->checked(leases[0].lease, Verdict::kReject, d.now);
  const Quarantine q = d.one<Quarantine>();
  EXPECT_EQ(q.host, 1u);
  EXPECT_THAT(q.reason, HasSubstr("refused by check"));
  EXPECT_EQ(d.s->host_counts(1).leases, 0u);
  EXPECT_THAT(d.s->waiting_reason(1), HasSubstr("refused"));
  EXPECT_THAT(d.s->host_counts(1).idle_reason, HasSubstr("refused"));
  d.kept.clear();
  d.s->host_left(1, d.now);
  d.host(1);
  EXPECT_THAT(d.take<SendLease>(), IsEmpty()) << "coming back does not wash it clean";
  d.job(2).ready(2, 0).collect();
  EXPECT_EQ(d.one<SendLease>().job, 2u);
  d.host(2);
  EXPECT_THAT(d.tasks_sent_to(2), testing::Not(IsEmpty()));
}

TEST(Quarantine, RechecksWhatWasAcceptedOnItsWordAlone) {
  Driver d;
  d.job(1).host(1);
  d.ready(1, 0).ready(1, 1).ready(1, 2).plan_done(1);
  const auto leases = d.take<SendLease>();
  d.complete(1, leases[0]).complete(1, leases[1]);
  const SendLease third = d.one<SendLease>();
  d.say(1, third.lease, 1);
  d.s->fetched(third.lease, d.now);
  d.s->checked(third.lease, Verdict::kReject, d.now);
  const auto rechecks = d.take<Recheck>();
  ASSERT_THAT(rechecks, SizeIs(2));
  d.host(2);
  d.complete(2, d.one<SendLease>());
  EXPECT_THAT(d.take<FinishJob>(), IsEmpty()) << "rechecks are open";
  d.s->rechecked(1, 0, Verdict::kAccept, d.now);
  d.s->rechecked(1, 1, Verdict::kReject, d.now);
  EXPECT_EQ(d.one<Rerun>().task, 1u);
  EXPECT_THAT(d.take<FinishJob>(), IsEmpty());
  EXPECT_EQ(d.s->job_counts(1).accepted, 2u);
  d.ready(1, 1).collect();
  d.complete(2, d.one<SendLease>());
  EXPECT_THAT(d.take<FinishJob>(), SizeIs(1));
  EXPECT_EQ(d.s->job_counts(1).accepted, 3u);
}

TEST(Quarantine, AnAbstainedRecheckIsDecidedByDigests) {
  Driver d;
  d.job(1).host(1).ready(1, 0).ready(1, 1).plan_done(1);
  const auto leases = d.take<SendLease>();
  d.complete(1, leases[0]);
  d.say(1, leases[1].lease, 9);
  d.s->fetched(leases[1].lease, d.now);
  d.s->checked(leases[1].lease, Verdict::kReject, d.now);
  d.host(2).host(3);
  d.complete(2, d.take<SendLease>().front());
  d.kept.clear();
  d.s->rechecked(1, 0, Verdict::kAbstain, d.now);
  d.ready(1, 0).collect();
  const auto again = d.take<SendLease>();
  ASSERT_THAT(again, SizeIs(2)) << "two independent hosts";
  d.say(again[0].host, again[0].lease, 4).say(again[1].host, again[1].lease, 4);
  const FetchResult fetch = d.one<FetchResult>();
  d.s->fetched(fetch.lease, d.now);
  EXPECT_THAT(d.take<CheckResult>(), IsEmpty());
  EXPECT_EQ(d.one<AcceptResult>().task, 0u);
}

TEST(Quarantine, WhatOthersVouchForStands) {
  Driver d;
  d.job(1, wire::Policy::kReplicate, 2).host(1).host(2).host(3);
  const auto settle = [&](TaskId task, std::uint64_t of_host_1) {
    d.ready(1, task).collect();
    std::vector<SendLease> sent;
    while (!(sent = d.take<SendLease>()).empty())
      for (const SendLease& l : sent) d.say(l.host, l.lease, l.host == 1 ? of_host_1 : 8);
    for (int round = 0; round < 4; ++round) {
      for (const FetchResult& f : d.take<FetchResult>()) d.s->fetched(f.lease, d.now);
      for (const CheckResult& c : d.collect().take<CheckResult>())
        d.s->checked(c.lease, Verdict::kAbstain, d.now);
      for (const SendLease& l : d.collect().take<SendLease>())
        d.say(l.host, l.lease, l.host == 1 ? of_host_1 : 8);
    }
    for (const AcceptResult& a : d.collect().take<AcceptResult>()) d.s->accepted(1, a.task, d.now);
    d.collect();
  };
  for (TaskId task = 0; task < 12; ++task) settle(task, 8);
  EXPECT_EQ(d.s->job_counts(1).accepted, 12u);
  for (TaskId task = 12; task < 24; ++task) settle(task, 666);
  EXPECT_EQ(d.one<Quarantine>().host, 1u);
  EXPECT_THAT(d.take<Recheck>(), IsEmpty());
  EXPECT_EQ(d.s->job_counts(1).accepted, 24u);
}

TEST(Restart, RestoredTasksAreRecheckedWhenTheirHostIsCaught) {
  Driver d;
  d.job(1);
  d.s->restore_accepted(1, 5, 1e6, 1);
  d.s->restore_accepted(1, 6, 1e6, 2);
  d.s->restore_quarantine(1, 1);
  EXPECT_EQ(d.one<Recheck>().task, 5u);
  EXPECT_THAT(d.take<Quarantine>(), IsEmpty());
  d.host(1).ready(1, 9).collect();
  EXPECT_THAT(d.take<SendLease>(), IsEmpty());
  EXPECT_EQ(d.s->job_counts(1).accepted, 2u);
}

TEST(HostilePlanner, AbsurdTasksDoNotBreakAnything) {
  Driver d;
  d.job(1).host(1);
  d.ready(1, 0, NAN, 0, {}, ~0ull).ready(1, 1, -1e300).ready(1, 2, INFINITY, ~0ull);
  d.ready(1, 0).ready(9, 0).collect();
  const auto sent = d.take<SendLease>();
  EXPECT_THAT(sent, SizeIs(2));
  for (const SendLease& l : sent) d.complete(1, l, ~0ull);
  EXPECT_EQ(d.s->job_counts(1).accepted, 2u);
  EXPECT_EQ(d.s->job_counts(1).planned, 3u) << "a task handed in twice is one task";
}

TEST(Trust, ReplicasThatDifferAreNamed) {
  Driver d;
  d.job(1, wire::Policy::kReplicate, 2).host(1).host(2).ready(1, 3).plan_done(1);
  const auto sent = d.take<SendLease>();
  ASSERT_THAT(sent, SizeIs(2));
  for (const SendLease& lease : sent) {
    d.say(lease.host, lease.lease, lease.host);
    d.s->fetched(lease.lease, d.now);
    d.collect();
  }
  for (const CheckResult& c : d.take<CheckResult>())
    d.s->checked(c.lease, Verdict::kAbstain, d.now);
  EXPECT_THAT(d.collect().take<AcceptResult>(), IsEmpty());
  const auto name = [](HostId host) { return host == 1 ? std::string("abc") : std::string("def"); };
  const std::string says = d.s->waiting_reason(1, name);
  EXPECT_THAT(says, HasSubstr("the results of task 3 differ (hosts "));
  EXPECT_THAT(says, HasSubstr("abc"));
  EXPECT_THAT(says, HasSubstr("def"));
  EXPECT_THAT(says, HasSubstr("2 independent hosts here: connect one more, or a validator"));
  // One of the same group is no independent host.
  d.host(3, Driver::spec(2));
  EXPECT_THAT(d.take<SendLease>(), IsEmpty());
  EXPECT_THAT(d.s->waiting_reason(1), HasSubstr("differ (hosts "));
  d.host(4);
  const SendLease third = d.one<SendLease>();
  EXPECT_EQ(third.host, 4u);
  EXPECT_EQ(d.s->waiting_reason(1), "");
  d.say(4, third.lease, 2);
  const AcceptResult accepted = d.one<AcceptResult>();
  EXPECT_EQ(accepted.host, 2u);
  EXPECT_THAT(accepted.confirmed, testing::ElementsAre(4u)) << "who agreed";
  EXPECT_EQ(d.one<Quarantine>().host, 1u);
}

TEST(Trust, WhoeverAgreedHasConfirmed) {
  Driver d;
  d.job(1, wire::Policy::kValidator).host(1).host(2, Driver::spec(2, true)).ready(1, 0).collect();
  const SendLease lease = d.one<SendLease>();
  d.say(1, lease.lease, 5);
  d.s->fetched(lease.lease, d.now);
  const SendLease recomputed = d.one<SendLease>();
  EXPECT_EQ(recomputed.host, 2u);
  d.say(2, recomputed.lease, 5);
  EXPECT_THAT(d.one<AcceptResult>().confirmed, testing::ElementsAre(2u));
  // A check needs nobody else.
  d.job(2).ready(2, 0).collect();
  const SendLease alone = d.one<SendLease>();
  d.say(alone.host, alone.lease, 5);
  d.s->fetched(alone.lease, d.now);
  d.s->checked(alone.lease, Verdict::kAccept, d.now);
  EXPECT_THAT(d.one<AcceptResult>().confirmed, IsEmpty());
}

TEST(Trust, AnAbstainedCheckOnOneHostSaysWhatToDo) {
  Driver d;
  d.job(1).host(1).ready(1, 0).plan_done(1);
  const SendLease lease = d.one<SendLease>();
  d.say(1, lease.lease, 5);
  d.s->fetched(lease.lease, d.now);
  d.s->checked(lease.lease, Verdict::kAbstain, d.now);
  d.collect();
  EXPECT_THAT(d.s->waiting_reason(1), testing::HasSubstr("1 independent host here: connect one "
                                                         "more, or a validator"));
  d.host(2);
  EXPECT_EQ(d.one<SendLease>().host, 2u);
  EXPECT_EQ(d.s->waiting_reason(1), "");
}

}  // namespace
}  // namespace goblin::scheduler
