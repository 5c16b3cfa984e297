// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/trust/sodium.hpp"

#include <cstdio>
#include <cstdlib>

namespace goblin::trust {

void sodium_failed(const char* why) {
  std::fprintf(stderr, "goblin: libsodium: %s\n", why);
  std::abort();
}

void start_sodium() {
  static const bool started = sodium_init() >= 0;
  if (!started) {
    sodium_failed("it cannot start");
  }
}

}  // namespace goblin::trust
