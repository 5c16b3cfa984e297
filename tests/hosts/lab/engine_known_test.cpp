// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What the engine knows jobs and hosts by: tokens, keys; and results that were accepted before.
#include <gmock/gmock.h>

#include "tests/hosts/lab/engine_fixture.hpp"

namespace goblin::lab::test {
namespace {

using testing::HasSubstr;

/// A journal that has lost the records of accepted tasks.
class LossyJournal final : public store::LabJournal {
 public:
  explicit LossyJournal(store::LabJournal& below) : below_(below) {}
  Result<std::uint64_t> add_job(const store::JobRecord& job) override {
    return below_.add_job(job);
  }
  Result<void> set_plan_state(std::uint64_t job, const wire::Bytes& state) override {
    return below_.set_plan_state(job, state);
  }
  Result<void> set_job_state(std::uint64_t job, wire::JobState state, std::int32_t status,
                             const std::string& message, std::int64_t ended_unix_ms,
                             const wire::Bytes& summary) override {
    return below_.set_job_state(job, state, status, message, ended_unix_ms, summary);
  }
  Result<void> record_accepted(const std::vector<store::AcceptedRecord>& records) override {
    return below_.record_accepted(records);
  }
  Result<void> withdraw_accepted(std::uint64_t job, std::uint64_t task) override {
    return below_.withdraw_accepted(job, task);
  }
  Result<void> record_quarantine(const store::QuarantineRecord& record) override {
    return below_.record_quarantine(record);
  }
  Result<void> forget_job(std::uint64_t job) override { return below_.forget_job(job); }
  Result<std::vector<store::JobRecord>> jobs() override { return below_.jobs(); }
  Result<void> visit_jobs(const std::function<void(store::JobRecord)>& visit) override {
    return below_.visit_jobs(visit);
  }
  Result<store::JobRecord> job(std::uint64_t number) override { return below_.job(number); }
  Result<std::vector<store::AcceptedRecord>> accepted(std::uint64_t job) override {
    if (++reads_ > 1 && unreadable > 0) {  // the first is the restart's own
      --unreadable;
      return fail(Code::kUnavailable, "input/output error");
    }
    return below_.accepted(job);
  }
  Result<store::AcceptedRecord> accepted_task(std::uint64_t, std::uint64_t) override {
    return fail(Code::kCorrupt, "the page of this record is damaged");
  }
  Result<std::vector<store::QuarantineRecord>> quarantines(std::uint64_t job) override {
    return below_.quarantines(job);
  }
  Result<void> record_standings(const std::vector<store::StandingRecord>& records) override {
    return below_.record_standings(records);
  }
  Result<void> forget_standings(const std::vector<wire::Digest>& hosts) override {
    return below_.forget_standings(hosts);
  }
  Result<std::vector<store::StandingRecord>> standings() override { return below_.standings(); }

 private:
  store::LabJournal& below_;
  int reads_ = 0;

 public:
  std::atomic<int> unreadable{0};  ///< so many looks at accepted tasks fail
};

class EngineKnownTest : public EngineFixture {
 protected:
  store::LabJournal& journal() override {
    lossy_ = std::make_unique<LossyJournal>(*journal_);
    lossy_->unreadable = unreadable_;
    return is_lossy_ ? static_cast<store::LabJournal&>(*lossy_) : *journal_;
  }
  static wire::Bytes number(std::int64_t value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    return {bytes.begin(), bytes.end()};
  }
  /// What task 0 of "tiny-tasks" answers, and no other one.
  const wire::Bytes right_for_0_ = number(0);
  bool is_lossy_ = false;
  int unreadable_ = 0;
  std::unique_ptr<LossyJournal> lossy_;
};

const wire::Lease* lease_of_task(const FakeHost& host, std::int64_t task) {
  const auto found = std::find_if(host.leases.begin(), host.leases.end(),
                                  [&](const auto& l) { return l.params.at(0).i == task; });
  return found == host.leases.end() ? nullptr : &*found;
}

/// A host is refused; what it had delivered before cannot be looked up for the check.
TEST_F(EngineKnownTest, AJobWhoseAcceptedResultCannotBeCheckedAgainEnds) {
  is_lossy_ = true;
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    const auto job = co_await submit_tiny(2);
    CO_ASSERT(job);
    CO_ASSERT_UNTIL(lease_of_task(*host, 0) && lease_of_task(*host, 1));
    commit(*host, *lease_of_task(*host, 0), right_for_0_);
    CO_ASSERT_UNTIL(status(*job).tasks_accepted == 1);
    commit(*host, *lease_of_task(*host, 1), right_for_0_);
    CO_ASSERT_UNTIL(status(*job).state == wire::JobState::kFailed);
    EXPECT_THAT(status(*job).message, HasSubstr("checking task 0 of a refused host again"));
    EXPECT_THAT(status(*job).message, HasSubstr("damaged"));
  });
}

/// What task `i` of "tiny-tasks" answers (tests/testing/plugins/tiny_tasks.cpp).
std::int64_t right_for(std::uint64_t i) {
  const std::uint64_t x = i * 0x9E3779B97F4A7C15u;
  return static_cast<std::int64_t>(x ^ (x >> 32));
}

TEST_F(EngineKnownTest, FewResultsOfARefusedHostAreCheckedAgainAtOnce) {
  constexpr std::int64_t kRight = 40;
  run([&]() -> net::Task<void> {
    const auto liar = join("liar");
    const auto job = co_await submit_tiny(kRight + 1);
    CO_ASSERT(job);
    for (std::int64_t task = 0; task < kRight; ++task) {
      CO_ASSERT_UNTIL(lease_of_task(*liar, task));
      commit(*liar, *lease_of_task(*liar, task), number(right_for(task)));
    }
    CO_ASSERT_UNTIL(status(*job).tasks_accepted == kRight);
    CO_ASSERT_UNTIL(lease_of_task(*liar, kRight));
    const auto followed = engine_->follow(*job);
    const std::uint64_t checked = followed->counters->checked;
    commit(*liar, *lease_of_task(*liar, kRight), number(7));
    std::size_t most = 0;
    const auto all_again = [&] {
      most = std::max(most, followed->rechecking);
      return followed->counters->checked >= checked + kRight + 1;
    };
    CO_ASSERT_UNTIL(all_again());
    EXPECT_GE(most, 1u);
    EXPECT_LE(most, 4u);
    EXPECT_EQ(status(*job).tasks_accepted, static_cast<std::uint64_t>(kRight)) << "they hold";
    const auto honest = join("honest");
    CO_ASSERT_UNTIL(lease_of_task(*honest, kRight));
    commit(*honest, *lease_of_task(*honest, kRight), number(right_for(kRight)));
    CO_ASSERT_UNTIL(status(*job).state == wire::JobState::kDone);
  });
}

/// After a restart the disk does not answer for a while.
TEST_F(EngineKnownTest, AJobWhoseJournalCannotBeReadAfterARestartTriesAgain) {
  std::uint64_t job = 0;
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    const auto submitted = co_await submit_tiny(2);
    CO_ASSERT(submitted);
    job = *submitted;
    CO_ASSERT_UNTIL(lease_of_task(*host, 0));
    commit(*host, *lease_of_task(*host, 0), right_for_0_);
    CO_ASSERT_UNTIL(status(job).tasks_accepted == 1);
  });
  is_lossy_ = true;
  unreadable_ = 3;
  retry_ms_ = 50;
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    CO_ASSERT_UNTIL(status(job).message.find("input/output error") != std::string::npos);
    EXPECT_EQ(status(job).state, wire::JobState::kQueued);
    CO_ASSERT_UNTIL(lease_of_task(*host, 1));
    EXPECT_EQ(status(job).message, "");
    EXPECT_FALSE(lease_of_task(*host, 0)) << "it was accepted before";
    commit(*host, *lease_of_task(*host, 1), number(right_for(1)));
    CO_ASSERT_UNTIL(status(job).state == wire::JobState::kDone);
  });
}

TEST_F(EngineKnownTest, ATokenNamesItsJobAlsoAfterARestartAndUntilItIsForgotten) {
  const auto submit = [&]() -> net::Task<std::uint64_t> {
    token_ = 0;  // the same each time
    const auto job = co_await submit_tiny(1);
    EXPECT_TRUE(job);
    co_return job ? *job : 0;
  };
  std::uint64_t first = 0;
  run([&]() -> net::Task<void> {
    first = co_await submit();
    const auto same = co_await submit();
    EXPECT_EQ(same, first);
  });
  run([&]() -> net::Task<void> {
    const auto same = co_await submit();
    EXPECT_EQ(same, first);
    EXPECT_TRUE(co_await engine_->cancel(first));
    const auto ended = co_await submit();
    EXPECT_EQ(ended, first);
    EXPECT_TRUE(co_await engine_->forget(first));
    const auto another = co_await submit();
    EXPECT_NE(another, first);
    EXPECT_EQ(engine_->jobs().jobs.size(), 1u);
  });
}

TEST_F(EngineKnownTest, KeysThatCameAndWentAreForgottenInTime) {
  max_known_hosts_ = 64;
  run([&]() -> net::Task<void> {
    const auto stays = join("stays");
    const auto liar = join("liar");
    const auto job = co_await submit_tiny(1);
    CO_ASSERT(job);
    CO_ASSERT_UNTIL(!liar->leases.empty() || !stays->leases.empty());
    if (liar->leases.empty()) {
      hand_back(*stays, stays->leases[0].lease, Code::kUnavailable);
      CO_ASSERT_UNTIL(!liar->leases.empty());
    }
    commit(*liar, liar->leases[0], number(7));
    CO_ASSERT_UNTIL(report(*liar).refused == 1);
    engine_->host_left(liar->id, liar.get());
    for (int i = 0; i < 500; ++i) {
      const auto passer = join("passer " + std::to_string(i));
      EXPECT_NE(passer->id, liar->id);
      engine_->host_left(passer->id, passer.get());
      EXPECT_LE(engine_->hosts().hosts.size(), 65u);
    }
    EXPECT_GE(engine_->hosts().hosts.size(), 32u) << "not all at once";
    EXPECT_TRUE(report(*stays).connected);
    EXPECT_EQ(report(*liar).refused, 1u);
    // A running job remembers whom it refused.
    const auto before = liar->id;
    const auto again = join("liar");
    EXPECT_EQ(again->id, before);
    for (int i = 0; i < 20; ++i) {
      co_await loop_->sleep(net::Milliseconds(0));
    }
    EXPECT_TRUE(again->leases.empty());
    EXPECT_THAT(report(*again).reason, HasSubstr("refused"));
  });
}

}  // namespace
}  // namespace goblin::lab::test
