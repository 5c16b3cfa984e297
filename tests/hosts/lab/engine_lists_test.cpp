// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Lists of jobs and hosts within the cap of a reply, however many there are and whatever they say.
#include <gmock/gmock.h>

#include "core/wire/bounds.hpp"
#include "core/wire/frame.hpp"
#include "tests/hosts/lab/engine_fixture.hpp"

namespace goblin::lab::test {
namespace {

class EngineListsTest : public EngineFixture {
 protected:
  /// Bytes of a reply; it fits its frame and can be read.
  template <typename Body>
  static std::size_t bytes_of_reply(const Body& body) {
    wire::Reply reply;
    reply.body = body;
    const wire::Bytes bytes = wire::encode(reply);
    const auto caps = wire::frame_caps(static_cast<std::uint16_t>(wire::FrameType::kReply),
                                       wire::PeerState::kOpen);
    EXPECT_LE(bytes.size(), caps.message_bytes);
    EXPECT_TRUE(wire::decode_reply(bytes));
    return bytes.size();
  }
  /// An ended job with `outputs` outputs whose names and messages are so long.
  void journal_ended(std::size_t outputs, std::size_t name, std::size_t text) {
    store::JobRecord record;
    record.token[0] = static_cast<std::uint8_t>(++jobs_);
    record.token[1] = static_cast<std::uint8_t>(jobs_ >> 8);
    record.kind = std::string(wire::kMaxNameBytes - 2, 'k') + "/1";
    record.state = wire::JobState::kFailed;
    record.status = GOBLIN_INTERNAL;
    record.message = std::string(text, 'm');
    record.ended_unix_ms = INT64_MAX;
    wire::Explanation told;
    told.status.job = jobs_;
    told.status.kind = record.kind;
    told.status.state = record.state;
    told.status.message = record.message;
    for (std::size_t i = 0; i < outputs; ++i) {
      wire::OutputInfo info;
      info.name = std::string(name, 'o');
      info.spec = {GOBLIN_F64, std::vector<std::int64_t>(GOBLIN_MAX_RANK, 1)};
      info.digest.bytes[0] = 1;
      told.status.outputs.push_back(std::move(info));
    }
    wire::Reply summary;
    summary.body = std::move(told);
    record.summary = wire::encode(summary);
    EXPECT_TRUE(journal_->add_job(record));
  }
  void open_journal() {
    run([]() -> net::Task<void> { co_return; });
  }
  /// How many of all jobs the list has: the newest.
  void expect_newest(std::size_t least) {
    run([&]() -> net::Task<void> {
      const wire::JobList list = engine_->jobs();
      EXPECT_GE(list.jobs.size(), least);
      EXPECT_LE(list.jobs.size(), jobs_);
      bytes_of_reply(list);
      std::uint64_t expected = jobs_ - list.jobs.size();
      for (const auto& job : list.jobs) {
        EXPECT_EQ(job.job, ++expected);
      }
      co_return;
    });
  }

  std::uint64_t jobs_ = 0;
};

TEST_F(EngineListsTest, JobsWithLongMessages) {
  open_journal();
  for (int i = 0; i < 80; ++i) {  // 5 MiB of them
    journal_ended(1, 1, wire::kMaxTextBytes);
  }
  expect_newest(40);
}

TEST_F(EngineListsTest, JobsWithManyOutputs) {
  open_journal();
  for (int i = 0; i < 20; ++i) {
    journal_ended(wire::kMaxTensors, wire::kMaxNameBytes, 0);
  }
  expect_newest(5);
}

TEST_F(EngineListsTest, ManyPlainJobs) {
  open_journal();
  for (std::size_t i = 0; i < wire::kMaxJobs + 100; ++i) {
    journal_ended(1, 6, 40);
  }
  expect_newest(3000);
}

TEST_F(EngineListsTest, ManyHosts) {
  constexpr std::size_t kMany = 12'000;
  run([&]() -> net::Task<void> {
    std::vector<std::shared_ptr<FakeHost>> hosts;
    for (std::size_t i = 0; i < kMany; ++i) {
      hosts.push_back(join("host " + std::to_string(i)));
    }
    for (std::size_t i = 0; i + 10 < kMany; ++i) {
      engine_->host_left(hosts[i]->id, hosts[i].get());
    }
    const wire::HostList list = engine_->hosts();
    EXPECT_GE(list.hosts.size(), 8000u);
    EXPECT_LT(list.hosts.size(), kMany) << "the test has too few to fill a reply";
    bytes_of_reply(list);
    for (std::size_t i = 0; i < list.hosts.size(); ++i) {
      EXPECT_EQ(list.hosts[i].connected, i < 10) << "those that are here come first";
    }
    EXPECT_EQ(engine_->footprint().hosts, 10u);
    co_return;
  });
}

TEST_F(EngineListsTest, AnExplanationOfAJobWithManyHosts) {
  constexpr std::int64_t kMany = 8'000;
  std::uint64_t job = 0;
  run([&]() -> net::Task<void> {
    const auto submitted = co_await submit_tiny(kMany + 1);
    CO_ASSERT(submitted);
    job = *submitted;
  });
  std::vector<store::AcceptedRecord> records;
  for (std::int64_t task = 0; task < kMany; ++task) {
    store::AcceptedRecord record;
    record.job = job;
    record.task = static_cast<std::uint64_t>(task);
    record.host = net::blob_digest(std::as_bytes(std::span(&task, 1)));
    record.merged = true;
    record.planned.id = record.task;
    record.planned.outputs = {{GOBLIN_I64, {}}};
    records.push_back(std::move(record));
  }
  ASSERT_TRUE(journal_->set_plan_state(job, {}));
  ASSERT_TRUE(journal_->record_accepted(records));
  const auto refused = records.back();
  ASSERT_TRUE(journal_->record_quarantine(
      {job, refused.host, refused.task, std::string(wire::kMaxTextBytes, 'r')}));
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    CO_ASSERT_UNTIL(status(job).tasks_accepted > 0);
    const auto told = co_await engine_->explain(job);
    CO_ASSERT(told);
    EXPECT_GT(told->hosts.size(), 3000u);
    EXPECT_LT(told->hosts.size(), std::size_t{kMany}) << "the test has too few to fill a reply";
    EXPECT_EQ(told->hosts.front().host, refused.host) << "who was refused comes first";
    bytes_of_reply(*told);
  });
}

}  // namespace
}  // namespace goblin::lab::test
