// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A daemon's connection to its coordinator, kept up for the daemon's life. Loop's thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/log/log.hpp"
#include "core/net/blobs.hpp"
#include "core/store/blob_cache.hpp"

namespace goblin::link {

class CoordinatorLink final : public std::enable_shared_from_this<CoordinatorLink> {
 public:
  struct Options {
    std::string host;
    std::uint16_t port = 0;
    wire::Digest pin;
    wire::Role role = wire::Role::kHost;
    net::Milliseconds heartbeat{3'000};
    net::Milliseconds catalog_every{30'000};
    net::Milliseconds retry_last{15'000};  ///< longest pause between attempts to connect
    std::uint64_t seed = 0;                ///< of the jitter
  };
  struct Hooks {
    std::function<net::Frame()> status;        ///< what to say at every heartbeat
    std::function<void(net::Frame)> on_frame;  ///< assignments
    std::function<void()> on_change;           ///< connected, lost, or a new catalogue
  };

  CoordinatorLink(net::Loop& loop, std::shared_ptr<const net::Identity> self, Options options,
                  Hooks hooks, store::BlobCache& plugins, log::Logger logger);
  ~CoordinatorLink();

  /// Runs until stop(). Hold a shared_ptr meanwhile.
  net::Task<void> run();
  void stop();
  /// Sends the status now rather than at the next heartbeat.
  void nudge() { nudge_.set(); }

  [[nodiscard]] bool connected() const { return exchange_ != nullptr; }
  /// Empty while all is well, else why not and when the next attempt is.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }
  [[nodiscard]] bool has_catalog() const { return has_catalog_; }
  [[nodiscard]] const wire::Catalog& catalog() const { return catalog_; }
  /// Waits until a catalogue is here; false after `limit`.
  net::Task<bool> wait_catalog(net::Milliseconds limit);

  /// The plugin's bytes, sealed; from the cache, or downloaded and verified. `from_catalog`: only
  /// one that the catalogue names (kNotFound otherwise).
  net::Task<Result<std::shared_ptr<const net::UniqueFd>>> plugin(wire::Digest digest,
                                                                 bool from_catalog);

 private:
  net::Task<Result<void>> session();
  net::Task<void> beat(std::shared_ptr<CoordinatorLink> self,
                       std::shared_ptr<net::Channel> channel);
  net::Task<Result<void>> download(wire::Digest digest);

  net::Loop& loop_;
  std::shared_ptr<const net::Identity> self_;
  Options options_;
  Hooks hooks_;
  store::BlobCache& cache_;
  log::Logger logger_;
  std::shared_ptr<net::Channel> channel_;
  std::shared_ptr<net::BlobExchange> exchange_;  ///< refers to channel_
  bool stopped_ = false;
  std::string trouble_ = "not connected yet";
  wire::Catalog catalog_;
  bool has_catalog_ = false;
  net::Event catalog_here_, nudge_, stop_, connected_;
  std::map<wire::Digest, std::shared_ptr<const net::UniqueFd>> sealed_;
  std::map<wire::Digest, std::shared_ptr<net::Event>> downloading_;
};

}  // namespace goblin::link
