// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Clients of a lab node's session, on its own machine and over TLS, that the test plays.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "hosts/lab/client_session.hpp"
#include "tests/hosts/lab/engine_fixture.hpp"
#include "tests/hosts/lab/gated_staging.hpp"

namespace goblin::lab::test {

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
    const auto digest = net::blob_digest(bytes);
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
    loop_->spawn(serve(std::make_shared<ClientSession>(
        *loop_, *engine_, staging(), std::move(daemon), std::move(served), event_pause_)));
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
  net::Milliseconds event_pause_{100};
  int sessions_ = 0;
};

}  // namespace goblin::lab::test
