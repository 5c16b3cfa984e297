// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/secret.hpp"

#include <sys/random.h>

#include <cstring>

namespace goblin::lab {

std::array<std::uint8_t, 32> draw_seed() {
  std::array<std::uint8_t, 32> seed{};
  while (::getrandom(seed.data(), seed.size(), 0) != static_cast<ssize_t>(seed.size())) {
  }
  return seed;
}

scheduler::Config with_secret_seed(scheduler::Config config) {
  do {
    const auto bytes = draw_seed();
    std::memcpy(&config.seed, bytes.data(), sizeof config.seed);
  } while (config.seed == 0);
  return config;
}

}  // namespace goblin::lab
