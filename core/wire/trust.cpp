// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The signed catalogue and a verifier's state (trust.capnp).
#include "core/wire/trust.hpp"

#include "core/wire/codec_task.hpp"
#include "trust.capnp.h"

namespace goblin::wire::codec {

GOBLIN_WIRE_STRUCT(TrustKey) { GOBLIN_BYTES32(bytes, Bytes); }
GOBLIN_WIRE_STRUCT(TrustRole) {
  GOBLIN_NUMBER(threshold, Threshold);
  GOBLIN_LIST(keys, Keys, kMaxTrustKeys);
}
GOBLIN_WIRE_STRUCT(TrustRoot) {
  GOBLIN_NUMBER(format, Format);
  GOBLIN_NUMBER(version, Version);
  GOBLIN_NUMBER(issued_s, IssuedS);
  GOBLIN_NUMBER(expires_s, ExpiresS);
  GOBLIN_STRUCT(root, Root);
  GOBLIN_STRUCT(targets, Targets);
  GOBLIN_STRUCT(timestamp, Timestamp);
}

GOBLIN_WIRE_STRUCT(TrustKind) {
  GOBLIN_TEXT(name, Name, kMaxTrustNameBytes);
  GOBLIN_NUMBER(version, Version);
}
GOBLIN_WIRE_STRUCT(TrustBackend) { GOBLIN_TEXT(name, Name, kMaxTrustNameBytes); }
GOBLIN_WIRE_STRUCT(TrustPlugin) {
  GOBLIN_TEXT(name, Name, kMaxTrustNameBytes);
  GOBLIN_DIGEST(plugin, Plugin);
  GOBLIN_NUMBER(size, Size);
  GOBLIN_NUMBER(abi_major, AbiMajor);
  GOBLIN_NUMBER(abi_minor, AbiMinor);
  GOBLIN_LIST(kinds, Kinds, kMaxPluginKinds);
  GOBLIN_LIST(backends, Backends, kMaxTrustBackends);
  GOBLIN_NUMBER(min_release, MinRelease);
}
GOBLIN_WIRE_STRUCT(TrustTargets) {
  GOBLIN_NUMBER(format, Format);
  GOBLIN_NUMBER(version, Version);
  GOBLIN_NUMBER(issued_s, IssuedS);
  GOBLIN_NUMBER(expires_s, ExpiresS);
  GOBLIN_LIST(plugins, Plugins, kMaxPlugins);
}

GOBLIN_WIRE_STRUCT(TrustFile) {
  GOBLIN_NUMBER(version, Version);
  GOBLIN_NUMBER(size, Size);
  GOBLIN_DIGEST(digest, Digest);
}
GOBLIN_WIRE_STRUCT(TrustTimestamp) {
  GOBLIN_NUMBER(format, Format);
  GOBLIN_NUMBER(version, Version);
  GOBLIN_NUMBER(issued_s, IssuedS);
  GOBLIN_NUMBER(expires_s, ExpiresS);
  GOBLIN_STRUCT(targets, Targets);
}

GOBLIN_WIRE_STRUCT(TrustState) {
  GOBLIN_NUMBER(format, Format);
  GOBLIN_LIST(roots, Roots, kMaxTrustRoots);
  GOBLIN_STRUCT(targets, Targets);
  GOBLIN_STRUCT(timestamp, Timestamp);
  GOBLIN_STRUCT(seen_targets, SeenTargets);
  GOBLIN_STRUCT(seen_timestamp, SeenTimestamp);
  GOBLIN_NUMBER(latest_s, LatestS);
}

}  // namespace goblin::wire::codec

namespace goblin::wire {
GOBLIN_WIRE_TRUST_MESSAGES(GOBLIN_WIRE_DEFINE)
}  // namespace goblin::wire
