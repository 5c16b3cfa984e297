// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/coordinator/known_peers.hpp"

#include <algorithm>

namespace goblin::coordinator {

KnownPeers::KnownPeers(const std::vector<store::PeerRecord>& records, std::size_t keep,
                       std::int64_t every_ms)
    : keep_(std::max<std::size_t>(keep, 1)), every_ms_(every_ms) {
  for (const auto& record : records) {
    peers_.emplace(record.pin, record);
  }
  if (peers_.size() > keep_) {
    forget_oldest();
  }
}

wire::Refusal KnownPeers::greet(const wire::Digest& pin, wire::Role role,
                                const std::string& address, std::int64_t now_unix_ms) {
  const auto [it, fresh] = peers_.try_emplace(pin);
  store::PeerRecord& peer = it->second;
  if (fresh) {
    peer.pin = pin;
    peer.role = role;
    peer.first_seen_unix_ms = now_unix_ms;
  } else if (peer.role != role) {
    return wire::Refusal::kWrongRole;
  } else if (peer.blocked) {
    return wire::Refusal::kNotAuthorised;
  }
  if (fresh || now_unix_ms - peer.last_seen_unix_ms >= every_ms_) {
    peer.address = address;
    peer.last_seen_unix_ms = now_unix_ms;
    changed_.insert(pin);
  }
  if (peers_.size() > keep_ + keep_ / 8) {
    forget_oldest();
  }
  return wire::Refusal::kNone;
}

bool KnownPeers::is_validator(const wire::Digest& pin) const {
  const auto it = peers_.find(pin);
  return it != peers_.end() && it->second.validator;
}

/// In one go for an eighth of them, so that a stream of new keys costs each of them little.
void KnownPeers::forget_oldest() {
  std::vector<std::pair<std::int64_t, wire::Digest>> ages;
  ages.reserve(peers_.size());
  for (const auto& [pin, peer] : peers_) {
    if (!peer.validator && !peer.blocked) {
      ages.emplace_back(peer.last_seen_unix_ms, pin);
    }
  }
  const std::size_t surplus = std::min(peers_.size() - keep_, ages.size());
  std::nth_element(ages.begin(), ages.begin() + static_cast<std::ptrdiff_t>(surplus), ages.end());
  for (std::size_t i = 0; i < surplus; ++i) {
    peers_.erase(ages[i].second);
    changed_.erase(ages[i].second);
  }
  pruned_ = true;
}

KnownPeers::Batch KnownPeers::take_batch() {
  Batch batch;
  batch.prune = std::exchange(pruned_, false);
  batch.seen.reserve(changed_.size());
  for (const auto& pin : changed_) {
    batch.seen.push_back(peers_.at(pin));
  }
  changed_.clear();
  return batch;
}

Result<void> write_batch(store::PeerRegistry& registry, const KnownPeers::Batch& batch,
                         std::uint64_t keep) {
  Result<void> outcome;
  for (const auto& peer : batch.seen) {
    auto done = registry.seen(peer.pin, peer.role, peer.address, peer.last_seen_unix_ms);
    // What we had forgotten may stand there in another role: the greeting could not know.
    if (!done && outcome) {
      outcome = fail(std::move(done).error());
    }
  }
  if (batch.prune) {
    auto pruned = registry.prune(keep);
    if (!pruned && outcome) {
      outcome = fail(std::move(pruned).error());
    }
  }
  return outcome;
}

}  // namespace goblin::coordinator
