// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Ed25519 keys (RFC 8032) and signatures, by libsodium. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "core/wire/trust.hpp"

namespace goblin::trust {

using PublicKey = wire::TrustKey;
using Signature = std::array<std::uint8_t, 64>;
inline constexpr std::size_t kSeedBytes = 32;

/// SHA-256 of the 32 bytes of the key. Always computed, never believed.
wire::Digest key_id(const PublicKey& key);

/// kInvalidArgument unless it is the canonical form of a point of the main subgroup: a key of small
/// order "signs" anything.
Result<void> check_public_key(const PublicKey& key);

/// False also for keys of small order or not in canonical form, and for signatures that are not
/// canonical. The key was checked when its root was.
bool verify(const PublicKey& key, wire::ByteView message, const Signature& signature);

/// Signs. Its memory is locked where the system allows it, left out of core dumps, and wiped.
class SecretKey final {
 public:
  static SecretKey make();
  static SecretKey from_seed(std::span<const std::uint8_t, kSeedBytes> seed);

  [[nodiscard]] PublicKey public_key() const;
  [[nodiscard]] wire::Digest id() const { return key_id(public_key()); }
  [[nodiscard]] Signature sign(wire::ByteView message) const;
  /// What the key is made of: for key files only.
  [[nodiscard]] std::span<const std::uint8_t, kSeedBytes> seed() const;

 private:
  struct Free {
    void operator()(std::uint8_t* bytes) const;
  };
  SecretKey();
  std::unique_ptr<std::uint8_t, Free> bytes_;  ///< seed, then public key: 64 bytes
};

}  // namespace goblin::trust
