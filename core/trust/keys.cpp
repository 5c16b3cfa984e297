// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/trust/keys.hpp"

#include "core/net/sha256.hpp"
#include "core/trust/sodium.hpp"

namespace goblin::trust {

static_assert(crypto_sign_PUBLICKEYBYTES == sizeof(PublicKey::bytes));
static_assert(crypto_sign_BYTES == std::tuple_size_v<Signature>);
static_assert(crypto_sign_SEEDBYTES == kSeedBytes);

wire::Digest key_id(const PublicKey& key) {
  return net::sha256(std::as_bytes(std::span(key.bytes)));
}

Result<void> check_public_key(const PublicKey& key) {
  start_sodium();
  if (crypto_core_ed25519_is_valid_point(key.bytes.data()) != 1) {
    return fail(Code::kInvalidArgument,
                "the public key with id " + key_id(key).hex() +
                    " is no Ed25519 key that can be trusted (small order, or not in canonical "
                    "form); make another one");
  }
  return {};
}

bool verify(const PublicKey& key, wire::ByteView message, const Signature& signature) {
  start_sodium();
  return crypto_sign_verify_detached(signature.data(),
                                     reinterpret_cast<const unsigned char*>(message.data()),
                                     message.size(), key.bytes.data()) == 0;
}

void SecretKey::Free::operator()(std::uint8_t* bytes) const { sodium_free(bytes); }

SecretKey::SecretKey() {
  start_sodium();
  bytes_.reset(static_cast<std::uint8_t*>(sodium_malloc(crypto_sign_SECRETKEYBYTES)));
  if (!bytes_) {
    sodium_failed("no memory for a key");
  }
}

SecretKey SecretKey::make() {
  SecretKey key;
  PublicKey ignored;
  crypto_sign_keypair(ignored.bytes.data(), key.bytes_.get());
  return key;
}

SecretKey SecretKey::from_seed(std::span<const std::uint8_t, kSeedBytes> seed) {
  SecretKey key;
  PublicKey ignored;
  crypto_sign_seed_keypair(ignored.bytes.data(), key.bytes_.get(), seed.data());
  return key;
}

PublicKey SecretKey::public_key() const {
  PublicKey key;
  crypto_sign_ed25519_sk_to_pk(key.bytes.data(), bytes_.get());
  return key;
}

Signature SecretKey::sign(wire::ByteView message) const {
  Signature signature{};
  crypto_sign_detached(signature.data(), nullptr,
                       reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                       bytes_.get());
  return signature;
}

std::span<const std::uint8_t, kSeedBytes> SecretKey::seed() const {
  return std::span<const std::uint8_t, kSeedBytes>(bytes_.get(), kSeedBytes);
}

}  // namespace goblin::trust
