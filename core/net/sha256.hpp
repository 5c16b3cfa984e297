// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// SHA-256 (FIPS 180-4) by OpenSSL, which uses the processor's instructions for it.
#pragma once

#include <memory>

#include "core/wire/values.hpp"

namespace goblin::net {

/// One thread at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void update(wire::ByteView bytes);
  /// The digest of all bytes so far; starts anew afterwards.
  wire::Digest finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

wire::Digest sha256(wire::ByteView bytes);

}  // namespace goblin::net
