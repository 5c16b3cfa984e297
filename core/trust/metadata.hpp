// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What root, targets and timestamp must fulfil beyond their encoding, for those who publish and for
// those who verify. Pure functions; times are seconds since 1970, UTC. Any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/trust/envelope.hpp"

namespace goblin::trust {

inline constexpr std::uint64_t kMaxPluginBytes = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kMaxTimeS = 253402300799;  ///< the end of the year 9999

/// Lower-case letters, digits, '-', '_' and '.', at most 63, the first one a letter or digit, no
/// two '.' in sequence. So no name is a path, whatever is put before or behind it.
bool is_identifier(std::string_view name);
/// Lower-case letters, digits and '-', at most 63: as the plugin's own note has them.
bool is_kind_name(std::string_view name);

/// "2026-11-30 22:10:00 UTC"
std::string time_text(std::uint64_t time_s);
/// "1.4.2"
std::string release_text(std::uint32_t release);

/// kInvalidArgument, naming the field, unless: version from 1, issued < expires; each role has
/// 1 <= threshold <= keys, no key twice, none that check_public_key refuses, none in two roles.
Result<void> validate(const wire::TrustRoot& root);
/// Unless names are identifiers and no name, no digest stands twice; sizes from 1 to
/// kMaxPluginBytes; at least one kind each, none twice, versions from 1; no backend twice.
Result<void> validate(const wire::TrustTargets& targets);
Result<void> validate(const wire::TrustTimestamp& timestamp);

/// Decodes and validates a message whose signatures were judged (but see read_own_root): kCorrupt,
/// or kUnsupported when a later release wrote it.
Result<wire::TrustRoot> read_root(wire::ByteView message);
Result<wire::TrustTargets> read_targets(wire::ByteView message);
Result<wire::TrustTimestamp> read_timestamp(wire::ByteView message);

/// A root by itself: read, and signed by the threshold of its own root keys. That makes it
/// consistent, not trusted.
struct OwnRoot {
  Envelope envelope;
  wire::TrustRoot root;
};
Result<OwnRoot> read_own_root(wire::ByteView file);

/// A signed file as other metadata and the verifier's state name it.
wire::TrustFile file_of(std::uint64_t version, wire::ByteView file);

/// A plugin of a catalogue against the bytes that claim to be it: first the length, then SHA-256.
/// kCorrupt.
Result<void> check_plugin_bytes(const wire::TrustPlugin& plugin, wire::ByteView bytes);

/// What this side can run.
struct Runtime {
  std::uint32_t abi_major = 0;
  std::uint32_t abi_minor = 0;
  std::uint32_t release = 0;  ///< major << 16 | minor << 8 | patch
  std::vector<std::string> backends;
};
/// kUnsupported names both sides and what to do.
Result<void> check_runtime(const wire::TrustPlugin& plugin, const Runtime& runtime);

/// What a volunteer allows; an empty list allows all.
struct Restriction {
  /// Every kind of the plugin must be among these; version 0: every version of that name.
  std::vector<wire::TrustKind> kinds;
  std::vector<wire::Digest> signers;  ///< each of these keys must have signed the targets
};
/// kUnsupported names the kind or the signer that is missing.
Result<void> check_restriction(const wire::TrustPlugin& plugin,
                               std::span<const wire::Digest> signers,
                               const Restriction& restriction);

}  // namespace goblin::trust
