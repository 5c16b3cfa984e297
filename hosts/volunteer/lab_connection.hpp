// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A host's connection to one lab node that the coordinator assigned to it, kept up while the
// assignment lasts. A lab node says itself where it is, and hosts are inside other people's
// networks: they connect to addresses that reach as far as the coordinator's at least. Loop's
// thread only.
#pragma once

#include <memory>

#include "core/net/blobs.hpp"
#include "hosts/volunteer/link_answers.hpp"
#include "hosts/volunteer/work.hpp"

namespace goblin::volunteer {

/// For people; empty where nothing was wrong.
std::string standing_text(const wire::Standing& standing);

class LabConnection final : public LabPort, public std::enable_shared_from_this<LabConnection> {
 public:
  LabConnection(net::Loop& loop, const HostConfig& config, Work& work,
                std::shared_ptr<const net::Identity> self, wire::LabAssignment assignment,
                std::function<wire::HostOffer()> offer, std::function<net::Reach()> least_reach,
                log::Logger logger);
  ~LabConnection() override;

  /// Runs until stop(). Hold a shared_ptr meanwhile.
  net::Task<void> run();
  /// Says goodbye when `orderly`, and ends.
  void stop(bool orderly);
  /// The coordinator renewed it, perhaps at another address.
  void renew(const wire::LabAssignment& assignment);
  [[nodiscard]] bool expired() const { return loop_.now() > until_; }
  /// Tells the lab node what the host offers now.
  void send_offer();
  [[nodiscard]] const std::string& trouble() const { return trouble_; }
  /// How often nothing was sent because of where the lab node says that it is.
  [[nodiscard]] std::uint64_t refused_addresses() const { return refused_addresses_; }
  /// What the lab node said last of wrong results.
  [[nodiscard]] const wire::Standing& standing() const { return standing_; }

  [[nodiscard]] const wire::Digest& pin() const override { return assignment_.lab; }
  [[nodiscard]] bool is_open() const override { return exchange_ != nullptr; }
  net::Task<Result<std::uint64_t>> fetch(wire::Digest digest, std::uint64_t offset,
                                         std::shared_ptr<net::BlobSink> sink) override;
  void send(net::Frame frame) override;
  HeldResults& held() override { return held_; }
  /// Of all its connections, the one that is open included.
  [[nodiscard]] std::uint64_t bytes_received() const {
    return received_ + (channel_ ? channel_->bytes_received() : 0);
  }
  [[nodiscard]] std::uint64_t bytes_sent() const {
    return sent_ + (channel_ ? channel_->bytes_sent() : 0);
  }

 private:
  net::Task<Result<void>> session();
  net::Task<void> write_loop(std::shared_ptr<LabConnection> self,
                             std::shared_ptr<net::Channel> channel,
                             std::shared_ptr<net::Queue<net::Frame>> queue);
  net::Task<void> beat(std::shared_ptr<LabConnection> self, std::shared_ptr<net::Channel> channel);
  Result<void> handle(net::Frame frame);

  net::Loop& loop_;
  const HostConfig& config_;
  Work& work_;
  std::shared_ptr<const net::Identity> self_;
  wire::LabAssignment assignment_;
  std::function<wire::HostOffer()> offer_;
  std::function<net::Reach()> least_reach_;
  log::Logger logger_;
  wire::Standing standing_;
  LinkAnswers link_answers_;
  net::TimePoint until_;
  std::shared_ptr<net::Channel> channel_;
  std::shared_ptr<net::BlobExchange> exchange_;  ///< refers to channel_
  std::shared_ptr<net::Queue<net::Frame>> outgoing_;
  HeldResults held_;
  net::Event stop_;
  bool stopped_ = false;
  std::string trouble_ = "not connected yet";
  std::uint64_t received_ = 0, sent_ = 0;
  std::uint64_t refused_addresses_ = 0;
};

}  // namespace goblin::volunteer
