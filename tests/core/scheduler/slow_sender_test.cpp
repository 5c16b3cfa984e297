// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A host whose results come, but slowly.
#include <gmock/gmock.h>

#include <map>

#include "tests/core/scheduler/driver.hpp"

namespace goblin::scheduler {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Delivery, WhoIsKnownToSendSlowlyIsNamedAndNotWaitedForAgain) {
  Driver d;
  d.job(1).host(1).host(2);
  const auto play = [&d](JobId job) {
    d.ready(job, 0, 1e6, 0, {}, 10 * kMiB).ready(job, 1, 1e6, 0, {}, 10 * kMiB).plan_done(job);
    const Micros begin = d.now;
    std::map<LeaseId, HostId> sent;
    for (const SendLease& l : d.take<SendLease>()) {
      sent[l.lease] = l.host;
      d.wait(1000).say(l.host, l.lease, l.task);
    }
    while (d.s->job_counts(job).accepted < 2 && d.now < begin + 60 * kSecond) {
      for (const auto& [lease, host] : sent) {
        if (host == 1) {
          d.s->fetch_progress(lease, 205, d.now);  // 2 KiB/s
          continue;
        }
        d.s->fetched(lease, d.now);
        d.s->checked(lease, Verdict::kAccept, d.now);
      }
      for (const AcceptResult& a : d.collect().take<AcceptResult>())
        d.s->accepted(a.job, a.task, d.now);
      for (const SendLease& l : d.take<SendLease>()) {
        sent[l.lease] = l.host;
        d.say(l.host, l.lease, l.task);
      }
      d.wait(100'000);
    }
    EXPECT_EQ(d.s->job_counts(job).accepted, 2u);
    return d.now - begin;
  };
  EXPECT_GE(play(1), Config{}.fetch_floor) << "nothing is known of it";
  std::string told;
  for (const Incident& i : d.take<Incident>())
    if (i.note && i.host == 1) told = i.what;
  EXPECT_THAT(told, AllOf(HasSubstr("sends its results slowly"), HasSubstr("bytes/s")));
  d.job(2);
  EXPECT_LE(play(2), kSecond);
  EXPECT_EQ(d.s->host_counts(1).refused, 0u);
}

}  // namespace
}  // namespace goblin::scheduler
