// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/secret.hpp"

#include <sys/random.h>

namespace goblin::lab {

std::array<std::uint8_t, 32> draw_seed() {
  std::array<std::uint8_t, 32> seed{};
  while (::getrandom(seed.data(), seed.size(), 0) != static_cast<ssize_t>(seed.size())) {
  }
  return seed;
}

scheduler::Config with_secret_choices(scheduler::Config config) {
  // A call of the kernel for 32 numbers.
  struct Buffer {
    std::array<std::uint64_t, 32> numbers{};
    std::size_t left = 0;
  };
  config.random = [buffer = Buffer()]() mutable {
    if (buffer.left == 0) {
      while (::getrandom(buffer.numbers.data(), sizeof buffer.numbers, 0) !=
             static_cast<ssize_t>(sizeof buffer.numbers)) {
      }
      buffer.left = buffer.numbers.size();
    }
    return buffer.numbers[--buffer.left];
  };
  return config;
}

}  // namespace goblin::lab
