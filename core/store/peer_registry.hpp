// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The coordinator's register of hosts and lab nodes by pinned key. SQLite behind it; calls block;
// one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/wire/peer.hpp"

namespace goblin::store {

struct PeerRecord {
  wire::Digest pin;
  wire::Role role = wire::Role::kHost;
  std::string address;  ///< where it was last seen
  std::int64_t first_seen_unix_ms = 0;
  std::int64_t last_seen_unix_ms = 0;
  bool validator = false;  ///< set by the operator
  bool blocked = false;    ///< set by the operator
};

class PeerRegistry {
 public:
  static Result<std::unique_ptr<PeerRegistry>> open(const std::string& path);
  virtual ~PeerRegistry() = default;
  /// Adds or updates role, address and last_seen; keeps first_seen and what the operator set.
  /// kInvalidArgument when the pin is known in another role.
  virtual Result<PeerRecord> seen(const wire::Digest& pin, wire::Role role,
                                  const std::string& address, std::int64_t now_unix_ms) = 0;
  virtual Result<std::optional<PeerRecord>> find(const wire::Digest& pin) = 0;
  virtual Result<std::vector<PeerRecord>> list() = 0;
  /// Forgets peers but for the `keep` last seen and those for which the operator set something.
  /// How many were forgotten.
  virtual Result<std::uint64_t> prune(std::uint64_t keep) = 0;
  virtual Result<void> set_validator(const wire::Digest& pin, bool validator) = 0;
  virtual Result<void> set_blocked(const wire::Digest& pin, bool blocked) = 0;
};

}  // namespace goblin::store
