// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// ChaCha20 (RFC 8439) as a stream of random numbers: 32 secret bytes in, numbers out that nobody
// without them can predict or recover. One thread.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace goblin::matmul {

class ChaCha {
 public:
  /// `stream` tells streams of one key apart (the nonce's last word).
  explicit ChaCha(std::span<const std::uint8_t, 32> key, std::uint32_t stream = 0)
      : state_{0x61707865U, 0x3320646eU, 0x79622d32U, 0x6b206574U} {
    for (std::size_t i = 0; i < 8; ++i) {
      state_[4 + i] = static_cast<std::uint32_t>(key[4 * i]) |
                      static_cast<std::uint32_t>(key[4 * i + 1]) << 8 |
                      static_cast<std::uint32_t>(key[4 * i + 2]) << 16 |
                      static_cast<std::uint32_t>(key[4 * i + 3]) << 24;
    }
    state_[15] = stream;
  }

  std::uint64_t next() {
    if (used_ == block_.size()) refill();
    const std::uint64_t low = block_[used_];
    const std::uint64_t high = block_[used_ + 1];
    used_ += 2;
    return high << 32 | low;
  }

  /// Uniform in [0, bound), unbiased (Lemire); bound ≥ 1.
  std::uint64_t below(std::uint64_t bound) {
    __extension__ typedef unsigned __int128 Wide;
    Wide product = static_cast<Wide>(next()) * bound;
    if (static_cast<std::uint64_t>(product) < bound) {
      const std::uint64_t threshold = (0 - bound) % bound;
      while (static_cast<std::uint64_t>(product) < threshold) {
        product = static_cast<Wide>(next()) * bound;
      }
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  /// ±[1, 2): a random sign and 52 random bits.
  double signed_unit() {
    const std::uint64_t bits = next();
    return std::bit_cast<double>((bits & 0x800fffffffffffffU) | 0x3ff0000000000000U);
  }

 private:
  static void quarter(std::array<std::uint32_t, 16>& x, std::size_t a, std::size_t b, std::size_t c,
                      std::size_t d) {
    x[a] += x[b];
    x[d] = std::rotl(x[d] ^ x[a], 16);
    x[c] += x[d];
    x[b] = std::rotl(x[b] ^ x[c], 12);
    x[a] += x[b];
    x[d] = std::rotl(x[d] ^ x[a], 8);
    x[c] += x[d];
    x[b] = std::rotl(x[b] ^ x[c], 7);
  }

  void refill() {
    block_ = state_;
    for (int round = 0; round < 10; ++round) {
      quarter(block_, 0, 4, 8, 12);
      quarter(block_, 1, 5, 9, 13);
      quarter(block_, 2, 6, 10, 14);
      quarter(block_, 3, 7, 11, 15);
      quarter(block_, 0, 5, 10, 15);
      quarter(block_, 1, 6, 11, 12);
      quarter(block_, 2, 7, 8, 13);
      quarter(block_, 3, 4, 9, 14);
    }
    for (std::size_t i = 0; i < 16; ++i) block_[i] += state_[i];
    if (++state_[12] == 0) ++state_[13];
    used_ = 0;
  }

  std::array<std::uint32_t, 16> state_;
  std::array<std::uint32_t, 16> block_{};
  std::size_t used_ = 16;
};

}  // namespace goblin::matmul
