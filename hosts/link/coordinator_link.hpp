// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A daemon's connection to its coordinator, kept up for the daemon's life: over it the signed
// catalogue is kept up to date, and plugins come that it names. Loop's thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/log/log.hpp"
#include "core/net/blobs.hpp"
#include "core/store/blob_cache.hpp"
#include "hosts/link/catalogue.hpp"
#include "hosts/link/sealed_plugins.hpp"

namespace goblin::link {

class CoordinatorLink final : public std::enable_shared_from_this<CoordinatorLink>,
                              private MetadataSource {
 public:
  struct Options {
    std::string host;
    std::uint16_t port = 0;
    wire::Digest pin;
    wire::Role role = wire::Role::kHost;
    net::Milliseconds heartbeat{3'000};
    net::Milliseconds catalogue_every{30'000};
    net::Milliseconds retry_last{15'000};  ///< longest pause between attempts to connect
    std::uint64_t seed = 0;                ///< of the jitter
  };
  struct Hooks {
    std::function<net::Frame()> status;        ///< what to say at every heartbeat
    std::function<void(net::Frame)> on_frame;  ///< assignments
    std::function<void()> on_catalogue;        ///< an update ended, well or not
  };

  CoordinatorLink(net::Loop& loop, std::shared_ptr<const net::Identity> self, Options options,
                  Hooks hooks, Catalogue& catalogue, store::BlobCache& plugins, log::Logger logger);
  ~CoordinatorLink() override;

  /// Runs until stop(). Hold a shared_ptr meanwhile.
  net::Task<void> run();
  void stop();
  /// Sends the status now rather than at the next heartbeat.
  void nudge() { nudge_.set(); }

  [[nodiscard]] bool connected() const { return exchange_ != nullptr; }
  /// Empty while all is well, else why not and when the next attempt is.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }
  /// Numeric, of the last connection; empty before the first.
  [[nodiscard]] const std::string& coordinator_address() const { return address_; }
  [[nodiscard]] const Catalogue& catalogue() const { return catalogue_; }
  /// Waits until a catalogue was verified; false after `limit`.
  net::Task<bool> wait_catalogue(net::Milliseconds limit);

  /// The plugin's bytes, sealed; from the cache, or downloaded: length and SHA-256 are those of the
  /// verified catalogue, and it may run here now. Errors as Catalogue::allow; a plugin that is not
  /// named yet has the catalogue looked at once more before it is refused.
  net::Task<Result<std::shared_ptr<const net::UniqueFd>>> plugin(wire::Digest digest);

 private:
  net::Task<Result<void>> session();
  net::Task<void> beat(std::shared_ptr<CoordinatorLink> self,
                       std::shared_ptr<net::Channel> channel);
  net::Task<Result<wire::TrustPlugin>> allowed(wire::Digest digest);
  net::Task<Result<void>> download(wire::TrustPlugin plugin);
  net::Task<Result<std::shared_ptr<const net::UniqueFd>>> obtain(wire::TrustPlugin plugin);
  net::Task<void> update_loop(std::shared_ptr<CoordinatorLink> self);
  net::Task<Result<wire::Bytes>> get(trust::Wanted wanted) override;
  net::Task<Result<wire::Bytes>> get_file(trust::Wanted wanted);
  net::Task<Result<wire::Bytes>> get_targets(trust::Wanted wanted);
  Result<void> take_metadata(net::Frame frame);

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
  std::string address_;
  Catalogue& catalogue_;
  net::Event look_;                         ///< the catalogue is to be looked at now
  net::TimePoint looked_for_{};             ///< a plugin that the catalogue did not name
  net::Event updated_;                      ///< set when an update has ended
  std::optional<wire::MetadataGet> asked_;  ///< not answered yet
  std::optional<Result<wire::Bytes>> answer_;
  net::Event answered_;
  net::Event nudge_, stop_, connected_;
  SealedPlugins sealed_;
  std::map<wire::Digest, std::shared_ptr<net::Event>> downloading_;
};

}  // namespace goblin::link
