// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What a verifier holds in memory, shared by its queries and its updates. Internal to core/trust.
#pragma once

#include <optional>

#include "core/trust/trust_directory.hpp"
#include "core/trust/verifier.hpp"

namespace goblin::trust {

/// What a verifier knows of time.
struct Clock {
  std::uint64_t latest_s;
  std::uint64_t tolerance_s;
  const std::string& directory;  ///< the verifier's, for messages
};
/// kUnavailable when `now_s` lies before what signed metadata has vouched for.
Result<void> check_clock(const Clock& clock, std::uint64_t now_s);
/// kUnavailable: expired, or issued in this clock's future.
Result<void> check_times(const Clock& clock, std::string_view what, std::uint64_t issued_s,
                         std::uint64_t expires_s, std::uint64_t now_s);

struct Trusted {
  TrustDirectory directory;
  std::uint64_t clock_tolerance_s;
  wire::TrustFile installed;  ///< the installation's root
  wire::TrustState state;
  wire::TrustRoot root;
  std::optional<Catalogue> catalogue;  ///< of state.targets and state.timestamp under `root`

  /// Reads the catalogue that the state names, judged by the root in force. What is missing,
  /// damaged or not signed by that root's keys is none: the next update brings it. None, too, while
  /// that root is older than the installation's.
  void load_catalogue();

  [[nodiscard]] Clock clock() const {
    return {state.latest_s, clock_tolerance_s, directory.path()};
  }
};

/// Signed targets under a root: signatures, then contents.
struct SignedTargets {
  wire::TrustTargets targets;
  std::vector<wire::Digest> signers;
};
Result<SignedTargets> read_signed_targets(wire::ByteView file, const wire::TrustRoot& root);
Result<wire::TrustTimestamp> read_signed_timestamp(wire::ByteView file,
                                                   const wire::TrustRoot& root);
/// The root after `current`: signed by the thresholds of both, exactly one version higher.
Result<wire::TrustRoot> read_next_root(wire::ByteView file, const wire::TrustRoot& current);

Catalogue make_catalogue(const wire::TrustRoot& root, const wire::TrustTimestamp& timestamp,
                         SignedTargets targets);

}  // namespace goblin::trust
