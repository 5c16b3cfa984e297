// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Outcomes, failures, deadlines, second starts.
#include <gmock/gmock.h>

#include "tests/core/scheduler/driver.hpp"

namespace goblin::scheduler {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Leases, FromCommitToAccepted) {
  Driver d;
  d.job(1).host(1).ready(1, 7).plan_done(1);
  const SendLease lease = d.one<SendLease>();
  d.say(1, lease.lease, 5);
  EXPECT_EQ(d.one<FetchResult>().lease, lease.lease);
  d.s->fetched(lease.lease, d.now);
  EXPECT_EQ(d.one<CheckResult>().lease, lease.lease);
  d.s->checked(lease.lease, Verdict::kAccept, d.now);
  const AcceptResult accept = d.one<AcceptResult>();
  EXPECT_EQ(accept.task, 7u);
  EXPECT_EQ(accept.digest, named(5));
  EXPECT_THAT(d.take<FinishJob>(), IsEmpty()) << "not before it is journalled";
  d.s->accepted(1, 7, d.now);
  EXPECT_EQ(d.one<ReleaseResult>().lease, lease.lease);
  EXPECT_EQ(d.one<FinishJob>().job, 1u);
  EXPECT_EQ(d.s->job_counts(1).accepted, 1u);
}

TEST(Leases, AHostSpeaksForItsOwnLeasesOnly) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  const SendLease lease = d.one<SendLease>();
  d.host(2);
  d.say(2, lease.lease, 5).say_failed(2, lease.lease, GOBLIN_INTERNAL);
  d.s->handed_back(2, lease.lease, Code::kExhausted, d.now);
  EXPECT_THAT(d.take<FetchResult>(), IsEmpty());
  EXPECT_EQ(d.s->host_counts(1).leases, 1u);
  EXPECT_EQ(d.s->host_counts(1).failed, 0u);
}

TEST(Leases, UnknownRepeatedAndLateMessagesAreHarmless) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  const SendLease lease = d.one<SendLease>();
  d.s->fetched(lease.lease, d.now);
  d.s->checked(lease.lease, Verdict::kAccept, d.now);
  d.s->fetch_failed(lease.lease, true, d.now);
  d.s->accepted(1, 0, d.now);
  d.s->rechecked(1, 0, Verdict::kReject, d.now);
  EXPECT_THAT(d.take<AcceptResult>(), IsEmpty()) << "nothing was committed";
  EXPECT_THAT(d.take<Quarantine>(), IsEmpty());
  EXPECT_EQ(d.s->job_counts(1).accepted, 0u);
  d.complete(1, lease);
  d.kept.clear();
  d.say(1, lease.lease, 9);
  EXPECT_EQ(d.one<ReleaseResult>().lease, lease.lease) << "it need not keep what came too late";
  d.s->accepted(1, 0, d.now);
  EXPECT_EQ(d.s->job_counts(1).accepted, 1u);
  d.say(99, 12345, 1);
  d.s->host_left(99, d.now);
  d.s->host_changed(99, {}, d.now);
  d.s->heartbeat(99, {1, 2, 3}, d.now);
  d.s->remove_job(99, d.now);
}

TEST(Leases, RemovedJobsAreNotSpokenOf) {
  Driver d;
  d.job(1).host(1).ready(1, 0).ready(1, 1).collect();
  const auto leases = d.take<SendLease>();
  d.s->outcome(1, {.lease = leases[0].lease, .digest = named(1), .compute = 1}, d.now);
  d.s->remove_job(1, d.now);
  d.kept.clear();
  d.collect();
  EXPECT_THAT(d.take<FetchResult>(), IsEmpty());
  EXPECT_EQ(d.one<CancelLease>().lease, leases[1].lease);
  EXPECT_EQ(d.one<ReleaseResult>().lease, leases[0].lease);
  d.say(1, leases[1].lease, 2);
  EXPECT_EQ(d.one<ReleaseResult>().lease, leases[1].lease);
  EXPECT_THAT(d.kept, IsEmpty());
}

TEST(Leases, DepartureReturnsTheTasksWithoutBlame) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(d.one<SendLease>().task, 0u);
    d.s->host_left(1, d.now);
    d.host(1);
  }
  EXPECT_THAT(d.take<FailJob>(), IsEmpty());
}

TEST(Leases, HandedBackGoesElsewhereAtOnceAndBackAfterAPause) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  d.s->handed_back(1, d.one<SendLease>().lease, Code::kUnavailable, d.now);
  EXPECT_THAT(d.take<SendLease>(), IsEmpty());
  EXPECT_THAT(d.s->host_counts(1).idle_reason, HasSubstr("handed back"));
  EXPECT_EQ(d.s->next_wakeup(), d.now + Config{}.backoff_min);
  d.wait(Config{}.backoff_min);
  EXPECT_EQ(d.one<SendLease>().host, 1u);
}

TEST(Leases, HandedBackAsCancelledIsNoFailureEither) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  for (int i = 0; i < 20; ++i) {
    const auto sent = d.take<SendLease>();
    ASSERT_THAT(sent, SizeIs(1));
    d.s->handed_back(1, sent[0].lease, i % 2 == 0 ? Code::kCancelled : Code::kUnavailable, d.now);
    d.wait(Config{}.backoff_max);
  }
  EXPECT_EQ(d.s->job_counts(1).failed, 0u);
  EXPECT_THAT(d.take<FailJob>(), IsEmpty());
}

TEST(Leases, AHostThatNeverRunsTheKindIsAskedOnce) {
  Driver d;
  d.job(1).host(1).ready(1, 0).ready(1, 1).collect();
  const auto sent = d.take<SendLease>();
  ASSERT_FALSE(sent.empty());
  d.s->handed_back(1, sent[0].lease, Code::kUnsupported, d.now);
  d.wait(Config{}.backoff_max);
  EXPECT_THAT(d.take<SendLease>(), IsEmpty());
  EXPECT_THAT(d.take<FailJob>(), IsEmpty());
  EXPECT_EQ(d.s->job_counts(1).failed, 0u) << "nobody's fault";
  EXPECT_THAT(d.s->host_counts(1).idle_reason, HasSubstr("does not run this job's kind"));
  EXPECT_THAT(d.s->waiting_reason(1), HasSubstr("1 that do not run this kind"));
  d.job(2).ready(2, 0).collect();
  EXPECT_EQ(d.one<SendLease>().job, 2u) << "other jobs are another matter";
  // Others take its tasks; it is asked anew once it has joined anew.
  d.host(2);
  EXPECT_EQ(d.take<SendLease>().size(), 2u);
  Driver again;
  again.job(1).host(1).ready(1, 0).collect();
  again.s->handed_back(1, again.one<SendLease>().lease, Code::kUnsupported, again.now);
  again.s->host_left(1, again.now);
  again.host(1);
  EXPECT_EQ(again.one<SendLease>().host, 1u);
}

TEST(Failures, HandingBackForAnotherReasonIsOne) {
  Driver d;
  d.job(1).host(1).host(2).ready(1, 0).collect();
  for (std::uint32_t i = 0; i < Config{}.max_attempts; ++i) {
    const auto sent = d.take<SendLease>();
    ASSERT_THAT(sent, SizeIs(1)) << "attempt " << i;
    d.s->handed_back(sent[0].host, sent[0].lease, Code::kInternal, d.now);
    d.wait(Config{}.backoff_max);
  }
  EXPECT_EQ(d.s->job_counts(1).failed, Config{}.max_attempts);
  const FailJob failed = d.one<FailJob>();
  EXPECT_EQ(failed.error.code, Code::kInternal);
  EXPECT_THAT(failed.error.message, HasSubstr("internal 5×"));
}

TEST(Failures, HandedBackAsExhaustedWantsMoreMemory) {
  Driver d;
  HostSpec large = Driver::spec(3);
  large.memory_bytes *= 2;
  d.job(1).host(1).ready(1, 0).collect();
  const SendLease lease = d.one<SendLease>();
  d.host(2).host(3, large);
  d.s->handed_back(1, lease.lease, Code::kExhausted, d.now);
  EXPECT_EQ(d.one<SendLease>().host, 3u) << "host 2 has no more memory than host 1";
}

TEST(Failures, GoToAnotherHost) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  d.host(2);
  d.say_failed(1, d.one<SendLease>().lease, GOBLIN_INTERNAL);
  EXPECT_EQ(d.one<SendLease>().host, 2u);
}

TEST(Failures, ExhaustedGoesToAHostWithMoreMemory) {
  Driver d;
  HostSpec large = Driver::spec(3);
  large.memory_bytes *= 2;
  large.accepting = false;
  d.job(1).host(1).ready(1, 0).collect();
  const SendLease lease = d.one<SendLease>();
  d.host(2).host(3, large);
  large.accepting = true;
  d.s->host_changed(3, large, d.now);
  d.say_failed(1, lease.lease, GOBLIN_EXHAUSTED);
  EXPECT_EQ(d.one<SendLease>().host, 3u);
}

TEST(Failures, TheJobFailsAfterEnoughOfThemOnTwoHosts) {
  Driver d;
  d.job(1).host(1).host(2).ready(1, 4, 1e6, 5).collect();
  for (std::uint32_t i = 0; i < Config{}.max_attempts; ++i) {
    EXPECT_THAT(d.take<FailJob>(), IsEmpty()) << i;
    auto sent = d.take<SendLease>();
    for (int waits = 0; sent.empty() && waits < 40; ++waits)
      sent = d.wait(kSecond).take<SendLease>();
    ASSERT_THAT(sent, SizeIs(1));
    d.say_failed(sent[0].host, sent[0].lease, i == 0 ? GOBLIN_UNSUPPORTED : 99);
  }
  const FailJob failed = d.one<FailJob>();
  EXPECT_EQ(failed.error.code, Code::kInternal);
  EXPECT_THAT(failed.error.message,
              testing::AllOf(HasSubstr("task 4"), HasSubstr("5 times on 2 hosts"),
                             HasSubstr("internal 4"), HasSubstr("unsupported 1")));
  d.wait(100 * kSecond);
  EXPECT_THAT(d.take<SendLease>(), IsEmpty());
}

TEST(Failures, OneBadHostAmongOthersDoesNotFailTheJob) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  d.say_failed(1, d.one<SendLease>().lease, GOBLIN_INTERNAL);
  for (int i = 0; i < 2; ++i) {
    d.wait(40 * kSecond);
    d.say_failed(1, d.one<SendLease>().lease, GOBLIN_INTERNAL);
  }
  d.host(2);
  d.wait(40 * kSecond);
  EXPECT_EQ(d.one<SendLease>().host, 2u) << "a host that has not failed comes first";
}

TEST(Failures, OfOneJobDoNotHoldUpAnother) {
  Driver d;
  d.job(1).host(1);
  for (TaskId task = 0; task < 20; ++task) d.ready(1, task);
  // Whatever it is given of the job fails, until it is given nothing more.
  for (auto sent = d.collect().take<SendLease>(); !sent.empty(); sent = d.take<SendLease>())
    for (const SendLease& lease : sent) d.say_failed(1, lease.lease, GOBLIN_INVALID_ARGUMENT);
  EXPECT_EQ(d.s->host_counts(1).idle_reason,
            "tasks of the job failed on it: it gets none of them for 1 s");
  EXPECT_EQ(d.s->waiting_reason(1), "its hosts pause after failures, for 1 s more");
  d.job(2).ready(2, 0).collect();
  const SendLease other = d.one<SendLease>();
  EXPECT_EQ(other.job, 2u);
  d.complete(1, other);
  EXPECT_THAT(d.take<SendLease>(), IsEmpty()) << "success in one job ends no pause in another";
  d.wait(kSecond);
  const auto again = d.take<SendLease>();
  ASSERT_FALSE(again.empty()) << "the pause is over without any other event";
  EXPECT_EQ(again[0].job, 1u);
}

TEST(Failures, PausesOfAJobGetLongerAndASuccessEndsThem) {
  Driver d;
  d.job(1).host(1).ready(1, 0).ready(1, 1).ready(1, 2).ready(1, 3).collect();
  Micros longest = 0;
  std::vector<SendLease> sent = d.take<SendLease>();
  for (int i = 0; i < 4; ++i) {
    const Micros before = d.now;
    while (sent.empty() && d.now < before + 100 * kSecond) sent = d.wait(50'000).take<SendLease>();
    ASSERT_FALSE(sent.empty());
    EXPECT_GE(d.now - before, longest) << i;
    longest = d.now - before;
    for (const SendLease& lease : sent) d.say_failed(1, lease.lease, GOBLIN_INTERNAL);
    sent = d.take<SendLease>();
  }
  EXPECT_GE(longest, 2 * Config{}.backoff_min);
  while (sent.empty()) sent = d.wait(50'000).take<SendLease>();
  d.complete(1, sent[0]);
  ASSERT_GT(sent.size(), 1u);
  d.say_failed(1, sent[1].lease, GOBLIN_INTERNAL);
  EXPECT_THAT(d.take<SendLease>(), testing::Not(IsEmpty())) << "one failure makes no pause";
}

TEST(Failures, OnlyMemoryThatWasTooLittleIsSpokenOf) {
  for (const std::int32_t status : {GOBLIN_INTERNAL, GOBLIN_EXHAUSTED}) {
    Driver d;
    d.job(1).host(1).ready(1, 4, 1e6, 12345).collect();
    for (std::uint32_t i = 0; i < Config{}.max_attempts; ++i) {
      auto sent = d.take<SendLease>();
      if (sent.empty()) sent = d.wait(Config{}.backoff_max).take<SendLease>();
      ASSERT_THAT(sent, SizeIs(1)) << i;
      d.say_failed(1, sent[0].lease, status);
    }
    const std::string message = d.one<FailJob>().error.message;
    EXPECT_EQ(message.find("12345 bytes of memory") != std::string::npos,
              status == GOBLIN_EXHAUSTED)
        << message;
    // The Python package looks for these words.
    EXPECT_THAT(message, HasSubstr("; the logs of the hosts say why"));
  }
}

// ---- time

TEST(Deadlines, AnUnknownTaskHasTheFirstDeadline) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  const SendLease lease = d.one<SendLease>();
  d.wait(Config{}.first_deadline - 1);
  EXPECT_THAT(d.take<CancelLease>(), IsEmpty());
  d.wait(1);
  EXPECT_EQ(d.one<CancelLease>().lease, lease.lease);
  EXPECT_EQ(d.one<Incident>().what, "late");
  EXPECT_EQ(d.one<SendLease>().task, 0u) << "it runs again";
  d.say(1, lease.lease, 1);
  EXPECT_THAT(d.take<FetchResult>(), IsEmpty()) << "late is late";
}

TEST(Deadlines, ALongRunIsNamed) {
  Driver d;
  d.job(1).host(1).ready(1, 4).collect();
  const SendLease lease = d.one<SendLease>();
  d.wait(60 * kSecond);
  EXPECT_EQ(d.s->waiting_reason(1), "") << "the host has not said that it runs";
  d.s->heartbeat(1, {lease.lease}, d.now);
  d.wait(9 * kSecond);
  EXPECT_EQ(d.s->waiting_reason(1), "");
  d.wait(91 * kSecond);
  EXPECT_EQ(d.s->waiting_reason(1), "task 4 has been running for 100 s on host 1");
  const auto name = [](HostId) { return std::string("abc"); };
  EXPECT_EQ(d.s->waiting_reason(1, name), "task 4 has been running for 100 s on host abc");
  // What waits behind it says so.
  d.job(2).ready(2, 0).collect();
  ASSERT_THAT(d.take<SendLease>(), SizeIs(1));
  EXPECT_EQ(d.s->waiting_reason(2),
            "its tasks wait behind task 4 of job 1, which has been running for 100 s on host 1");
  // Where something else of the job runs as it should, nothing is said.
  d.host(2).ready(1, 5).collect();
  EXPECT_THAT(d.take<SendLease>(), SizeIs(2)) << "it tries the long one, too";
  EXPECT_EQ(d.s->waiting_reason(1), "");
}

TEST(Deadlines, ALongRunThatWasExpectedIsNotNamed) {
  Driver d;
  d.job(1).host(1).ready(1, 0, 1e9).collect();
  const SendLease first = d.one<SendLease>();
  d.wait(60 * kSecond).complete(1, first, 60 * kSecond);
  d.ready(1, 1, 1e9).collect();
  d.s->heartbeat(1, {d.one<SendLease>().lease}, d.now);
  d.wait(60 * kSecond);
  EXPECT_EQ(d.s->waiting_reason(1), "");
  d.wait(61 * kSecond);
  EXPECT_EQ(d.s->waiting_reason(1), "task 1 has been running for 121 s on host 1");
}

TEST(Deadlines, HeartbeatsExtendUpToTheFactor) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  const SendLease lease = d.one<SendLease>();
  const Micros end = d.now + lease.deadline;
  EXPECT_EQ(lease.deadline, Micros(Config{}.first_deadline * Config{}.deadline_factor));
  while (d.now + 100 * kSecond < end) {
    d.s->heartbeat(1, {lease.lease}, d.now);
    d.wait(100 * kSecond);
    ASSERT_THAT(d.take<CancelLease>(), IsEmpty());
  }
  d.s->heartbeat(1, {lease.lease}, d.now);
  d.wait(100 * kSecond);
  EXPECT_THAT(d.take<CancelLease>(), SizeIs(1)) << "computing for ever is not an excuse";
}

TEST(Deadlines, ALeaseThatQueuesBehindALongOneDoesNotEnd) {
  Driver d;
  d.job(1).host(1).ready(1, 0).ready(1, 1).plan_done(1);
  const auto leases = d.take<SendLease>();
  ASSERT_THAT(leases, SizeIs(2));
  // Each takes longer than the first deadline; the host names only the one that it computes.
  for (const SendLease& lease : leases) {
    for (int i = 0; i < 20; ++i) {
      d.s->heartbeat(1, {lease.lease}, d.now);
      d.wait(50 * kSecond);
    }
    d.complete(1, lease, 1000 * kSecond);
  }
  EXPECT_THAT(d.take<CancelLease>(), IsEmpty());
  EXPECT_THAT(d.take<FinishJob>(), SizeIs(1));
}

TEST(Deadlines, FollowWhatIsKnown) {
  Driver d;
  d.job(1).host(1).ready(1, 0, 1e9).collect();
  const SendLease first = d.one<SendLease>();
  d.wait(10 * kSecond).complete(1, first, 10 * kSecond);
  d.ready(1, 1, 1e9);
  EXPECT_NEAR(double(d.one<SendLease>().deadline), 80e6, 1e6);
}

TEST(SecondStarts, AnIdleHostTakesWhatIsOverdue) {
  Driver d;
  d.job(1).host(1).ready(1, 0).ready(1, 1).plan_done(1);
  const auto leases = d.take<SendLease>();
  d.wait(kSecond);
  d.complete(1, leases[0], kSecond);
  d.host(2);
  d.wait(d.s->next_wakeup() - d.now);
  for (int i = 0; i < 100 && d.tasks_sent_to(2).empty(); ++i) d.wait(100'000);
  const SendLease second = d.one<SendLease>();
  EXPECT_EQ(second.host, 2u);
  EXPECT_EQ(second.task, 1u);
  EXPECT_EQ(d.s->job_counts(1).second_starts, 1u);
  d.complete(2, second);
  EXPECT_EQ(d.one<CancelLease>().lease, leases[1].lease);
  EXPECT_EQ(d.take<FinishJob>().size(), 1u);
}

/// Nobody has ever computed such a task: whether the host is slow or silent shows when another one
/// tries.
TEST(SecondStarts, AnIdleHostTriesWhatNobodyCanPredict) {
  for (const bool says_that_it_runs : {false, true}) {
    Driver d;
    d.job(1).host(1).ready(1, 0).plan_done(1);
    const SendLease first = d.one<SendLease>();
    d.host(2).host(3);
    const auto pass = [&](Micros time) {
      for (; time > 0; time -= kSecond) {
        if (says_that_it_runs) d.s->heartbeat(1, {first.lease}, d.now);
        d.wait(kSecond);
      }
    };
    pass(Config{}.blind_floor - kSecond);
    EXPECT_THAT(d.take<SendLease>(), IsEmpty()) << "it may be a task that takes its time";
    pass(2 * kSecond);
    const SendLease second = d.one<SendLease>();
    EXPECT_EQ(second.task, 0u);
    EXPECT_NE(second.host, 1u);
    EXPECT_EQ(d.s->job_counts(1).second_starts, 1u);
    pass(120 * kSecond);
    EXPECT_THAT(d.take<SendLease>(), IsEmpty()) << "two hosts at work on it are enough";
    EXPECT_THAT(d.take<CancelLease>(), IsEmpty());
    d.complete(second.host, second, 100 * kSecond);
    EXPECT_EQ(d.one<CancelLease>().lease, first.lease);
    EXPECT_THAT(d.take<FinishJob>(), SizeIs(1));
  }
}

TEST(SecondStarts, OfWhatNobodyCanPredictTheLongestGoesFirst) {
  Driver d;
  HostSpec one_slot = Driver::spec(1);
  one_slot.slots = 1;
  d.job(1).host(1, one_slot).ready(1, 0).collect();
  d.wait(10 * kSecond);
  one_slot.group = 2;
  d.host(2, one_slot).ready(1, 1).plan_done(1);
  ASSERT_THAT(d.take<SendLease>(), SizeIs(2));
  d.host(3);
  for (int i = 0; i < 60 && d.tasks_sent_to(3).empty(); ++i) d.wait(kSecond);
  EXPECT_THAT(d.tasks_sent_to(3), testing::ElementsAre(0u));
  EXPECT_LE(d.now, Config{}.blind_floor + 4 * kSecond);
}

TEST(SecondStarts, NothingIsTriedBlindlyWhileThereIsOtherWork) {
  Driver d;
  d.job(1).host(1).ready(1, 0).collect();
  d.take<SendLease>();
  d.job(2).host(2);
  for (TaskId task = 0; task < 4; ++task) d.ready(2, task);
  d.collect().kept.clear();
  d.wait(2 * Config{}.blind_floor);
  EXPECT_EQ(d.s->job_counts(1).second_starts, 0u) << "host 2 is busy";
}

TEST(SecondStarts, NotWhenTheOtherHostWouldBeLater) {
  Driver d;
  d.job(1).host(1).host(2);
  d.ready(1, 0, 1e9).ready(1, 1, 1e9).collect();
  std::map<HostId, SendLease> by_host;
  for (const SendLease& l : d.take<SendLease>()) by_host[l.host] = l;
  ASSERT_THAT(by_host, SizeIs(2));
  d.wait(kSecond);
  d.complete(1, by_host[1], kSecond);
  d.wait(99 * kSecond);
  d.ready(1, 2, 1e9);
  d.plan_done(1);
  d.kept.clear();
  // Host 2 needs 100 s for what host 1 does in one: it leaves host 1's task alone.
  d.complete(2, by_host[2], 100 * kSecond);
  EXPECT_THAT(d.tasks_sent_to(2), IsEmpty());
}

TEST(SecondStarts, NotWhileThereIsBetterToDo) {
  Driver d;
  d.job(1).host(1);
  for (TaskId t = 0; t < 30; ++t) d.ready(1, t, 1e9);
  d.collect();
  d.wait(kSecond);
  d.complete(1, d.take<SendLease>().front(), kSecond);
  d.kept.clear();
  d.wait(10 * kSecond);
  d.host(2);
  EXPECT_EQ(d.s->job_counts(1).second_starts, 0u);
  EXPECT_THAT(d.tasks_sent_to(2), testing::Not(IsEmpty()));
}

}  // namespace
}  // namespace goblin::scheduler
