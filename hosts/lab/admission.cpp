// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/admission.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <span>
#include <string>

#include "core/net/sha256.hpp"
#include "hosts/link/read_config.hpp"

namespace goblin::lab {

void Admission::assign(const wire::HostAssignments& message, net::TimePoint now) {
  for (const auto& host : message.hosts) {
    assigned_[host.host] = {host.validator, now + net::Milliseconds(host.lease_ms)};
  }
}

std::optional<Admission::Standing> Admission::standing(const wire::Digest& pin,
                                                       net::TimePoint now) const {
  const auto it = assigned_.find(pin);
  const bool leased = it != assigned_.end() && it->second.until > now;
  const bool trusted =
      link::contains(validators_, pin) || (network_validators_ && leased && it->second.validator);
  if (!trusted && !leased && !link::contains(hosts_, pin)) {
    return std::nullopt;
  }
  return Standing{trusted};
}

std::size_t Admission::prune(net::TimePoint now) {
  std::erase_if(assigned_, [now](const auto& entry) { return entry.second.until <= now; });
  return assigned_.size();
}

std::uint64_t independence_group(const net::Peer& peer) {
  const std::string& address = peer.address;
  std::string name = address;
  in6_addr v6{};
  if (address.rfind("127.", 0) == 0 || address == "::1") {
    name = peer.pin.hex();
  } else if (inet_pton(AF_INET6, address.c_str(), &v6) == 1 && !IN6_IS_ADDR_V4MAPPED(&v6)) {
    name.assign(reinterpret_cast<const char*>(v6.s6_addr), 8);
  }
  return wire::DigestHash{}(net::sha256(std::as_bytes(std::span(name))));
}

}  // namespace goblin::lab
