// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What names data: BLAKE3 with 32 bytes of output (https://github.com/BLAKE3-team/BLAKE3-specs).
// Four to five times as fast as SHA-256 on one core, and every byte is hashed wherever it arrives.
// Plugins' files and keys, which others than us must be able to check, are named by SHA-256.
#pragma once

#include <memory>

#include "core/wire/values.hpp"

namespace goblin::net {

/// One thread at a time.
class BlobHash {
 public:
  BlobHash();
  ~BlobHash();
  BlobHash(BlobHash&&) noexcept;
  BlobHash& operator=(BlobHash&&) noexcept;
  /// Fastest with pieces of a power of two, 64 KiB or more.
  void update(wire::ByteView bytes);
  /// The digest of all bytes so far; starts anew afterwards.
  wire::Digest finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

wire::Digest blob_digest(wire::ByteView bytes);

}  // namespace goblin::net
