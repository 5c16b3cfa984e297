// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Clients that ask for too much, or do not listen: they pay for it themselves.
#include "hosts/lab/client_session.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "tests/hosts/lab/engine_fixture.hpp"
#include "tests/hosts/lab/gated_staging.hpp"

namespace goblin::lab::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// A connection that says it comes from another machine.
class RemoteChannel final : public net::Channel {
 public:
  explicit RemoteChannel(std::unique_ptr<net::Channel> below) : below_(std::move(below)) {
    peer_.address = "192.0.2.7";
  }
  net::Task<Result<net::Frame>> receive() override { return below_->receive(); }
  net::Task<Result<void>> send(net::Frame frame) override {
    EXPECT_TRUE(frame.fds.empty()) << "descriptors do not travel to another machine";
    return below_->send(std::move(frame));
  }
  void close() override { below_->close(); }
  [[nodiscard]] bool is_open() const override { return below_->is_open(); }
  [[nodiscard]] const net::Peer& peer() const override { return peer_; }
  [[nodiscard]] std::uint64_t bytes_sent() const override { return below_->bytes_sent(); }
  [[nodiscard]] std::uint64_t bytes_received() const override { return below_->bytes_received(); }
  void set_state(wire::PeerState state) override { below_->set_state(state); }
  void set_limits(const net::ChannelLimits& limits) override { below_->set_limits(limits); }

 private:
  std::unique_ptr<net::Channel> below_;
  net::Peer peer_;
};

class BytesSource final : public net::BlobSource {
 public:
  explicit BytesSource(wire::Bytes bytes) : bytes_(std::move(bytes)) {}
  [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
  Result<void> read(std::uint64_t offset, std::span<std::byte> out) override {
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return {};
  }

 private:
  wire::Bytes bytes_;
};

class BytesSink final : public net::BlobSink {
 public:
  Result<void> begin(std::uint64_t size) override {
    bytes.resize(size);
    return {};
  }
  Result<void> write(std::uint64_t offset, wire::ByteView part) override {
    std::copy(part.begin(), part.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset));
    return {};
  }
  wire::Bytes bytes;
};

/// A client over TLS: asks, serves its arrays and pulls results.
class RemoteClient {
 public:
  RemoteClient(net::Loop& loop, std::unique_ptr<net::Channel> channel)
      : loop_(loop), channel_(std::move(channel)), replied_(loop), released_(loop) {
    blobs_ = net::BlobExchange::create(loop_, *channel_,
                                       [this](const wire::Digest& d) { return find(d); });
    loop_.spawn(read());
  }
  net::Task<Result<wire::Reply>> ask(wire::RequestBody body) {
    wire::Request message;
    message.number = ++number_;
    message.body = std::move(body);
    const std::uint32_t number = message.number;
    net::Frame frame = net::make_frame(wire::FrameType::kRequest, message);
    GOBLIN_CO_TRY_VOID(co_await channel_->send(std::move(frame)));
    while (!replies_.contains(number) && channel_->is_open()) {
      replied_.reset();
      co_await replied_.wait();
    }
    if (!replies_.contains(number)) {
      co_return fail(Code::kUnavailable, "the lab node closed the connection");
    }
    co_return std::move(replies_.extract(number).mapped());
  }
  net::Task<Result<wire::Bytes>> pull(wire::Digest digest) {
    auto sink = std::make_shared<BytesSink>();
    GOBLIN_CO_TRY_VOID(co_await blobs_->fetch(digest, 0, sink));
    co_return std::move(sink->bytes);
  }
  wire::Digest offer(wire::Bytes bytes) {
    const auto digest = net::sha256(bytes);
    offered_[digest] = std::move(bytes);
    return digest;
  }
  /// What is asked for by `digest` has other bytes.
  void lie(const wire::Digest& digest, wire::Bytes bytes) { offered_[digest] = std::move(bytes); }
  /// Offered, but not served before release().
  wire::Digest hold(wire::Bytes bytes) {
    held_ = offer(std::move(bytes));
    return *held_;
  }
  void release() {
    held_.reset();
    released_.set();
  }
  [[nodiscard]] int waiting() const { return waiting_; }
  void close() { channel_->close(); }

 private:
  net::Task<void> read() {
    while (true) {
      auto frame = co_await channel_->receive();
      if (!frame) {
        break;
      }
      if (frame->type != wire::FrameType::kReply) {
        EXPECT_TRUE(blobs_->handle(std::move(*frame)));
        continue;
      }
      auto reply = wire::decode_reply(frame->message);
      CO_ASSERT(reply);
      replies_.emplace(reply->number, std::move(*reply));
      replied_.set();
    }
    blobs_->shut_down();
    replied_.set();
  }
  net::Task<Result<std::shared_ptr<net::BlobSource>>> find(wire::Digest digest) {
    if (held_ == digest) {
      ++waiting_;
      co_await released_.wait();
      --waiting_;
    }
    const auto found = offered_.find(digest);
    if (found == offered_.end()) {
      co_return fail(Code::kNotFound, "not offered");
    }
    co_return std::make_shared<BytesSource>(found->second);
  }

  net::Loop& loop_;
  std::unique_ptr<net::Channel> channel_;
  std::unique_ptr<net::BlobExchange> blobs_;
  net::Event replied_, released_;
  std::optional<wire::Digest> held_;
  int waiting_ = 0;
  std::uint32_t number_ = 0;
  std::map<std::uint32_t, wire::Reply> replies_;
  std::map<wire::Digest, wire::Bytes> offered_;
};

class ClientSessionTest : public EngineFixture {
 protected:
  static constexpr std::uint64_t kLarge = 1 << 20;
  store::Staging& staging() override {
    if (!gated_) {
      gated_ = std::make_unique<GatedStaging>(*staging_, kLarge);
    }
    return *gated_;
  }
  /// A client of its own; the other end is served.
  std::unique_ptr<net::Channel> connect(bool remote = false) {
    int pair[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    auto near = net::adopt_unix(*loop_, net::UniqueFd(pair[0]));
    auto far = net::adopt_unix(*loop_, net::UniqueFd(pair[1]));
    EXPECT_TRUE(near && far);
    (*near)->set_state(wire::PeerState::kOpen);
    (*far)->set_state(wire::PeerState::kOpen);
    ClientSession::Daemon daemon;
    daemon.status = [this] {
      ++asked_;
      wire::StatusReport report;
      report.fields.emplace_back("much", std::string(60'000, 'x'));
      return report;
    };
    daemon.control = [](const wire::Control&) -> Result<void> { return {}; };
    std::unique_ptr<net::Channel> served = std::move(*far);
    if (remote) {
      served = std::make_unique<RemoteChannel>(std::move(served));
    }
    loop_->spawn(serve(std::make_shared<ClientSession>(*loop_, *engine_, staging(),
                                                       std::move(daemon), std::move(served))));
    return std::move(*near);
  }
  std::unique_ptr<RemoteClient> connect_remote() {
    return std::make_unique<RemoteClient>(*loop_, connect(true));
  }
  std::size_t staged_files() const {
    auto list = staging_->list();
    EXPECT_TRUE(list);
    return list ? list->size() : 0;
  }
  /// Plays the host until the job is done.
  net::Task<void> finish(FakeHost& host, std::uint64_t job, std::int64_t length) {
    const auto leased = [&] {
      return std::any_of(host.leases.begin(), host.leases.end(),
                         [job](const auto& lease) { return lease.job == job; });
    };
    CO_ASSERT_UNTIL(leased());
    const auto lease = *std::find_if(host.leases.begin(), host.leases.end(),
                                     [job](const auto& l) { return l.job == job; });
    commit(host, lease, doubled(length));
    CO_ASSERT_UNTIL(status(job).state == wire::JobState::kDone);
  }
  /// A job that is done, as if it had 100 outputs: `from` doubles, one more, …
  net::Task<std::uint64_t> job_with_many_outputs(FakeHost& host, std::int64_t from) {
    const auto job = co_await submit_doubling(300);
    if (!job) {
      ADD_FAILURE() << job.error().message;
      co_return 0;
    }
    co_await finish(host, *job, 300);
    const auto done = engine_->follow(*job);
    const auto stage = done->record.output_stages.at(0);
    const auto model = done->record.outputs.at(0);
    done->record.outputs.clear();
    done->record.output_stages.assign(100, stage);
    for (std::int64_t i = 0; i < 100; ++i) {
      done->record.outputs.push_back(model);
      done->record.outputs.back().spec.shape = {from + i};
    }
    EXPECT_TRUE(done->told);
    done->told->outputs = done->record.outputs;
    co_return *job;
  }
  /// y = 2x over TLS, x of doubles 0, 1, 2, …
  wire::Submit remote_doubling(RemoteClient& client, std::int64_t length) {
    std::vector<double> values(static_cast<std::size_t>(length));
    std::iota(values.begin(), values.end(), 0.0);
    wire::JobInput input;
    input.name = "x";
    input.dtype = GOBLIN_F64;
    input.shape = {length};
    input.storage = wire::Storage::kBlob;
    input.digest = client.offer(bytes_of(values));
    wire::Submit submit;
    submit.kind = "faulty";
    submit.token[0] = ++token_;
    submit.token[1] = 1;
    submit.policy = wire::Policy::kAlgebraic;
    submit.inputs.push_back(std::move(input));
    return submit;
  }
  net::Task<void> serve(std::shared_ptr<ClientSession> session) {
    ++sessions_;
    co_await session->run();
    --sessions_;
  }
  static net::Frame request(std::uint32_t number, wire::RequestBody body) {
    wire::Request message;
    message.number = number;
    message.body = std::move(body);
    return net::make_frame(wire::FrameType::kRequest, message);
  }
  /// Sends a request and reads one reply.
  static net::Task<Result<wire::Reply>> ask(net::Channel& channel, wire::RequestBody body) {
    net::Frame frame = request(1, std::move(body));
    GOBLIN_CO_TRY_VOID(co_await channel.send(std::move(frame)));
    GOBLIN_CO_TRY(net::Frame answer, co_await channel.receive());
    co_return wire::decode_reply(answer.message);
  }
  net::Task<void> flood(net::Channel& channel, std::uint32_t count, wire::RequestBody body) {
    for (std::uint32_t i = 0; i < count; ++i) {
      net::Frame frame = request(i, body);
      if (const auto sent = co_await channel.send(std::move(frame)); !sent) {
        co_return;
      }
    }
  }

  std::unique_ptr<GatedStaging> gated_;
  std::size_t asked_ = 0;
  int sessions_ = 0;
};

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
    CO_ASSERT_UNTIL(sessions_ == 0);
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

TEST_F(ClientSessionTest, NoMoreJobsThanTheSettingAllows) {
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

TEST_F(ClientSessionTest, ARemoteClientPullsResults) {
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
TEST_F(ClientSessionTest, ResultsInFilesAreNotPulled) {
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

TEST_F(ClientSessionTest, OneRemoteClientHoldsFewResults) {
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

TEST_F(ClientSessionTest, ArraysThatDoNotComeKeepNoRoom) {
  run([&]() -> net::Task<void> {
    auto client = connect_remote();
    // The first array comes, the second has other bytes than its digest says.
    auto submit = remote_doubling(*client, 5000);
    submit.inputs.push_back(submit.inputs[0]);
    submit.inputs[1].name = "z";
    submit.inputs[1].digest = net::sha256(bytes_of(std::vector<double>(1, 7.0)));
    client->lie(submit.inputs[1].digest, doubled(5000));
    auto reply = co_await client->ask(submit);
    CO_ASSERT(reply);
    EXPECT_EQ(reply->status, GOBLIN_CORRUPT);
    EXPECT_THAT(reply->message, HasSubstr("array 'z' does not hash"));
    EXPECT_EQ(staged_files(), 0u);
    // Nobody has it.
    submit.inputs[1].digest = net::sha256(bytes_of(std::vector<double>(1, 8.0)));
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

TEST_F(ClientSessionTest, ARemoteClientMayNotStageForEver) {
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
