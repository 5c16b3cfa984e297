// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The peer registry's contents in memory, so that a greeting waits for no disk and an unknown key
// costs little. Loop's thread only; write_batch runs where the registry may be used.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/store/peer_registry.hpp"

namespace goblin::coordinator {

class KnownPeers {
 public:
  /// What the registry should hear of.
  struct Batch {
    std::vector<store::PeerRecord> seen;
    bool prune = false;  ///< more are known than shall be kept
  };

  /// Remembers `keep` peers, and up to an eighth more between prunings. Reports a known peer again
  /// only after `every_ms`.
  KnownPeers(const std::vector<store::PeerRecord>& records, std::size_t keep,
             std::int64_t every_ms);

  /// A peer says who it is: kNone, kWrongRole (its key is known in another role), kNotAuthorised
  /// (blocked).
  wire::Refusal greet(const wire::Digest& pin, wire::Role role, const std::string& address,
                      std::int64_t now_unix_ms);
  [[nodiscard]] bool is_validator(const wire::Digest& pin) const;
  [[nodiscard]] std::size_t size() const { return peers_.size(); }
  /// What has changed since the last call.
  Batch take_batch();

 private:
  void forget_oldest();

  std::size_t keep_;
  std::int64_t every_ms_;
  std::unordered_map<wire::Digest, store::PeerRecord> peers_;
  std::unordered_set<wire::Digest> changed_;
  bool pruned_ = false;
};

/// Blocks. Goes on after a record that fails and answers the first error.
Result<void> write_batch(store::PeerRegistry& registry, const KnownPeers::Batch& batch,
                         std::uint64_t keep);

}  // namespace goblin::coordinator
