// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The signed catalogue as a daemon has verified it: what may run here, and what may not, and why.
// Loop's thread only; files are hashed and written by the loop's workers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/net/loop.hpp"
#include "core/trust/verifier.hpp"

namespace goblin::link {

/// Where signed files come from: a coordinator, which is not trusted.
class MetadataSource {
 public:
  virtual ~MetadataSource() = default;
  /// kNotFound when there is none; kUnavailable when the source cannot be reached.
  virtual net::Task<Result<wire::Bytes>> get(trust::Wanted wanted) = 0;
};

struct CatalogueSettings {
  std::string directory;           ///< of the verifier, in the daemon's state
  std::string root_file;           ///< the network's first root, or a later one
  trust::Restriction restriction;  ///< of this computer's owner
  std::vector<std::string> backends;
  std::uint32_t release = 0;             ///< major << 16 | minor << 8 | patch
  std::function<std::uint64_t()> now_s;  ///< seconds since 1970; empty: the system's clock
};

class Catalogue final {
 public:
  /// Blocks. Errors name the root file or the directory, and what to do.
  static Result<std::unique_ptr<Catalogue>> open(const CatalogueSettings& settings);

  /// Follows the network's roots, timestamp and targets. When it fails, ask lists() again: a new
  /// root may have taken a catalogue away. One at a time.
  net::Task<Result<void>> update(net::Loop& loop, MetadataSource& source);

  /// Empty before the first update: nothing was verified yet, or on disk.
  [[nodiscard]] const std::vector<wire::TrustPlugin>& plugins() const;
  [[nodiscard]] bool known() const { return verified_.catalogue.has_value(); }
  /// Has an update ended, well or not, since this process began?
  [[nodiscard]] bool looked() const { return looked_; }
  /// Does the verified catalogue name it? What it does not name any more was revoked: its tasks
  /// stop. Without any catalogue nothing is named.
  [[nodiscard]] bool lists(const wire::Digest& plugin) const;
  /// May tasks begin now at all? kUnavailable: expired, clock set back, nothing verified yet.
  [[nodiscard]] Result<void> may_start() const { return verified_.may_start(now_s()); }
  /// May tasks of this plugin begin now? As may_start; kNotFound: not in the catalogue, perhaps not
  /// yet; kUnsupported: this computer cannot, or its owner does not allow it.
  [[nodiscard]] Result<const wire::TrustPlugin*> allow(const wire::Digest& plugin) const;
  /// Names of plugins that the catalogue has and this computer refuses, each with the reason.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> refusals() const;
  /// "catalogue" and what is wrong with it, for status reports.
  void report(std::vector<std::pair<std::string, std::string>>& lines) const;
  /// Why the last update failed; empty when it did not.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

 private:
  Catalogue(const CatalogueSettings& settings, std::shared_ptr<trust::Verifier> verifier);
  [[nodiscard]] std::uint64_t now_s() const { return settings_.now_s(); }
  [[nodiscard]] Result<void> suits(const wire::TrustPlugin& plugin) const;

  CatalogueSettings settings_;
  std::shared_ptr<trust::Verifier> verifier_;  ///< shared with a worker that updates it
  trust::Verified verified_;
  std::string trouble_;
  bool looked_ = false;
};

}  // namespace goblin::link
