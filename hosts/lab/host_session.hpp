// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// One connected host, from its offer to its end. Loop's thread only.
#pragma once

#include <memory>

#include "core/net/blobs.hpp"
#include "hosts/lab/engine.hpp"
#include "hosts/lab/link_meter.hpp"
#include "hosts/lab/paced.hpp"

namespace goblin::lab {

class HostSession final : public HostPort, public std::enable_shared_from_this<HostSession> {
 public:
  HostSession(net::Loop& loop, Engine& engine, std::unique_ptr<net::Channel> channel, bool trusted,
              std::uint64_t group, log::Logger logger);
  ~HostSession() override;

  /// Runs until the connection ends. Hold a shared_ptr meanwhile.
  net::Task<void> run();
  void close() { channel_->close(); }
  [[nodiscard]] bool trusted() const { return trusted_; }

  [[nodiscard]] const wire::Digest& pin() const override { return channel_->peer().pin; }
  void send(net::Frame frame) override { outgoing_.push(std::move(frame)); }
  net::Task<Result<std::uint64_t>> fetch(wire::Digest digest,
                                         std::shared_ptr<SlotSink> sink) override;
  net::Task<Result<LinkMeasure>> measure_link() override { return meter_.measure(); }
  [[nodiscard]] std::uint64_t bytes_sent() const override { return channel_->bytes_sent(); }
  [[nodiscard]] std::uint64_t bytes_received() const override { return channel_->bytes_received(); }

 private:
  net::Task<void> write_loop(std::shared_ptr<HostSession> self);
  net::Task<Result<void>> read_loop();
  Result<void> handle(net::Frame frame);
  void take(const wire::HostOffer& offer);

  net::Loop& loop_;
  Engine& engine_;
  std::unique_ptr<net::Channel> channel_;
  bool trusted_;
  std::uint64_t group_;
  log::Logger logger_;
  net::Queue<net::Frame> outgoing_;
  std::unique_ptr<net::BlobExchange> blobs_;
  scheduler::HostId id_ = 0;  ///< 0 before the first offer
  bool gone_ = false;
  Paced<wire::HostOffer> offer_;
  LinkMeter meter_;
};

}  // namespace goblin::lab
