// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// From where an address can be reached. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace goblin::net {

/// Wider ones are greater.
enum class Reach : std::uint8_t {
  kNowhere,   ///< multicast, broadcast, unspecified, reserved; not an address
  kLoopback,  ///< this machine
  kLink,      ///< this link: 169.254.0.0/16, fe80::/10
  kPrivate,   ///< a site: RFC 1918, RFC 6598, unique local addresses
  kPublic,
};

/// Of a numeric IPv4 or IPv6 address, with a zone or without. IPv6 addresses that stand for an IPv4
/// address (mapped, compatible, translated, 6to4) reach as far as that.
[[nodiscard]] Reach reach_of(const std::string& numeric);
[[nodiscard]] std::string_view reach_name(Reach reach);

}  // namespace goblin::net
