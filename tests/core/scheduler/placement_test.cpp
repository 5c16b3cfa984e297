// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Which task goes to which host; planning.
#include <gmock/gmock.h>

#include "tests/core/scheduler/driver.hpp"

namespace goblin::scheduler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Placement, FirstComeFirstServedWithoutInputs) {
  Driver d;
  d.job(1).host(1);
  for (TaskId t = 0; t < 4; ++t) d.ready(1, t);
  d.collect();
  EXPECT_THAT(d.tasks_sent_to(1), ElementsAre(0, 1)) << "two while nothing is known of it";
}

TEST(Placement, PrefersTasksWhoseInputsTheHostHolds) {
  Driver d;
  d.job(1).host(1);
  const TaskInput a{named(1), 8 * kMiB}, b{named(2), 8 * kMiB}, c{named(3), 8 * kMiB};
  d.ready(1, 0, 1e6, 0, {a, b}).ready(1, 1, 1e6, 0, {c}).ready(1, 2, 1e6, 0, {b, a});
  d.collect();
  EXPECT_THAT(d.tasks_sent_to(1), ElementsAre(1, 0)) << "least to send first";
  for (const SendLease& lease : d.take<SendLease>()) d.complete(1, lease);
  EXPECT_THAT(d.tasks_sent_to(1), ElementsAre(2));
}

TEST(Placement, HostsSpreadOverDifferentInputs) {
  Driver d;
  d.job(1).host(1);
  const TaskInput a{named(1), 8 * kMiB}, b{named(2), 8 * kMiB};
  d.ready(1, 0, 1e6, 0, {a}).ready(1, 1, 1e6, 0, {a}).collect();
  d.ready(1, 2, 1e6, 0, {a}).ready(1, 3, 1e6, 0, {b}).collect();
  d.host(2);
  const auto sent = d.tasks_sent_to(2);
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent.front(), 3u) << "the one that nobody holds";
}

TEST(Placement, InputsThatAHostCouldNotGetNoLongerCount) {
  Driver d;
  d.job(1).host(1);
  const TaskInput a{named(1), 8 * kMiB}, b{named(2), 4 * kMiB};
  d.ready(1, 0, 1e6, 0, {a}).ready(1, 10, 1e6, 0, {a}).collect();
  const auto first = d.take<SendLease>();
  HostSpec one_slot = Driver::spec(2);
  one_slot.slots = 1;
  d.host(2, one_slot).say_failed(1, first[0].lease, GOBLIN_NOT_FOUND);
  EXPECT_EQ(d.one<SendLease>().host, 2u);
  d.ready(1, 1, 1e6, 0, {a}).ready(1, 2, 1e6, 0, {b}).collect();
  EXPECT_EQ(d.tasks_sent_to(1).front(), 2u);
}

TEST(Placement, NeverToAHostWithTooLittleMemory) {
  Driver d;
  d.job(1).host(1);
  d.ready(1, 0, 1e6, 256 * kMiB + 1).ready(1, 1, 1e6, 256 * kMiB).collect();
  EXPECT_THAT(d.tasks_sent_to(1), ElementsAre(1));
  d.complete(1, d.one<SendLease>());
  EXPECT_THAT(d.s->waiting_reason(1),
              testing::AllOf(HasSubstr("needs 257 MiB"), HasSubstr("more than 256 MiB")));
  HostSpec large = Driver::spec(2);
  large.memory_bytes = 300 * kMiB;
  d.host(2, large);
  EXPECT_THAT(d.tasks_sent_to(2), ElementsAre(0));
  EXPECT_EQ(d.s->waiting_reason(1), "");
}

TEST(Placement, TasksTooLargeDoNotHideThoseThatFit) {
  Config c;
  c.placement_window = 2;
  c.max_ready = 8;
  Driver d(c);
  d.job(1).host(1);
  for (TaskId t = 0; t < 300; ++t) d.ready(1, t, 1e6, 1000 * kMiB);
  d.ready(1, 300, 1e6, kMiB).collect();
  EXPECT_THAT(d.tasks_sent_to(1), ElementsAre(300));
}

TEST(Placement, QueueGrowsForShortTasksUpToTheSlots) {
  Driver d;
  d.job(1).host(1);
  for (TaskId t = 0; t < 40; ++t) d.ready(1, t);
  d.wait(kSecond);
  d.complete(1, d.take<SendLease>().front(), 100);
  EXPECT_EQ(d.s->host_counts(1).leases, 8u) << "100 us each: the slots are the limit";
}

TEST(Placement, LongTasksQueueTwoDeep) {
  Driver d;
  d.job(1).host(1);
  for (TaskId t = 0; t < 40; ++t) d.ready(1, t);
  d.collect();
  d.wait(9 * kSecond);
  d.complete(1, d.take<SendLease>().front(), 9 * kSecond);
  EXPECT_EQ(d.s->host_counts(1).leases, 2u);
}

TEST(Placement, AHostThatOffersNoCacheIsBelievedToHoldNothing) {
  for (const bool lost : {false, true}) {
    SCOPED_TRACE(lost);
    Driver d;
    HostSpec spec = Driver::spec(1);
    spec.slots = 1;
    const TaskInput held{named(9), 64 * kMiB};
    const TaskInput other{named(8), 64 * kMiB};
    d.job(1).host(1, spec).ready(1, 0, 1e6, 0, {held}).collect();
    const SendLease first = d.one<SendLease>();
    d.ready(1, 1, 1e6, 0, {other}).ready(1, 2, 1e6, 0, {held}).collect();
    const std::uint64_t cache = std::exchange(spec.cache_bytes, lost ? 0 : spec.cache_bytes);
    d.s->host_changed(1, spec, d.now);
    spec.cache_bytes = cache;
    d.s->host_changed(1, spec, d.now);
    d.complete(1, first);
    EXPECT_EQ(d.one<SendLease>().task, lost ? 1u : 2u);
  }
}

TEST(Placement, PausedHostsGetNothingAndSayWhy) {
  Driver d;
  HostSpec paused = Driver::spec(1);
  paused.accepting = false;
  d.job(1).host(1, paused).ready(1, 0).collect();
  EXPECT_THAT(d.take<SendLease>(), IsEmpty());
  EXPECT_THAT(d.s->host_counts(1).idle_reason, HasSubstr("paused"));
  EXPECT_THAT(d.s->waiting_reason(1), HasSubstr("1 of 1 host paused"));
  paused.accepting = true;
  d.s->host_changed(1, paused, d.now);
  EXPECT_EQ(d.one<SendLease>().task, 0u);
}

TEST(Placement, WhatAPausedHostHasNotBegunGoesToOthersAtOnce) {
  Driver d;
  d.job(1).host(1);
  for (TaskId t = 0; t < 2; ++t) d.ready(1, t);
  d.collect();
  const auto leases = d.take<SendLease>();
  ASSERT_THAT(leases, SizeIs(2));
  d.host(2);
  EXPECT_THAT(d.take<SendLease>(), IsEmpty());
  d.s->heartbeat(1, {leases[0].lease}, d.now);
  HostSpec paused = Driver::spec(1);
  paused.accepting = false;
  d.s->host_changed(1, paused, d.now);
  EXPECT_EQ(d.one<CancelLease>().lease, leases[1].lease);
  const SendLease again = d.one<SendLease>();
  EXPECT_EQ(again.host, 2u);
  EXPECT_EQ(again.task, leases[1].task);
  EXPECT_EQ(d.s->job_counts(1).second_starts, 0u) << "nobody else is at work on it";
  EXPECT_EQ(d.s->job_counts(1).failed, 0u);
  EXPECT_THAT(d.take<Incident>(), IsEmpty());
  EXPECT_EQ(d.s->host_counts(1).leases, 1u) << "it completes what it has begun";
  // Said again, nothing more happens; it comes back without a pause for what was taken from it.
  d.s->host_changed(1, paused, d.now);
  EXPECT_THAT(d.take<CancelLease>(), IsEmpty());
  d.ready(1, 7).ready(1, 8).ready(1, 9).collect();
  d.kept.clear();
  d.host(2, paused);
  d.s->host_changed(1, Driver::spec(1), d.now);
  d.collect();
  EXPECT_FALSE(d.tasks_sent_to(1).empty());
  d.complete(1, leases[0]);
  EXPECT_EQ(d.s->job_counts(1).accepted, 1u);
}

TEST(Placement, TrustedHostsAreKeptForValidation) {
  Driver d;
  d.job(1).host(1).host(9, Driver::spec(9, true));
  for (TaskId t = 0; t < 9; ++t) d.ready(1, t);
  d.collect();
  EXPECT_THAT(d.tasks_sent_to(9), IsEmpty());
  d.s->host_left(1, d.now);
  d.collect();
  EXPECT_FALSE(d.tasks_sent_to(9).empty()) << "nobody else is here";
}

TEST(Placement, ResultsThatWaitForJudgementHoldNewWorkBack) {
  Config c;
  c.max_unjudged_bytes = 10;
  Driver d(c);
  d.job(1).host(1);
  for (TaskId t = 0; t < 9; ++t) d.ready(1, t, 1e6, 0, {}, 10);
  const auto first = d.collect().take<SendLease>();
  d.say(1, first[0].lease, 0).say(1, first[1].lease, 1);
  EXPECT_THAT(d.take<SendLease>(), IsEmpty());
  EXPECT_THAT(d.s->host_counts(1).idle_reason, HasSubstr("wait to be checked"));
  for (const SendLease& lease : first) {
    d.s->fetched(lease.lease, d.now);
    d.s->checked(lease.lease, Verdict::kAccept, d.now);
    d.s->accepted(1, lease.task, d.now);
  }
  EXPECT_FALSE(d.collect().take<SendLease>().empty());
}

TEST(Replicas, GoToDifferentGroupsOnly) {
  Driver d;
  d.job(1, wire::Policy::kReplicate, 2);
  d.host(1, Driver::spec(5)).host(2, Driver::spec(5));
  d.ready(1, 0).collect();
  EXPECT_THAT(d.take<SendLease>(), IsEmpty());
  EXPECT_THAT(d.s->waiting_reason(1),
              testing::AllOf(HasSubstr("needs 2 independent hosts"), HasSubstr("1 is here")));
  EXPECT_THAT(d.take<PlanMore>(), IsEmpty());
  d.host(3, Driver::spec(6));
  const auto sent = d.take<SendLease>();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_NE(sent[0].host == 3, sent[1].host == 3);
}

TEST(Validators, WithoutOneTheJobWaitsAndSaysSo) {
  Driver d;
  d.job(1, wire::Policy::kValidator).host(1).ready(1, 0).collect();
  EXPECT_THAT(d.take<SendLease>(), IsEmpty());
  EXPECT_THAT(d.s->waiting_reason(1), HasSubstr("needs a trusted host"));
  d.host(9, Driver::spec(9, true));
  const SendLease ordinary = d.one<SendLease>();
  EXPECT_EQ(ordinary.host, 1u);
  d.say(1, ordinary.lease, 7);
  EXPECT_EQ(d.one<SendLease>().host, 9u);
}

// ---- planning

TEST(Planning, OneRequestAtATimeForAHostThatIsThere) {
  Driver d;
  d.job(1);
  EXPECT_THAT(d.take<PlanMore>(), IsEmpty());
  EXPECT_EQ(d.s->waiting_reason(1), "no host is connected");
  d.host(1);
  const PlanMore ask = d.one<PlanMore>();
  EXPECT_EQ(ask.memory_bytes, 256 * kMiB);
  EXPECT_EQ(ask.min_memory_bytes, 256 * kMiB);
  EXPECT_EQ(ask.hosts, 1u);
  EXPECT_EQ(ask.max_tasks, 8u);
  d.host(2);
  EXPECT_THAT(d.take<PlanMore>(), IsEmpty());
}

TEST(Planning, AsksAgainWhenFewAreReadyAndNotBefore) {
  Driver d;
  d.job(1).host(1);
  d.take<PlanMore>();
  for (TaskId t = 0; t < 8; ++t) d.ready(1, t);
  d.plan(1, GOBLIN_PLAN_MORE);
  EXPECT_EQ(d.s->job_counts(1).ready, 6u);
  EXPECT_THAT(d.take<PlanMore>(), IsEmpty());
  while (d.s->job_counts(1).ready >= 4) {
    EXPECT_THAT(d.take<PlanMore>(), IsEmpty());
    d.wait(kSecond);
    for (const SendLease& lease : d.take<SendLease>()) d.complete(1, lease, kSecond);
  }
  EXPECT_EQ(d.take<PlanMore>().size(), 1u);
}

TEST(Planning, ShortTasksArePlannedBySecondsOfWork) {
  Driver d;
  d.job(1).host(1);
  d.take<PlanMore>();
  d.ready(1, 0).plan(1, GOBLIN_PLAN_MORE);
  d.take<PlanMore>();
  d.wait(kSecond);
  d.complete(1, d.one<SendLease>(), 50);
  d.plan(1, GOBLIN_PLAN_MORE);
  EXPECT_EQ(d.one<PlanMore>().max_tasks, Config{}.max_ready);
}

TEST(Planning, WaitsForAnAcceptedResultWhenThePlannerDoes) {
  Driver d;
  d.job(1).host(1);
  d.take<PlanMore>();
  d.ready(1, 0).plan(1, GOBLIN_PLAN_WAIT);
  EXPECT_THAT(d.take<PlanMore>(), IsEmpty());
  d.complete(1, d.one<SendLease>());
  EXPECT_EQ(d.take<PlanMore>().size(), 1u);
}

TEST(Planning, AnAnswerThatCrossedAResultIsAskedForAgain) {
  Driver d;
  d.job(1).host(1);
  d.take<PlanMore>();
  d.ready(1, 0).plan(1, GOBLIN_PLAN_MORE);
  d.take<PlanMore>();
  d.complete(1, d.one<SendLease>());
  d.plan(1, GOBLIN_PLAN_WAIT);
  EXPECT_EQ(d.take<PlanMore>().size(), 1u);
}

TEST(Planning, APlannerThatWaitsForNothingFailsTheJob) {
  Driver d;
  d.job(1).host(1);
  for (int i = 0; i < 100 && !d.take<PlanMore>().empty(); ++i) d.plan(1, GOBLIN_PLAN_WAIT);
  EXPECT_EQ(d.one<FailJob>().error.code, Code::kInternal);
}

TEST(Planning, DoesNotSpinWhenAHostIsTooSmall) {
  Driver d;
  d.job(1).host(1);
  d.take<PlanMore>();
  d.plan(1, 0, true, 300 * kMiB);
  EXPECT_THAT(d.take<PlanMore>(), IsEmpty());
  d.wait(60 * kSecond);
  EXPECT_THAT(d.take<PlanMore>(), IsEmpty());
  EXPECT_EQ(d.s->waiting_reason(1), "each task needs 300 MiB and no host offers more than 256 MiB");
  EXPECT_THAT(d.s->host_counts(1).idle_reason, HasSubstr("needs 300 MiB"));
  HostSpec large = Driver::spec(2);
  large.memory_bytes = 512 * kMiB;
  d.host(2, large);
  // Hosts changed, so the small one may be asked for once more, then never again.
  PlanMore ask = d.one<PlanMore>();
  if (ask.memory_bytes == 256 * kMiB) {
    d.plan(1, 0, true, 0);
    ask = d.one<PlanMore>();
  }
  EXPECT_EQ(ask.memory_bytes, 512 * kMiB);
  EXPECT_EQ(ask.min_memory_bytes, 256 * kMiB);
}

TEST(Planning, OneTinyHostDoesNotMakeTasksSmallerForAll) {
  Driver d;
  HostSpec tiny = Driver::spec(1);
  tiny.memory_bytes = 8 * kMiB;
  d.host(1, tiny);
  for (HostId id = 2; id <= 5; ++id) d.host(id);
  d.job(1);
  PlanMore ask = d.one<PlanMore>();
  EXPECT_EQ(ask.min_memory_bytes, 256 * kMiB);
  // The tiny one asks first or last: the planner has nothing for it, the others are served.
  while (ask.memory_bytes == 8 * kMiB) {
    d.plan(1, 0, true, 0);
    ask = d.one<PlanMore>();
  }
  d.ready(1, 0, 1e6, 200 * kMiB).plan_done(1);
  const SendLease lease = d.one<SendLease>();
  EXPECT_NE(lease.host, 1u);
  // It is all that is left: then tasks are cut for it.
  d.job(2);
  d.kept.clear();
  for (HostId id = 2; id <= 5; ++id) d.s->host_left(id, d.now);
  EXPECT_THAT(d.s->waiting_reason(1), HasSubstr("each task needs 200 MiB"));
  Driver alone;
  alone.host(1, tiny).job(1);
  EXPECT_EQ(alone.one<PlanMore>().min_memory_bytes, 8 * kMiB);
}

TEST(Planning, TasksFitAValidatorWhereItDecides) {
  Driver d;
  HostSpec validator = Driver::spec(9, true);
  validator.memory_bytes = 64 * kMiB;
  d.host(1).host(9, validator).job(1, wire::Policy::kValidator);
  const PlanMore ask = d.one<PlanMore>();
  EXPECT_EQ(ask.min_memory_bytes, 64 * kMiB);
  EXPECT_EQ(ask.memory_bytes, 64 * kMiB) << "a larger task would never be accepted";
  EXPECT_EQ(d.s->cut_now({wire::Policy::kValidator, 0}).memory_bytes, 64 * kMiB);
  // The planner has nothing so small: it is not asked again and again.
  d.plan(1, 0, true, 80 * kMiB).wait(60 * kSecond);
  EXPECT_THAT(d.take<PlanMore>(), IsEmpty());
  EXPECT_EQ(d.s->waiting_reason(1),
            "each task needs 80 MiB and no validator offers more than 64 MiB");
  d.host(10, Driver::spec(10, true));
  EXPECT_EQ(d.one<PlanMore>().memory_bytes, 256 * kMiB);

  Driver other;
  other.host(1).host(9, validator).job(1);
  EXPECT_EQ(other.one<PlanMore>().min_memory_bytes, 256 * kMiB);
  EXPECT_EQ(other.s->cut_now({wire::Policy::kAlgebraic, 0}).memory_bytes, 256 * kMiB);
}

TEST(Planning, TasksFitAsManyIndependentHostsAsThePolicyAsksFor) {
  Driver d;
  HostSpec small = Driver::spec(3);
  small.memory_bytes = 64 * kMiB;
  d.host(1).host(2, Driver::spec(1)).host(3, small).job(1, wire::Policy::kReplicate);
  EXPECT_EQ(d.one<PlanMore>().memory_bytes, 64 * kMiB) << "two of the three are one group";
  d.plan(1, 0, true, 80 * kMiB);
  EXPECT_THAT(d.take<PlanMore>(), IsEmpty());
  EXPECT_EQ(d.s->waiting_reason(1),
            "each task needs 80 MiB and fewer than 2 independent hosts offer more than 64 MiB");
  d.host(4);
  EXPECT_EQ(d.one<PlanMore>().memory_bytes, 256 * kMiB);
}

TEST(Planning, PausedHostsAreNotCutFor) {
  Driver d;
  HostSpec paused = Driver::spec(1);
  paused.memory_bytes = 8 * kMiB;
  paused.accepting = false;
  EXPECT_EQ(d.s->cut_now({}).hosts, 0u);
  d.host(1, paused);
  EXPECT_EQ(d.s->cut_now({}).hosts, 0u);
  d.host(2);
  EXPECT_EQ(d.s->cut_now({}).hosts, 1u);
  EXPECT_EQ(d.s->cut_now({}).min_memory_bytes, 256 * kMiB);
}

TEST(Planning, AJobWithoutTasksEnds) {
  Driver d;
  d.job(1).host(1).plan_done(1);
  EXPECT_EQ(d.one<FinishJob>().job, 1u);
  d.host(2).wait(kSecond);
  EXPECT_THAT(d.take<FinishJob>(), IsEmpty()) << "said once";
}

TEST(Planning, AnAnswerNobodyAskedForIsIgnored) {
  Driver d;
  d.job(1).plan_done(1);
  EXPECT_THAT(d.take<FinishJob>(), IsEmpty());
  d.s->planned(77, GOBLIN_PLAN_DONE, false, 0, d.now);
  EXPECT_THAT(d.take<FinishJob>(), IsEmpty());
}

}  // namespace
}  // namespace goblin::scheduler
