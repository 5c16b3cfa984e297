// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Leases without a connection: a lab node that remembers what it was sent, and real runners.
#pragma once

#include <gmock/gmock.h>

#include <set>

#include "core/net/blob_hash.hpp"
#include "hosts/volunteer/lease_math.hpp"
#include "hosts/volunteer/work.hpp"
#include "tests/core/plugin/runner_fixture.hpp"
#include "tests/core/store/support.hpp"
#include "tests/testing/plugins/faulty_modes.hpp"

namespace goblin::volunteer::test {

/// A lab node that remembers what it was sent.
class FakeLab final : public LabPort {
 public:
  FakeLab(net::Loop& loop, std::uint8_t number) : changed_(loop), never_(loop) {
    pin_.bytes[0] = number;
  }
  [[nodiscard]] const wire::Digest& pin() const override { return pin_; }
  [[nodiscard]] bool is_open() const override { return true; }
  net::Task<Result<std::uint64_t>> fetch(wire::Digest digest, std::uint64_t,
                                         std::shared_ptr<net::BlobSink> sink) override {
    ++fetches;
    changed_.set();
    const auto it = blobs.find(digest);
    if (it == blobs.end()) {
      co_await never_.wait();  // it answers nothing
    }
    GOBLIN_CO_TRY_VOID(sink->begin(it->second.size()));
    GOBLIN_CO_TRY_VOID(sink->write(0, it->second));
    co_return it->second.size();
  }
  void send(net::Frame frame) override {
    if (frame.type == wire::FrameType::kHandBack) {
      const auto message = wire::decode_hand_back(frame.message);
      for (const auto lease : message->leases) {
        back.push_back(lease);
      }
      reasons.insert(message->reason);
    } else if (frame.type == wire::FrameType::kResults) {
      const auto message = wire::decode_results(frame.message);
      for (const auto& result : message->results) {
        results[result.lease] = result.status;
        if (!result.outputs.empty()) {
          digests[result.lease] = result.outputs[0].digest;
        }
      }
      if (on_results) {
        on_results();
      }
    }
    changed_.set();
  }
  HeldResults& held() override { return held_; }

  /// False when it has not come to that within 20 s.
  net::Task<bool> until(std::function<bool()> done) {
    while (!done()) {
      changed_.reset();
      const bool changed = co_await changed_.wait_for(net::Milliseconds(20'000));
      if (!changed) {
        co_return false;
      }
    }
    co_return true;
  }

  std::map<wire::Digest, wire::Bytes> blobs;
  std::map<std::uint64_t, std::int32_t> results;
  std::map<std::uint64_t, wire::Digest> digests;
  std::vector<std::uint64_t> back;
  std::set<Code> reasons;  ///< of what came back
  std::function<void()> on_results;
  int fetches = 0;

 private:
  wire::Digest pin_;
  net::Event changed_, never_;
  HeldResults held_;
};

class WorkTest : public goblin::testing::RunnerFixture {
 protected:
  WorkTest() {
    config_.threads = 1;
    config_.memory_bytes = 64u << 20;
    config_.slots = 8;
    config_.runner = options();
  }
  void TearDown() override {
    work_.reset();
    watch_.reset();
    lab_.reset();
    other_.reset();
    gate_.reset();
    arrived_.reset();
    goblin::testing::RunnerFixture::TearDown();
  }
  /// Makes everything that needs the loop of this run.
  void open() {
    cache_ = std::move(*store::BlobCache::open(dir_ / "cache", store::NamedBy::kBlake3, 64u << 20,
                                               [](const auto&) {}));
    gate_ = std::make_unique<net::Event>(*loop_);
    gate_->set();
    arrived_ = std::make_unique<net::Event>(*loop_);
    lab_ = std::make_shared<FakeLab>(*loop_, 1);
    other_ = std::make_shared<FakeLab>(*loop_, 2);
    watch_ = std::make_unique<CacheWatch>(*loop_, std::vector<store::BlobCache*>{cache_.get()},
                                          config_.cache_pace, 1, log::Logger());
    work_ = std::make_unique<Work>(
        *loop_, config_, *cache_, *watch_,
        [this](wire::Digest digest) { return find_plugin(digest); }, log::Logger());
    work_->start();
  }
  net::Task<Result<std::shared_ptr<const net::UniqueFd>>> find_plugin(wire::Digest digest) {
    arrived_->set();
    if (digest == wire::Digest{}) {  // the plugin of lease()
      co_await gate_->wait();
    }
    GOBLIN_CO_TRY(net::UniqueFd fd, plugin::make_sealed_memfd_from(plugin_path("faulty")));
    co_return std::make_shared<const net::UniqueFd>(std::move(fd));
  }

  /// y = 2x for `length` numbers; x comes from the lab node as a blob, which `from` may have.
  wire::Lease lease(std::uint64_t number, std::int64_t length, FakeLab* from = nullptr) {
    wire::Bytes bytes(static_cast<std::size_t>(length) * 8);
    bytes[0] = static_cast<std::byte>(number);
    wire::Lease lease;
    lease.lease = number;
    lease.job = 1;
    lease.params = {wire::Value::of(std::int64_t{goblin::testing::kHonest})};
    wire::TensorRef input;
    input.spec = {GOBLIN_F64, {length}};
    input.digest = net::blob_digest(bytes);
    lease.inputs = {input};
    lease.outputs = {input.spec};
    lease.deadline_ms = 20'000;
    if (from != nullptr) {
      from->blobs.emplace(input.digest, std::move(bytes));
    }
    return lease;
  }
  void give(const std::shared_ptr<FakeLab>& lab, std::vector<wire::Lease> leases) {
    wire::Leases message;
    message.leases = std::move(leases);
    work_->add(lab, std::move(message), {});
  }

  /// Memory for results (and arenas) that this process holds.
  static std::size_t shared_buffers() {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const auto target = std::filesystem::read_symlink(entry.path(), gone);
      count += !gone && target.string().starts_with("/memfd:goblin-result") ? 1 : 0;
    }
    return count;
  }

  store::test::TempDir dir_;
  HostConfig config_;
  std::unique_ptr<store::BlobCache> cache_;
  std::unique_ptr<net::Event> gate_, arrived_;
  std::shared_ptr<FakeLab> lab_, other_;
  std::unique_ptr<CacheWatch> watch_;
  std::unique_ptr<Work> work_;
};

}  // namespace goblin::volunteer::test
