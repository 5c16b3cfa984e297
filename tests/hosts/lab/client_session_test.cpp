// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Clients that ask for too much, or do not listen: they pay for it themselves.
#include <gmock/gmock.h>

#include "tests/hosts/lab/client_session_fixture.hpp"

namespace goblin::lab::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(ClientSessionTest, AFloodOfStageRequestsHoldsUpNobodyElse) {
  run([&]() -> net::Task<void> {
    auto greedy = connect();
    auto modest = connect();
    gated_->open_gate(false);
    const auto many = [&]() -> net::Task<void> {
      co_await flood(*greedy, 63, wire::Stage{kLarge});
      co_await flood(*greedy, 1, wire::GetStatus{});
    };
    loop_->spawn(many());
    CO_ASSERT_UNTIL(asked_ == 1);  // all that came before it have come as far as they can
    // The disk still works on the first; another client is served meanwhile.
    const auto staged = co_await ask(*modest, wire::Stage{4096});
    CO_ASSERT(staged);
    EXPECT_EQ(staged->status, GOBLIN_OK) << staged->message;
    EXPECT_EQ(gated_->waiting(), 1u) << "one file of a client at a time";
    const auto status = co_await ask(*modest, wire::GetStatus{});
    CO_ASSERT(status);
    EXPECT_EQ(gated_->waiting(), 1u);
    gated_->open_gate(true);
    greedy->close();
    modest->close();
    // What was under way at the disk ends after its session, and holds a turn until then.
    CO_ASSERT_UNTIL(sessions_ == 0 && engine_->disk_turns().under_way() == 0);
    const auto left = staging_->list();
    CO_ASSERT(left);
    EXPECT_THAT(*left, IsEmpty()) << "what its client did not submit goes with it";
  });
}

TEST_F(ClientSessionTest, OneClientMayNotStageForEver) {
  run([&]() -> net::Task<void> {
    auto client = connect();
    Result<wire::Reply> reply = fail(Code::kInternal, "");
    for (int i = 0; i < 2048; ++i) {
      reply = co_await ask(*client, wire::Stage{8});
      CO_ASSERT(reply && reply->status == GOBLIN_OK);
    }
    reply = co_await ask(*client, wire::Stage{8});
    CO_ASSERT(reply);
    EXPECT_EQ(reply->status, GOBLIN_EXHAUSTED);
    EXPECT_THAT(reply->message, HasSubstr("2048 arrays and submitted none"));
    client->close();
    CO_ASSERT_UNTIL(sessions_ == 0);
    EXPECT_EQ(staging_->used_bytes(), 0u);
  });
}

TEST_F(ClientSessionTest, AClientThatNeverReadsIsNotAnsweredForEver) {
  run([&]() -> net::Task<void> {
    auto deaf = connect();
    constexpr std::uint32_t kMany = 3000;  // replies of 180 MB in all
    bool sent_all = false;
    auto shout = [&]() -> net::Task<void> {
      co_await flood(*deaf, kMany, wire::GetStatus{});
      sent_all = true;
    };
    loop_->spawn(shout());
    CO_ASSERT_UNTIL(asked_ >= 64);
    // Others are served as ever, and what waits for the deaf one stays bounded.
    auto other = connect();
    for (int i = 0; i < 300; ++i) {
      const auto reply = co_await ask(*other, wire::GetJobs{});
      CO_ASSERT(reply && reply->status == GOBLIN_OK);
    }
    // 64 in the queue, 4 MiB in the channel, what the socket takes.
    EXPECT_LT(asked_, 300u);
    EXPECT_EQ(sessions_, 2);
    // It may read after all: nothing is lost.
    for (std::uint32_t i = 0; i < kMany; ++i) {
      auto frame = co_await deaf->receive();
      CO_ASSERT(frame);
      const auto reply = wire::decode_reply(frame->message);
      CO_ASSERT(reply);
      EXPECT_EQ(reply->number, i);
    }
    EXPECT_TRUE(sent_all);
    EXPECT_EQ(asked_, kMany);
    deaf->close();
    other->close();
    CO_ASSERT_UNTIL(sessions_ == 0);
  });
}

TEST_F(ClientSessionTest, JobsGoOnInTurnsAfterARestart) {
  constexpr std::size_t kJobs = 12;
  std::vector<std::uint64_t> jobs;
  run([&]() -> net::Task<void> {
    while (jobs.size() < kJobs) {
      const auto job = co_await submit_doubling(100);
      CO_ASSERT(job);
      jobs.push_back(*job);
    }
  });
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    const auto waits = jobs.back();
    jobs.pop_back();
    const auto cancelled = co_await engine_->cancel(waits);
    CO_ASSERT(cancelled);
    std::size_t most = 0;
    const auto all_run = [&] {
      most = std::max(most, engine_->runner_turns().under_way());
      return std::all_of(jobs.begin(), jobs.end(),
                         [&](auto job) { return status(job).state == wire::JobState::kRunning; });
    };
    CO_ASSERT_UNTIL(all_run());
    EXPECT_EQ(most, 4u);
    CO_ASSERT_UNTIL(engine_->runner_turns().under_way() == 0);
    const auto none = co_await engine_->result(waits);
    CO_ASSERT(!none);
    EXPECT_THAT(none.error().message, HasSubstr("was cancelled"));
  });
}

TEST_F(ClientSessionTest, WhatWasRemovedUnsubmittedDoesNotCount) {
  stage_keep_ms_ = 400;
  run([&]() -> net::Task<void> {
    auto client = connect();
    Result<wire::Reply> reply = fail(Code::kInternal, "");
    for (int i = 0; i < 2048; ++i) {
      reply = co_await ask(*client, wire::Stage{8});
      CO_ASSERT(reply && reply->status == GOBLIN_OK);
    }
    const auto last = std::get<wire::Staged>(reply->body).stage;
    CO_ASSERT_UNTIL(!engine_->is_staged(last));
    reply = co_await ask(*client, wire::Stage{8});
    CO_ASSERT(reply);
    EXPECT_EQ(reply->status, GOBLIN_OK) << reply->message;
    client->close();
  });
}

TEST_F(ClientSessionTest, TheEndOfAJobIsToldWithoutAPause) {
  event_pause_ = net::Milliseconds(3'600'000);
  run([&]() -> net::Task<void> {
    const auto job = co_await submit_doubling(100);  // no host: it waits
    CO_ASSERT(job);
    auto client = connect();
    const auto follows = co_await ask(*client, wire::GetJob{*job, true});
    CO_ASSERT(follows && follows->status == GOBLIN_OK);
    auto first = co_await client->receive();
    CO_ASSERT(first);
    EXPECT_EQ(first->type, wire::FrameType::kEvent);
    auto other = connect();
    const auto cancelled = co_await ask(*other, wire::CancelJob{*job});
    CO_ASSERT(cancelled && cancelled->status == GOBLIN_OK);
    auto last = co_await client->receive();
    CO_ASSERT(last);
    const auto event = wire::decode_event(last->message);
    CO_ASSERT(event);
    EXPECT_EQ(event->status.state, wire::JobState::kCancelled);
    client->close();
    other->close();
    CO_ASSERT_UNTIL(sessions_ == 0);
  });
}

TEST_F(ClientSessionTest, EventsWaitForAClientThatDoesNotRead) {
  run([&]() -> net::Task<void> {
    const auto job = co_await submit_doubling(100);  // no host: it waits
    CO_ASSERT(job);
    auto deaf = connect();
    auto shout = [&]() -> net::Task<void> {
      co_await flood(*deaf, 1, wire::GetJob{*job, true});
      co_await flood(*deaf, 3000, wire::GetStatus{});
    };
    loop_->spawn(shout());
    CO_ASSERT_UNTIL(asked_ >= 64);
    // It reads none of them until as many replies wait for it as may.
    auto other = connect();
    std::size_t before = 0;
    while (before != asked_) {
      before = asked_;
      for (int i = 0; i < 50; ++i) {
        const auto reply = co_await ask(*other, wire::GetJobs{});
        CO_ASSERT(reply && reply->status == GOBLIN_OK);
      }
    }
    // Changes of the job, each seen by one who reads before the next.
    const auto follows = co_await ask(*other, wire::GetJob{*job, true});
    CO_ASSERT(follows && follows->status == GOBLIN_OK);
    constexpr int kChanges = 8;
    const auto followed = engine_->follow(*job);
    for (int i = 0; i <= kChanges; ++i) {  // the first event tells how it is at first
      auto event = co_await other->receive();
      CO_ASSERT(event);
      EXPECT_EQ(event->type, wire::FrameType::kEvent);
      followed->record.message = "change " + std::to_string(i);
      ++followed->version;
      followed->changed.set();
    }
    const std::string last = followed->record.message;
    int events = 0;
    std::uint32_t replies = 0;
    bool newest = false;
    while (replies < 3001 || !newest) {
      auto frame = co_await deaf->receive();
      CO_ASSERT(frame);
      if (frame->type == wire::FrameType::kReply) {
        ++replies;
        continue;
      }
      auto event = wire::decode_event(frame->message);
      CO_ASSERT(event);
      ++events;
      newest = event->status.message == last;
    }
    EXPECT_LE(events, 3) << "at first, what was under way, and how it is now";
    deaf->close();
    other->close();
    CO_ASSERT_UNTIL(sessions_ == 0);
  });
}

TEST_F(ClientSessionTest, ARefusedSubmissionOnThisMachineKeepsNoRoom) {
  run([&]() -> net::Task<void> {
    auto client = connect();
    auto staged = co_await ask(*client, wire::Stage{800});
    CO_ASSERT(staged && staged->status == GOBLIN_OK);
    wire::Submit submit;
    submit.kind = "faulty";
    wire::JobInput input;
    input.name = "x";
    input.dtype = GOBLIN_F64;
    input.shape = {100};
    input.storage = wire::Storage::kStaged;
    input.stage = std::get<wire::Staged>(staged->body).stage;
    submit.inputs.push_back(input);
    wire::JobOutputFile output;
    output.name = "y";
    submit.outputs.push_back(output);  // without a descriptor
    const auto reply = co_await ask(*client, submit);
    CO_ASSERT(reply);
    EXPECT_EQ(reply->status, GOBLIN_INVALID_ARGUMENT);
    EXPECT_EQ(staged_files(), 0u);
    client->close();
    CO_ASSERT_UNTIL(sessions_ == 0);
  });
}

}  // namespace
}  // namespace goblin::lab::test
