// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The signed catalogue of plugins, and a verifier's state on disk. Plain structs; what makes them
// valid beyond their bounds (names, thresholds, keys) is judged in core/trust, which also signs the
// encoded bytes as they are. Times are seconds since 1970, UTC.
#pragma once

#include "core/wire/values.hpp"

namespace goblin::wire {

/// Of every message here: what a reader must understand. A release that adds something which older
/// ones may not overlook raises it.
inline constexpr std::uint32_t kTrustFormat = 1;

/// An Ed25519 public key.
struct TrustKey {
  std::array<std::uint8_t, 32> bytes{};
  auto operator<=>(const TrustKey&) const = default;
};
/// Who may sign one role's metadata, and how many of them must.
struct TrustRole {
  std::uint32_t threshold = 0;
  std::vector<TrustKey> keys;
};

struct TrustRoot {
  std::uint32_t format = kTrustFormat;
  std::uint64_t version = 0;
  std::uint64_t issued_s = 0;
  std::uint64_t expires_s = 0;
  TrustRole root;
  TrustRole targets;
  TrustRole timestamp;
};

struct TrustKind {
  std::string name;
  std::uint32_t version = 0;
  auto operator<=>(const TrustKind&) const = default;
};
struct TrustBackend {
  std::string name;
  auto operator<=>(const TrustBackend&) const = default;
};
/// A plugin file that may run.
struct TrustPlugin {
  std::string name;  ///< an identifier, never a path
  Digest plugin;     ///< SHA-256 of the file
  std::uint64_t size = 0;
  std::uint32_t abi_major = 0;
  std::uint32_t abi_minor = 0;
  std::vector<TrustKind> kinds;        ///< in the plugin's order: an index into it names a kind
  std::vector<TrustBackend> backends;  ///< on which it may run; none named: on every one
  std::uint32_t min_release = 0;       ///< major << 16 | minor << 8 | patch; older ones refuse it
};
struct TrustTargets {
  std::uint32_t format = kTrustFormat;
  std::uint64_t version = 0;
  std::uint64_t issued_s = 0;
  std::uint64_t expires_s = 0;
  std::vector<TrustPlugin> plugins;
};

/// One version of a role's signed file, to the byte. Version 0: none.
struct TrustFile {
  std::uint64_t version = 0;
  std::uint64_t size = 0;
  Digest digest;  ///< SHA-256
  bool operator==(const TrustFile&) const = default;
};
struct TrustTimestamp {
  std::uint32_t format = kTrustFormat;
  std::uint64_t version = 0;
  std::uint64_t issued_s = 0;
  std::uint64_t expires_s = 0;
  TrustFile targets;
};

/// What a verifier remembers. `seen*` are the highest versions that were verified, kept or not.
struct TrustState {
  std::uint32_t format = kTrustFormat;
  std::vector<TrustFile> roots;  ///< each that was trusted, ascending; the last one is in force
  TrustFile targets;
  TrustFile timestamp;
  TrustFile seen_targets;
  TrustFile seen_timestamp;
  std::uint64_t latest_s = 0;  ///< latest time that signed, unexpired metadata vouched for
};

// clang-format off
#define GOBLIN_WIRE_TRUST_MESSAGES(X) \
  X(TrustRoot, trust_root) X(TrustTargets, trust_targets) X(TrustTimestamp, trust_timestamp) \
  X(TrustState, trust_state)
// clang-format on

#define GOBLIN_WIRE_DECLARE_TRUST(Type, name) \
  Bytes encode(const Type& message);          \
  Result<Type> decode_##name(ByteView bytes);
GOBLIN_WIRE_TRUST_MESSAGES(GOBLIN_WIRE_DECLARE_TRUST)

}  // namespace goblin::wire
