// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What a coordinator publishes: a directory of signed metadata (core/trust/repository) and plugin
// files. It never signs targets or roots; with its own online key it renews the timestamp. A set
// that hosts would refuse is not served: what was served before goes on.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/trust/repository.hpp"
#include "hosts/coordinator/catalogue_source.hpp"
#include "hosts/coordinator/plugin_files.hpp"

namespace goblin::coordinator {

struct PublisherSettings {
  std::string directory;  ///< root-1.signed, …, targets-1.signed, …, timestamp.signed, plugins/
  std::string key_file;   ///< of the timestamp role, not encrypted; beside it the public key
  std::uint64_t renew_every_s = 86'400;
  std::uint64_t lifetime_s = 7 * 86'400;  ///< of a timestamp
  trust::Durable durable = trust::Durable::kYes;
};

/// Where a coordinator with that state directory publishes.
PublisherSettings publisher_settings(const std::string& state_dir);

class Publisher final : public CatalogueSource {
 public:
  /// Makes directory and key when they are missing.
  static Result<std::unique_ptr<Publisher>> open(const PublisherSettings& settings);

  /// Errors say what hosts would refuse, and what to do.
  Result<bool> refresh(std::uint64_t now_s) override;
  Result<wire::Bytes> metadata(wire::ServedFile file, std::uint64_t version) override;
  Result<std::shared_ptr<net::BlobSource>> blob(const wire::Digest& digest) override;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> report() const override;

  [[nodiscard]] trust::PublicKey timestamp_key() const { return key_.public_key(); }
  PluginFiles& plugin_files() { return plugins_; }

 private:
  struct Served {
    std::map<std::uint64_t, wire::Bytes> roots;
    wire::Bytes timestamp_file;
    wire::TrustTimestamp timestamp;
    trust::Repository::Release release;
    wire::Digest targets;  ///< SHA-256 of the targets' file
  };
  Publisher(const PublisherSettings& settings, trust::SecretKey key);
  /// `version` of the targets; 0: the newest.
  Result<Served> build(std::uint64_t version, std::uint64_t now_s);
  /// The timestamp of a release, renewed when that is due.
  Result<void> renew(Served& served, std::uint64_t now_s);

  PublisherSettings settings_;
  trust::SecretKey key_;
  trust::Repository repository_;
  PluginFiles plugins_;
  std::optional<Served> served_;
  std::string trouble_ = "nothing was published yet";
};

}  // namespace goblin::coordinator
