// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/net/blob_hash.hpp"

#include <blake3.h>

namespace goblin::net {
namespace {

wire::Digest result_of(const blake3_hasher& hasher) {
  wire::Digest digest;
  static_assert(sizeof digest.bytes == BLAKE3_OUT_LEN);
  blake3_hasher_finalize(&hasher, digest.bytes.data(), digest.bytes.size());
  return digest;
}

}  // namespace

struct BlobHash::State {
  State() { blake3_hasher_init(&hasher); }
  blake3_hasher hasher;
};

BlobHash::BlobHash() : state_(std::make_unique<State>()) {}
BlobHash::~BlobHash() = default;
BlobHash::BlobHash(BlobHash&&) noexcept = default;
BlobHash& BlobHash::operator=(BlobHash&&) noexcept = default;

void BlobHash::update(wire::ByteView bytes) {
  blake3_hasher_update(&state_->hasher, bytes.data(), bytes.size());
}

wire::Digest BlobHash::finish() {
  const wire::Digest digest = result_of(state_->hasher);
  blake3_hasher_init(&state_->hasher);
  return digest;
}

wire::Digest blob_digest(wire::ByteView bytes) {
  blake3_hasher hasher;
  blake3_hasher_init(&hasher);
  blake3_hasher_update(&hasher, bytes.data(), bytes.size());
  return result_of(hasher);
}

}  // namespace goblin::net
