// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/net/sha256.hpp"

#include <openssl/evp.h>

#include <cstdlib>

namespace goblin::net {
namespace {

/// Looked up once: EVP_sha256() would be looked up again by every digest.
const EVP_MD* algorithm() {
  static const EVP_MD* const fetched = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return fetched != nullptr ? fetched : EVP_sha256();
}

/// SHA-256 fails only where memory does.
void must(int ok) {
  if (ok != 1) {
    std::abort();
  }
}

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();

  State() { start(); }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  void start() { must(EVP_DigestInit_ex2(context, algorithm(), nullptr)); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(wire::ByteView bytes) {
  must(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()));
}

wire::Digest Sha256::finish() {
  wire::Digest digest;
  must(EVP_DigestFinal_ex(state_->context, digest.bytes.data(), nullptr));
  state_->start();
  return digest;
}

wire::Digest sha256(wire::ByteView bytes) {
  wire::Digest digest;
  must(EVP_Digest(bytes.data(), bytes.size(), digest.bytes.data(), nullptr, algorithm(), nullptr));
  return digest;
}

}  // namespace goblin::net
