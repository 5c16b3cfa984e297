// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The engine with a real loop, journal, staging folder and runners, and hosts that the test plays.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/plugin/sealed_file.hpp"
#include "hosts/lab/engine.hpp"
#include "tests/hosts/lab/temp_file.hpp"

namespace goblin::lab::test {

/// Plugins of the test folder by the name of their one kind.
class FilePlugins final : public PluginSource {
 public:
  net::Task<Result<PluginFile>> find(KindName kind) override { co_return load(kind.name); }
  net::Task<Result<PluginFile>> find(wire::Digest plugin, std::uint32_t) override {
    co_return load(names_[plugin]);
  }
  [[nodiscard]] bool revoked(const wire::Digest& plugin) const override {
    return gone.contains(plugin);
  }
  net::Task<Result<std::vector<PluginFile>>> all() override { co_return std::vector<PluginFile>{}; }

  std::set<wire::Digest> gone;  ///< revoked

 private:
  Result<PluginFile> load(const std::string& name) {
    GOBLIN_TRY(net::UniqueFd fd, plugin::make_sealed_memfd_from(std::string(GOBLIN_TEST_PLUGINS) +
                                                                "/" + name + ".so"));
    PluginFile file;
    file.digest = net::blob_digest(std::as_bytes(std::span(name)));
    file.kind = name + "/1";
    file.memfd = std::make_shared<const net::UniqueFd>(std::move(fd));
    names_[file.digest] = name;
    return file;
  }
  std::map<wire::Digest, std::string> names_;
};

/// Keeps what the engine sends it; has the bytes that the test gives it.
class FakeHost final : public HostPort {
 public:
  explicit FakeHost(const std::string& name)
      : pin_(net::blob_digest(std::as_bytes(std::span(name)))) {}

  [[nodiscard]] const wire::Digest& pin() const override { return pin_; }
  void send(net::Frame frame) override {
    frames.push_back({frame.type, frame.message.size(), frame.payload.size()});
    if (frame.type == wire::FrameType::kLeases) {
      auto message = wire::decode_leases(frame.message);
      ASSERT_TRUE(message) << message.error().message;
      for (auto& lease : message->leases) {
        leases.push_back(std::move(lease));
      }
    } else if (frame.type == wire::FrameType::kCancelLeases) {
      auto message = wire::decode_cancel_leases(frame.message);
      ASSERT_TRUE(message);
      cancelled.insert(cancelled.end(), message->leases.begin(), message->leases.end());
    } else if (frame.type == wire::FrameType::kReleaseResults) {
      auto message = wire::decode_release_results(frame.message);
      ASSERT_TRUE(message);
      released.insert(released.end(), message->leases.begin(), message->leases.end());
    }
  }
  net::Task<Result<std::uint64_t>> fetch(wire::Digest digest,
                                         std::shared_ptr<SlotSink> sink) override {
    const auto found = held.find(digest);
    if (found == held.end()) {
      co_return fail(Code::kNotFound, "the test gave the host no such bytes");
    }
    GOBLIN_CO_TRY_VOID(sink->begin(found->second.size()));
    if (loop != nullptr) {
      GOBLIN_CO_TRY_VOID(sink->write(0, std::span(found->second).first(sends)));
      while (loop != nullptr) {
        co_await loop->sleep(net::Milliseconds(1));
      }
      co_return fail(Code::kUnavailable, "the test's host kept the rest");
    }
    GOBLIN_CO_TRY_VOID(sink->write(0, found->second));
    co_return found->second.size();
  }
  net::Task<Result<LinkMeasure>> measure_link() override { co_return link; }
  [[nodiscard]] std::uint64_t bytes_sent() const override { return 0; }
  [[nodiscard]] std::uint64_t bytes_received() const override { return 0; }

  struct Sent {
    wire::FrameType type;
    std::size_t message_bytes, payload_bytes;
  };
  std::vector<Sent> frames;
  std::vector<wire::Lease> leases;
  std::vector<std::uint64_t> cancelled, released;
  std::map<wire::Digest, wire::Bytes> held;
  LinkMeasure link{0.001, 1e9, 1e9};
  scheduler::HostId id = 0;
  /// Unless null, the host sends `sends` bytes of a result and nothing more until this is null.
  net::Loop* loop = nullptr;
  std::size_t sends = 0;

 private:
  wire::Digest pin_;
};

class EngineFixture : public testing::Test {
 protected:
  /// Runs one coroutine to its end, on a loop and an engine of its own; state stays between calls.
  void run(const std::function<net::Task<void>()>& body) {
    loop_ = std::move(*net::Loop::create(3));
    if (!staging_) {
      staging_ = std::move(*store::Staging::open(dir_.path() + "/staging", 0));
      journal_ = std::move(*store::LabJournal::open(dir_.path() + "/journal.sqlite", false));
    }
    EngineOptions options;
    options.scheduler = scheduler_config_;
    options.runner.runner = GOBLIN_TEST_RUNNER;
    options.runner.backend = GOBLIN_TEST_BACKEND;
    options.stage_keep_ms = stage_keep_ms_;
    options.retry_ms = retry_ms_;
    options.result_keep_ms = result_keep_ms_;
    options.max_jobs = max_jobs_;
    options.max_known_hosts = max_known_hosts_;
    engine_ =
        std::make_unique<Engine>(*loop_, journal(), staging(), plugins_, options, log::Logger());
    loop_->spawn(play(body));
    loop_->run();
    engine_.reset();
    loop_.reset();
  }
  /// What the engine uses: a test may put something around it.
  virtual store::Staging& staging() { return *staging_; }
  virtual store::LabJournal& journal() { return *journal_; }

  std::shared_ptr<FakeHost> join(const std::string& name, std::uint64_t memory = 64u << 20,
                                 bool trusted = false) {
    auto host = std::make_shared<FakeHost>(name);
    host->id = engine_->host_joined(host, capacity(memory), wire::HostState::kReady, trusted,
                                    wire::DigestHash{}(host->pin()));
    return host;
  }
  static wire::HostCapacity capacity(std::uint64_t memory = 64u << 20) {
    wire::HostCapacity capacity;
    capacity.threads = 1;
    capacity.slots = 64;
    capacity.memory_bytes = memory;
    capacity.cache_bytes = 1u << 30;
    return capacity;
  }

  /// Polls; false when it does not come true in time.
  net::Task<bool> until(std::function<bool()> holds) {
    const auto end = loop_->now() + net::Milliseconds(15'000);
    while (!holds()) {
      if (loop_->now() > end) {
        co_return false;
      }
      co_await loop_->sleep(net::Milliseconds(1));
    }
    co_return true;
  }

  /// A staged vector of doubles 0, 1, 2, …; the descriptor stays open in `staged_`.
  net::Task<wire::JobInput> vector(std::int64_t length) {
    std::vector<double> values(static_cast<std::size_t>(length));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>(i);
    }
    auto file = co_await engine_->stage(values.size() * sizeof(double));
    EXPECT_TRUE(file);
    EXPECT_TRUE(write_all(file->fd.get(), 0, std::as_bytes(std::span(values))));
    wire::JobInput input;
    input.name = "x";
    input.dtype = GOBLIN_F64;
    input.shape = {length};
    input.storage = wire::Storage::kStaged;
    input.stage = file->number;
    staged_ = std::move(file->fd);
    co_return input;
  }
  /// y = 2x with plugin "faulty", one task.
  net::Task<Result<std::uint64_t>> submit_doubling(std::int64_t length, std::int64_t mode = 0) {
    wire::Submit submit;
    submit.kind = "faulty";
    submit.inputs.push_back(co_await vector(length));
    submit.params.push_back({"mode", wire::Value::of(mode)});
    co_return co_await send(std::move(submit));
  }
  net::Task<Result<std::uint64_t>> submit_tiny(std::int64_t tasks) {
    wire::Submit submit;
    submit.kind = "tiny-tasks";
    submit.params.push_back({"tasks", wire::Value::of(tasks)});
    co_return co_await send(std::move(submit));
  }
  net::Task<Result<std::uint64_t>> send(wire::Submit submit) {
    std::vector<net::UniqueFd> none;
    co_return co_await send(std::move(submit), std::move(none));
  }
  net::Task<Result<std::uint64_t>> send(wire::Submit submit, std::vector<net::UniqueFd> fds) {
    submit.token[0] = ++token_;
    if (submit.policy == wire::Policy::kDefault) {
      submit.policy = wire::Policy::kAlgebraic;
    }
    auto reply = co_await engine_->submit(std::move(submit), std::move(fds));
    if (!reply) {
      co_return fail(std::move(reply).error());
    }
    co_return std::get<wire::JobStatus>(*reply).job;
  }

  static wire::Bytes bytes_of(std::span<const double> values) {
    const auto bytes = std::as_bytes(values);
    return {bytes.begin(), bytes.end()};
  }
  /// The right answer to submit_doubling.
  static wire::Bytes doubled(std::int64_t length) {
    std::vector<double> values(static_cast<std::size_t>(length));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = 2.0 * static_cast<double>(i);
    }
    return bytes_of(values);
  }
  /// The host commits to a result of one output and keeps its bytes.
  void commit(FakeHost& host, const wire::Lease& lease, wire::Bytes bytes) {
    wire::TaskResult result;
    result.lease = lease.lease;
    result.compute_us = 1000;
    wire::TensorRef output;
    output.spec = lease.outputs.at(0);
    output.digest = net::blob_digest(bytes);
    if (bytes.size() <= wire::kInlineBytes) {
      output.inline_offset = 0;
    }
    result.outputs.push_back(output);
    wire::Results results;
    results.results.push_back(std::move(result));
    const bool is_inline = output.is_inline();
    host.held[output.digest] = bytes;
    EXPECT_TRUE(engine_->results(host.id, results, is_inline ? bytes : wire::Bytes{}));
  }
  void hand_back(FakeHost& host, std::uint64_t lease, Code reason) {
    wire::HandBack message;
    message.leases.push_back(lease);
    message.reason = reason;
    engine_->handed_back(host.id, message);
  }
  wire::JobStatus status(std::uint64_t job) { return *engine_->status(job); }
  wire::HostReport report(const FakeHost& host) {
    for (auto& entry : engine_->hosts().hosts) {
      if (entry.host == host.pin()) {
        return entry;
      }
    }
    return {};
  }

  TempDir dir_;
  scheduler::Config scheduler_config_;
  std::uint64_t stage_keep_ms_ = 24ULL * 3600 * 1000;
  std::uint64_t retry_ms_ = EngineOptions{}.retry_ms;
  std::uint64_t result_keep_ms_ = 7ULL * 24 * 3600 * 1000;
  std::size_t max_known_hosts_ = 100'000;
  std::uint32_t max_jobs_ = 256;
  FilePlugins plugins_;
  std::unique_ptr<net::Loop> loop_;
  std::unique_ptr<store::LabJournal> journal_;
  std::unique_ptr<store::Staging> staging_;
  std::unique_ptr<Engine> engine_;
  net::UniqueFd staged_;
  std::uint8_t token_ = 0;

 private:
  net::Task<void> play(std::function<net::Task<void>()> body) {
    auto restored = co_await engine_->restore();
    EXPECT_TRUE(restored);
    engine_->start();
    co_await body();
    engine_->shut_down();
    loop_->stop();
  }
};

// ASSERT_* leave by `return`, which a coroutine cannot.
#define CO_ASSERT(condition)                                      \
  if (const bool goblin_holds = bool(condition); !goblin_holds) { \
    ADD_FAILURE() << #condition;                                  \
    co_return;                                                    \
  }
#define CO_ASSERT_UNTIL(...)                                                      \
  {                                                                               \
    const std::function<bool()> goblin_until = [&] { return bool(__VA_ARGS__); }; \
    const bool goblin_came = co_await until(goblin_until);                        \
    if (!goblin_came) {                                                           \
      ADD_FAILURE() << "not in time: " << #__VA_ARGS__;                           \
      co_return;                                                                  \
    }                                                                             \
  }

}  // namespace goblin::lab::test
