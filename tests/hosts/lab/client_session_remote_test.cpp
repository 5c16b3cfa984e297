// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Clients over TLS: what they may pull, and what they make the lab node keep.
#include <fcntl.h>
#include <gmock/gmock.h>

#include "tests/hosts/lab/client_session_fixture.hpp"

namespace goblin::lab::test {
namespace {

using testing::HasSubstr;

using RemoteClientTest = ClientSessionTest;

TEST_F(RemoteClientTest, NoMoreJobsThanTheSettingAllows) {
  max_jobs_ = 2;
  run([&]() -> net::Task<void> {
    auto client = connect_remote();
    // At the same time: those that are not journalled yet count, too.
    std::vector<wire::Reply> replies;
    const auto submit = [&]() -> net::Task<void> {
      auto body = remote_doubling(*client, 100);
      auto reply = co_await client->ask(std::move(body));
      CO_ASSERT(reply);
      replies.push_back(std::move(*reply));
    };
    for (int i = 0; i < 5; ++i) {
      loop_->spawn(submit());
    }
    CO_ASSERT_UNTIL(replies.size() == 5);
    std::vector<std::uint64_t> jobs;
    for (const auto& reply : replies) {
      if (reply.status == GOBLIN_OK) {
        jobs.push_back(std::get<wire::JobStatus>(reply.body).job);
        continue;
      }
      EXPECT_EQ(reply.status, GOBLIN_EXHAUSTED);
      EXPECT_THAT(reply.message, HasSubstr("2 jobs that have not ended"));
      EXPECT_THAT(reply.message, HasSubstr("'jobs.most'"));
    }
    CO_ASSERT(jobs.size() == 2);
    EXPECT_EQ(staged_files(), 4u) << "inputs and outputs of two jobs";
    // An estimate is no job, and an end makes room.
    auto body = remote_doubling(*client, 100);
    body.dry_run = true;
    auto reply = co_await client->ask(body);
    CO_ASSERT(reply);
    EXPECT_EQ(reply->status, GOBLIN_OK) << reply->message;
    const auto cancelled = co_await engine_->cancel(jobs[0]);
    CO_ASSERT(cancelled);
    co_await submit();
    EXPECT_EQ(replies.back().status, GOBLIN_OK) << replies.back().message;
    client->close();
    CO_ASSERT_UNTIL(sessions_ == 0);
  });
}

TEST_F(RemoteClientTest, ARemoteClientPullsResults) {
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    auto client = connect_remote();
    auto submit = remote_doubling(*client, 5000);
    const auto submitted = co_await client->ask(std::move(submit));
    CO_ASSERT(submitted);
    EXPECT_EQ(submitted->status, GOBLIN_OK) << submitted->message;
    CO_ASSERT(std::holds_alternative<wire::JobStatus>(submitted->body));
    const auto job = std::get<wire::JobStatus>(submitted->body).job;
    co_await finish(*host, job, 5000);
    const auto result = co_await client->ask(wire::GetResult{job});
    CO_ASSERT(result && result->status == GOBLIN_OK);
    const auto info = std::get<wire::JobStatus>(result->body).outputs.at(0);
    const auto bytes = co_await client->pull(info.digest);
    CO_ASSERT(bytes);
    EXPECT_EQ(*bytes, doubled(5000));

    const auto forgotten = co_await client->ask(wire::ForgetJob{job});
    CO_ASSERT(forgotten && forgotten->status == GOBLIN_OK);
    const auto gone = co_await client->pull(info.digest);
    CO_ASSERT(!gone);
    EXPECT_EQ(gone.error().code, Code::kNotFound) << "a forgotten result keeps no room";
    client->close();
    CO_ASSERT_UNTIL(sessions_ == 0);
  });
}

/// A job of somebody on the lab node's machine, whose result lies in a file there.
TEST_F(RemoteClientTest, ResultsInFilesAreNotPulled) {
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    wire::Submit submit;
    submit.kind = "faulty";
    submit.inputs.push_back(co_await vector(5000));
    const std::string path = dir_.path() + "/y";
    std::vector<net::UniqueFd> fds;
    fds.emplace_back(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    CO_ASSERT(fds[0].valid() && ::ftruncate(fds[0].get(), 5000 * sizeof(double)) == 0);
    wire::JobOutputFile output;
    output.name = "y";
    output.path = path;
    submit.outputs.push_back(output);
    const auto in_file = co_await send(std::move(submit), std::move(fds));
    if (!in_file) {
      ADD_FAILURE() << in_file.error().message;
      co_return;
    }
    co_await finish(*host, *in_file, 5000);
    const auto staged = co_await submit_doubling(5000);
    CO_ASSERT(staged);
    co_await finish(*host, *staged, 5000);

    auto client = connect_remote();
    auto reply = co_await client->ask(wire::GetResult{*in_file});
    CO_ASSERT(reply);
    EXPECT_EQ(reply->status, GOBLIN_NOT_FOUND);
    EXPECT_THAT(reply->message, HasSubstr("output 'y' of job " + std::to_string(*in_file) +
                                          " was written to a file on the lab node's machine"));
    const auto nothing = co_await client->pull(wire::Digest{});
    CO_ASSERT(!nothing);
    EXPECT_EQ(nothing.error().code, Code::kNotFound);

    // Of several outputs, the descriptors of the staged ones belong to these.
    const auto done = engine_->follow(*staged);
    done->record.outputs.insert(done->record.outputs.begin(), done->record.outputs[0]);
    done->record.output_stages.insert(done->record.output_stages.begin(), 0);
    done->record.outputs[0].name = "in a file";
    done->record.outputs[0].staged = false;
    CO_ASSERT(done->told);
    done->told->outputs = done->record.outputs;
    reply = co_await client->ask(wire::GetResult{*staged});
    CO_ASSERT(reply && reply->status == GOBLIN_OK);
    const auto& outputs = std::get<wire::JobStatus>(reply->body).outputs;
    CO_ASSERT(outputs.size() == 2);
    EXPECT_FALSE(outputs[0].staged);
    EXPECT_EQ(outputs[0].digest, wire::Digest{});
    const auto bytes = co_await client->pull(outputs[1].digest);
    CO_ASSERT(bytes);
    EXPECT_EQ(*bytes, doubled(5000));
    client->close();
    CO_ASSERT_UNTIL(sessions_ == 0);
  });
}

TEST_F(RemoteClientTest, OneRemoteClientHoldsFewResults) {
  run([&]() -> net::Task<void> {
    const auto host = join("a");
    const auto a = co_await job_with_many_outputs(*host, 1);
    const auto b = co_await job_with_many_outputs(*host, 101);
    const auto c = co_await job_with_many_outputs(*host, 201);
    auto client = connect_remote();
    std::map<std::uint64_t, wire::Digest> digests;
    for (const auto job : {a, b, c}) {
      const auto reply = co_await client->ask(wire::GetResult{job});
      CO_ASSERT(reply && reply->status == GOBLIN_OK);
      digests[job] = std::get<wire::JobStatus>(reply->body).outputs.at(99).digest;
    }
    const auto may_pull = [&](std::uint64_t job) -> net::Task<bool> {
      const auto bytes = co_await client->pull(digests[job]);
      EXPECT_TRUE(bytes || bytes.error().code == Code::kNotFound) << bytes.error().message;
      co_return bool(bytes);
    };
    const bool first = co_await may_pull(a);
    EXPECT_FALSE(first) << "the oldest makes room";
    const bool second = co_await may_pull(b);
    EXPECT_TRUE(second);
    const bool third = co_await may_pull(c);
    EXPECT_TRUE(third);
    const auto again = co_await client->ask(wire::GetResult{a});
    CO_ASSERT(again && again->status == GOBLIN_OK);
    const bool back = co_await may_pull(a);
    EXPECT_TRUE(back) << "it may be asked for again";
    const bool dropped = co_await may_pull(b);
    EXPECT_FALSE(dropped);
    // Somebody else forgets a job: the next request lets its files go.
    CO_ASSERT(co_await engine_->forget(c));
    const auto other = co_await client->ask(wire::GetResult{b});
    CO_ASSERT(other && other->status == GOBLIN_OK);
    const bool forgotten = co_await may_pull(c);
    EXPECT_FALSE(forgotten);
    client->close();
    CO_ASSERT_UNTIL(sessions_ == 0);
  });
}

TEST_F(RemoteClientTest, ArraysThatDoNotComeKeepNoRoom) {
  run([&]() -> net::Task<void> {
    auto client = connect_remote();
    // The first array comes, the second has other bytes than its digest says.
    auto submit = remote_doubling(*client, 5000);
    submit.inputs.push_back(submit.inputs[0]);
    submit.inputs[1].name = "z";
    submit.inputs[1].digest = net::blob_digest(bytes_of(std::vector<double>(1, 7.0)));
    client->lie(submit.inputs[1].digest, doubled(5000));
    auto reply = co_await client->ask(submit);
    CO_ASSERT(reply);
    EXPECT_EQ(reply->status, GOBLIN_CORRUPT);
    EXPECT_THAT(reply->message, HasSubstr("array 'z' does not hash"));
    EXPECT_EQ(staged_files(), 0u);
    // Nobody has it.
    submit.inputs[1].digest = net::blob_digest(bytes_of(std::vector<double>(1, 8.0)));
    reply = co_await client->ask(submit);
    CO_ASSERT(reply);
    EXPECT_EQ(reply->status, GOBLIN_NOT_FOUND);
    EXPECT_EQ(staged_files(), 0u);
    // Not a blob's layout.
    submit.inputs[1].digest = submit.inputs[0].digest;
    submit.inputs[1].offset = 8;
    reply = co_await client->ask(submit);
    CO_ASSERT(reply);
    EXPECT_EQ(reply->status, GOBLIN_INVALID_ARGUMENT);
    EXPECT_EQ(staged_files(), 0u);
    EXPECT_EQ(staging_->used_bytes(), 0u);
    client->close();
    CO_ASSERT_UNTIL(sessions_ == 0);
  });
}

TEST_F(RemoteClientTest, ARemoteClientMayNotStageForEver) {
  run([&]() -> net::Task<void> {
    auto client = connect_remote();
    // Two submissions wait for their last array, and hold all that one client may.
    auto submit = remote_doubling(*client, 1);
    const auto one = submit.inputs[0];
    submit.inputs.assign(1024, one);
    submit.inputs.back().digest = client->hold(bytes_of(std::vector<double>(1, 7.0)));
    int ended = 0;
    const auto large = [&]() -> net::Task<void> {
      const auto reply = co_await client->ask(submit);
      CO_ASSERT(reply);
      EXPECT_EQ(reply->status, GOBLIN_INVALID_ARGUMENT) << "the kind has one input";
      ++ended;
    };
    loop_->spawn(large());
    loop_->spawn(large());
    CO_ASSERT_UNTIL(staged_files() == 2048 && client->waiting() == 2);
    wire::Submit small = submit;
    small.inputs.assign(1, one);
    auto next = co_await client->ask(small);
    CO_ASSERT(next);
    EXPECT_EQ(next->status, GOBLIN_EXHAUSTED);
    EXPECT_THAT(next->message, HasSubstr("2048 arrays and submitted none"));
    EXPECT_EQ(staged_files(), 2048u);
    client->release();
    CO_ASSERT_UNTIL(ended == 2);
    EXPECT_EQ(staged_files(), 0u);
    next = co_await client->ask(small);
    CO_ASSERT(next);
    EXPECT_EQ(next->status, GOBLIN_OK) << next->message;
    client->close();
    CO_ASSERT_UNTIL(sessions_ == 0);
  });
}

}  // namespace
}  // namespace goblin::lab::test
