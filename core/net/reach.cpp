// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/net/reach.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <span>

namespace goblin::net {
namespace {

struct Block {
  std::array<std::uint8_t, 16> prefix;
  unsigned bits;
  Reach reach;
};

// The special-purpose registries of IANA, as far as something may listen there; the first block
// that an address lies in counts.
constexpr std::array kV4{
    Block{{0}, 8, Reach::kNowhere},          Block{{10}, 8, Reach::kPrivate},
    Block{{100, 64}, 10, Reach::kPrivate},   Block{{127}, 8, Reach::kLoopback},
    Block{{169, 254}, 16, Reach::kLink},     Block{{172, 16}, 12, Reach::kPrivate},
    Block{{192, 0, 0}, 24, Reach::kPrivate}, Block{{192, 168}, 16, Reach::kPrivate},
    Block{{198, 18}, 15, Reach::kPrivate},   Block{{224}, 3, Reach::kNowhere},
};
constexpr std::array kV6{
    Block{{0}, 128, Reach::kNowhere},
    Block{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 128, Reach::kLoopback},
    Block{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48, Reach::kPrivate},
    Block{{0x01, 0x00}, 64, Reach::kNowhere},
    Block{{0x20, 0x01, 0x00, 0x00}, 32, Reach::kNowhere},  // Teredo: hides an IPv4 address
    Block{{0xfc}, 7, Reach::kPrivate},
    Block{{0xfe, 0x80}, 10, Reach::kLink},
    Block{{0xfe, 0xc0}, 10, Reach::kPrivate},
    Block{{0xff}, 8, Reach::kNowhere},
};
/// IPv6 addresses that stand for the IPv4 address at this byte.
struct Embedded {
  std::array<std::uint8_t, 16> prefix;
  unsigned bits;
  std::size_t at;
};
constexpr std::array kEmbedded{
    Embedded{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96, 12},
    Embedded{{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96, 12},
    Embedded{{0}, 96, 12},
    Embedded{{0x00, 0x64, 0xff, 0x9b}, 96, 12},
    Embedded{{0x20, 0x02}, 16, 2},
};

bool within_block(std::span<const std::uint8_t> address, const std::array<std::uint8_t, 16>& prefix,
                  unsigned bits) {
  for (unsigned bit = 0; bit < bits; ++bit) {
    const unsigned mask = 0x80u >> (bit % 8);
    if (((address[bit / 8] ^ prefix[bit / 8]) & mask) != 0) {
      return false;
    }
  }
  return true;
}

template <typename Blocks>
Reach look_up(std::span<const std::uint8_t> address, const Blocks& blocks) {
  const auto found = std::find_if(blocks.begin(), blocks.end(), [&](const Block& block) {
    return within_block(address, block.prefix, block.bits);
  });
  return found == blocks.end() ? Reach::kPublic : found->reach;
}

}  // namespace

Reach reach_of(const std::string& numeric) {
  std::array<std::uint8_t, 16> bytes{};
  const std::string plain = numeric.substr(0, numeric.find('%'));
  if (::inet_pton(AF_INET, plain.c_str(), bytes.data()) == 1) {
    return look_up(std::span(bytes).first(4), kV4);
  }
  if (::inet_pton(AF_INET6, plain.c_str(), bytes.data()) != 1) {
    return Reach::kNowhere;
  }
  const auto own = std::find_if(kV6.begin(), kV6.end(), [&](const Block& block) {
    return within_block(bytes, block.prefix, block.bits);
  });
  if (own != kV6.end()) {
    return own->reach;
  }
  for (const Embedded& form : kEmbedded) {
    if (within_block(bytes, form.prefix, form.bits)) {
      return look_up(std::span(bytes).subspan(form.at, 4), kV4);
    }
  }
  return Reach::kPublic;
}

std::string_view reach_name(Reach reach) {
  switch (reach) {
    case Reach::kLoopback:
      return "loopback";
    case Reach::kLink:
      return "link-local";
    case Reach::kPrivate:
      return "private";
    case Reach::kPublic:
      return "public";
    case Reach::kNowhere:
      break;
  }
  return "multicast or reserved";
}

}  // namespace goblin::net
