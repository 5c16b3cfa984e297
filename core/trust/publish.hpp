// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The side that publishes: makes metadata, collects signatures, says what is still missing. Pure
// functions over the bytes of files, so that each step can be done on another computer by another
// person: make a file, hand it round, each adds a signature (docs/catalogue.md). Any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/trust/metadata.hpp"

namespace goblin::trust {

// ---- roots ----

/// `current` with the next version and new times: change it, then make_root_file.
wire::TrustRoot next_root(const wire::TrustRoot& current, std::uint64_t issued_s,
                          std::uint64_t expires_s);
/// kInvalidArgument: the key cannot be trusted, or serves a role already.
Result<void> add_key(wire::TrustRoot& root, MetadataRole role, const PublicKey& key);
/// kNotFound. The threshold stays: a role with fewer keys than that makes no root file.
Result<void> remove_key(wire::TrustRoot& root, MetadataRole role, const wire::Digest& key);
wire::TrustRole& keys_of(wire::TrustRoot& root, MetadataRole role);
const wire::TrustRole& keys_of(const wire::TrustRoot& root, MetadataRole role);

// ---- targets ----

/// What a plugin's own note says, and what its publisher says about it.
struct PluginFacts {
  std::string name;
  std::uint32_t abi_major = 0;
  std::uint32_t abi_minor = 0;
  std::vector<wire::TrustKind> kinds;
  std::vector<std::string> backends;  ///< none: every one
  std::uint32_t min_release = 0;
};
/// The entry of a plugin file, its length and digest from its bytes.
wire::TrustPlugin plugin_entry(const PluginFacts& facts, wire::ByteView file);

wire::TrustTargets next_targets(const wire::TrustTargets& current, std::uint64_t issued_s,
                                std::uint64_t expires_s);
/// kInvalidArgument: the entry breaks a rule of validate, or its name or file is listed already.
Result<void> add_plugin(wire::TrustTargets& targets, const wire::TrustPlugin& plugin);
/// By name or by digest in hexadecimal digits. kNotFound.
Result<void> revoke_plugin(wire::TrustTargets& targets, std::string_view name_or_digest);

// ---- files ----

/// Files without signatures; kInvalidArgument as `validate`, or too long for their role.
Result<wire::Bytes> make_root_file(const wire::TrustRoot& root);
Result<wire::Bytes> make_targets_file(const wire::TrustTargets& targets);
/// `targets_file` with all its signatures: any change to it needs a new timestamp.
Result<wire::Bytes> make_timestamp_file(std::uint64_t version, std::uint64_t issued_s,
                                        std::uint64_t expires_s, wire::ByteView targets_file);

/// The file with the key's signature added, or renewed; the others' stay. Signs only what it can
/// read and what `validate` takes. `root`: the one in force; null before the first.
/// kInvalidArgument when hosts would not count the key: it has no such role there (nor, for a root,
/// in the new one).
Result<wire::Bytes> sign(wire::ByteView file, const SecretKey& key, const wire::TrustRoot* root);

/// How far the signatures under one root's keys have come.
struct Duty {
  std::string whose;  ///< "root version 3"
  std::uint32_t threshold = 0;
  std::vector<wire::Digest> have;     ///< signatures that hold
  std::vector<wire::Digest> missing;  ///< keys that could sign still
  [[nodiscard]] bool done() const { return have.size() >= threshold; }
};
struct Standing {
  MetadataRole role = MetadataRole::kRoot;
  std::uint64_t version = 0;
  std::uint64_t issued_s = 0;
  std::uint64_t expires_s = 0;
  std::vector<Duty> duties;  ///< a new root has two: its predecessor's keys, and its own
  [[nodiscard]] bool done() const;
};
/// `root`: the one in force; null before the first, which must be `file` then. kCorrupt: a
/// signature of a listed key does not hold.
Result<Standing> standing(wire::ByteView file, const wire::TrustRoot* root);

}  // namespace goblin::trust
