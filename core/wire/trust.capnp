# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
# What the signed catalogue of plugins is made of, and what a verifier keeps on disk. These bytes are
# signed as they are (docs/catalogue.md). Field numbers are for ever: append, never renumber.
@0xd7c5b8a0f3192e46;

using Cxx = import "/capnp/c++.capnp";
using Task = import "task.capnp";
$Cxx.namespace("goblin::wire::schema");

struct TrustKey {
  bytes @0 :Task.Digest;
}

struct TrustRole {
  threshold @0 :UInt32;
  keys @1 :List(TrustKey);
}

struct TrustRoot {
  format @0 :UInt32;
  version @1 :UInt64;
  issuedS @2 :UInt64;
  expiresS @3 :UInt64;
  root @4 :TrustRole;
  targets @5 :TrustRole;
  timestamp @6 :TrustRole;
}

struct TrustKind {
  name @0 :Text;
  version @1 :UInt32;
}

struct TrustBackend {
  name @0 :Text;
}

struct TrustPlugin {
  name @0 :Text;
  plugin @1 :Task.Digest;
  size @2 :UInt64;
  abiMajor @3 :UInt32;
  abiMinor @4 :UInt32;
  kinds @5 :List(TrustKind);
  backends @6 :List(TrustBackend);
  minRelease @7 :UInt32;
}

struct TrustTargets {
  format @0 :UInt32;
  version @1 :UInt64;
  issuedS @2 :UInt64;
  expiresS @3 :UInt64;
  plugins @4 :List(TrustPlugin);
}

struct TrustFile {
  version @0 :UInt64;
  size @1 :UInt64;
  digest @2 :Task.Digest;
}

struct TrustTimestamp {
  format @0 :UInt32;
  version @1 :UInt64;
  issuedS @2 :UInt64;
  expiresS @3 :UInt64;
  targets @4 :TrustFile;
}

struct TrustState {
  format @0 :UInt32;
  roots @1 :List(TrustFile);
  targets @2 :TrustFile;
  timestamp @3 :TrustFile;
  seenTargets @4 :TrustFile;
  seenTimestamp @5 :TrustFile;
  latestS @6 :UInt64;
}
