// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A signed file: the exact bytes of one message of trust.capnp, and who signed them.
//
//   offset    size
//   0         8    magic "GBLNSIG1"
//   8         4    role: 1 root, 2 targets, 3 timestamp; little endian, as all numbers
//   12        4    number of signatures n, at most 64
//   16        8    length of the message in bytes, a multiple of 8, at least 8
//   24        96n  key id (32 bytes) and Ed25519 signature (64), ascending by key id, none twice
//   24 + 96n  …    message; nothing follows
//
// What is signed is not the message but signed_input(role, message): a signature for one role is
// none for another. Nothing of the message is decoded before its signatures hold. Any thread.
#pragma once

#include <string_view>
#include <vector>

#include "core/trust/keys.hpp"

namespace goblin::trust {

enum class MetadataRole : std::uint32_t { kRoot = 1, kTargets = 2, kTimestamp = 3 };
/// "root", "targets", "timestamp"
std::string_view role_name(MetadataRole role);

inline constexpr std::uint32_t kMaxSignatures = 64;

/// The longest file of a role, signatures included.
std::uint64_t max_file_bytes(MetadataRole role);

struct KeySignature {
  wire::Digest key;  ///< key_id
  Signature signature{};
  bool operator==(const KeySignature&) const = default;
};
struct Envelope {
  MetadataRole role = MetadataRole::kRoot;
  std::vector<KeySignature> signatures;  ///< ascending by key, none twice
  wire::Bytes message;
};

wire::Bytes encode_envelope(const Envelope& envelope);
/// kCorrupt unless it is a file of that role, to the byte; the signatures are not judged.
Result<Envelope> parse_envelope(MetadataRole role, wire::ByteView file);
/// The role that a file claims; kCorrupt when it is no such file.
Result<MetadataRole> role_of(wire::ByteView file);

/// Length (1 byte) and text of the domain "gpu-goblin/trust/1/<role>", length of the message
/// (8 bytes), the message.
wire::Bytes signed_input(MetadataRole role, wire::ByteView message);

/// Judges the signatures against the keys of a role; answers whose hold, ascending. kCorrupt: fewer
/// distinct keys than the threshold, a threshold of 0, or a signature under a listed key's id that
/// does not hold. Signatures of other keys are ignored: a key that a root no longer lists may have
/// signed too. `whose` says in errors whose keys they are ("root version 3").
Result<std::vector<wire::Digest>> check_signatures(const Envelope& envelope,
                                                   const wire::TrustRole& keys,
                                                   std::string_view whose);

}  // namespace goblin::trust
