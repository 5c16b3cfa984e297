// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Splitmix64: the same numbers everywhere, unlike std's distributions.
#pragma once

#include <cstdint>

namespace goblin::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
  double uniform() { return double(next() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  bool chance(double p) { return p > 0 && uniform() < p; }

 private:
  std::uint64_t state_;
};

}  // namespace goblin::sim
