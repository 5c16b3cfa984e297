// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/validation/validation.hpp"

#include <algorithm>
#include <string>

namespace goblin::validation {

TaskValidation::TaskValidation(PolicySpec policy, bool validator_available, bool by_digest)
    : policy_(policy), validator_available_(validator_available), abstained_(by_digest) {}

bool TaskValidation::by_digest() const {
  return policy_.policy != wire::Policy::kAlgebraic || abstained_;
}

/// Ordinary hosts' digests decide among themselves.
bool TaskValidation::replicating() const {
  if (policy_.policy == wire::Policy::kReplicate) return true;
  if (policy_.policy == wire::Policy::kAdaptive) return !audited_;
  return policy_.policy == wire::Policy::kAlgebraic && abstained_ && !validator_available_;
}

std::uint32_t TaskValidation::quorum() const {
  return policy_.policy == wire::Policy::kReplicate ? policy_.replicas : kMinReplicas;
}

bool TaskValidation::needs_independence() const {
  return (replicating() || unconfirmed()) && !canonical_;
}

TaskValidation::Entry* TaskValidation::find(LeaseId lease) {
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& e) { return e.lease == lease; });
  return it == entries_.end() ? nullptr : &*it;
}

bool TaskValidation::has_bytes(LeaseId lease) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& e) { return e.lease == lease && e.here; });
}

void TaskValidation::refuse(Entry& entry, RefusalReason reason) {
  if (entry.refused) return;
  if (held_ == entry.lease) unhold();
  entry.refused = true;
  ++refused_;
  pending_refusals_.push_back({entry.lease, entry.host, reason});
}

void TaskValidation::committed(LeaseId lease, HostId host, std::uint64_t group, bool trusted,
                               const wire::Digest& digest, std::uint64_t passed) {
  if (decided_) return;
  const auto old = std::find_if(entries_.begin(), entries_.end(),
                                [&](const Entry& e) { return e.host == host; });
  if (old == entries_.end()) {
    Entry entry;
    entry.lease = lease;
    entry.host = host;
    entry.group = group;
    entry.trusted = trusted;
    entry.digest = digest;
    entry.doubt = doubt(passed, policy_.trust);
    entries_.push_back(entry);
    return;
  }
  if (old->refused || !old->lost) return;
  old->lease = lease;
  if (old->digest != digest) return refuse(*old, RefusalReason::kCommitmentChanged);
  old->lost = false;
}

void TaskValidation::fetched(LeaseId lease) {
  Entry* entry = find(lease);
  if (entry == nullptr || !entry->fetching) return;
  entry->fetching = false;
  entry->late = false;
  entry->here = true;
}

void TaskValidation::fetch_late(LeaseId lease) {
  Entry* entry = find(lease);
  if (entry != nullptr && entry->fetching) entry->late = true;
}

void TaskValidation::fetch_failed(LeaseId lease, bool wrong) {
  Entry* entry = find(lease);
  if (entry == nullptr || decided_ || entry->here || entry->refused) return;
  entry->fetching = false;
  entry->late = false;
  if (wrong) return refuse(*entry, RefusalReason::kBytesDiffer);
  if (by_digest()) {
    entry->lost = true;
    return;
  }
  // Without bytes there is nothing to check, and the same host may try again.
  entries_.erase(entries_.begin() + (entry - entries_.data()));
}

void TaskValidation::checked(LeaseId lease, Verdict verdict) {
  Entry* entry = find(lease);
  if (entry == nullptr || !entry->checking || decided_) return;
  entry->checking = false;
  entry->verdict = verdict;
  if (verdict != Verdict::kReject) return;
  // The same digest is the same bytes, whoever committed to it.
  const wire::Digest rejected = entry->digest;
  for (Entry& e : entries_)
    if (e.digest == rejected) refuse(e, RefusalReason::kCheckFailed);
}

void TaskValidation::discard(HostId host) {
  if (decided_) return;
  const auto erased = std::erase_if(entries_, [&](const Entry& e) {
    if (e.host != host) return false;
    if (e.refused) --refused_;
    return true;
  });
  if (erased > 0) unhold();  // it may rest on too few words now
}

bool TaskValidation::may_ask(HostId host, std::uint64_t group, bool trusted) const {
  const bool independent = needs_independence();
  const bool in_doubt = unconfirmed();
  for (const Entry& e : entries_) {
    // A lost result of the winning digest may be computed again, by whoever.
    if (e.host == host) return e.lost && !e.refused && canonical_.has_value() && !held_;
    const bool votes_alone = trusted && policy_.policy != wire::Policy::kReplicate;
    if (e.refused || e.group != group) continue;
    if (independent && !votes_alone) return false;
    if (in_doubt && trusted && e.trusted) return false;
  }
  return true;
}

std::uint32_t TaskValidation::votes(const wire::Digest& digest) const {
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& e = entries_[i];
    if (e.refused || e.digest != digest) continue;
    bool first_of_group = true;
    for (std::size_t j = 0; j < i && first_of_group; ++j)
      first_of_group =
          entries_[j].refused || entries_[j].digest != digest || entries_[j].group != e.group;
    count += first_of_group ? 1 : 0;
  }
  return count;
}

void TaskValidation::accept(Entry& entry, Decision& decision) {
  decided_ = true;
  held_.reset();
  accepted_host_ = entry.host;
  decision.accept = entry.lease;
  decision.want_results = 0;
  decision.want_validator = false;
}

std::size_t TaskValidation::groups() const {
  std::vector<std::uint64_t> seen;
  for (const Entry& e : entries_)
    if (!e.refused && std::find(seen.begin(), seen.end(), e.group) == seen.end())
      seen.push_back(e.group);
  return seen.size();
}

void TaskValidation::unhold() {
  held_.reset();
  released_ = false;
}

bool TaskValidation::decide_by_check(Decision& decision) {
  Entry* passed = nullptr;
  bool open = false;
  bool awaited = false;  ///< a late fetch is all that could bring a decision
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry& first = entries_[i];
    const auto same = [&](const Entry& e) { return !e.refused && e.digest == first.digest; };
    if (first.refused || std::any_of(entries_.begin(), entries_.begin() + i, same)) continue;
    // Results with one digest are the same bytes: one check speaks for all of them.
    Entry* judged = nullptr;
    Entry* checking = nullptr;
    Entry* fetching = nullptr;
    Entry* ready = nullptr;
    Entry* unasked = nullptr;
    for (std::size_t j = i; j < entries_.size(); ++j) {
      Entry& e = entries_[j];
      if (!same(e)) continue;
      if (e.verdict) judged = &e;
      if (e.checking) checking = &e;
      if (e.fetching && !e.late) fetching = &e;
      if (e.here && ready == nullptr) ready = &e;
      if (!e.here && !e.fetching && unasked == nullptr) unasked = &e;
    }
    if (judged != nullptr) {
      // Canonical numbers: two different results that both pass mean that one is wrong.
      if (judged->verdict == Verdict::kAbstain || passed != nullptr) return false;
      passed = judged;
      continue;
    }
    if (checking == nullptr && fetching == nullptr && ready == nullptr && unasked == nullptr) {
      awaited = true;
      continue;
    }
    open = true;
    if (checking != nullptr || decision.fetch || decision.check) continue;
    if (ready != nullptr) {
      ready->checking = true;
      decision.check = ready->lease;
    } else if (fetching == nullptr) {
      unasked->fetching = true;
      decision.fetch = unasked->lease;
    }
  }
  if (open) return true;
  if (passed != nullptr) {
    accept(*passed, decision);
  } else if (!awaited) {
    decision.want_results = 1;
  }
  return true;
}

/// Policy adaptive, no trusted host's word, no dispute: is the result believed?
void TaskValidation::choose_believed(Decision& decision) {
  const Entry* first = nullptr;
  for (const Entry& e : entries_) {
    if (e.refused) continue;
    if (first == nullptr) first = &e;
  }
  if (first == nullptr) {
    decision.want_results = 1;
    return;
  }
  // One word of each group, the best believed.
  std::vector<std::pair<std::uint64_t, double>> words;
  for (const Entry& e : entries_) {
    if (e.refused) continue;
    const auto known = std::find_if(words.begin(), words.end(),
                                    [&](const auto& word) { return word.first == e.group; });
    if (known == words.end()) {
      words.emplace_back(e.group, e.doubt);
    } else {
      known->second = std::min(known->second, e.doubt);
    }
  }
  std::vector<double> doubts;
  for (const auto& word : words) doubts.push_back(word.second);
  const bool believed = doubt_of_equal(doubts) <= policy_.trust.target_error;
  const bool replicas_would_not_do =
      !replicas_available_ || (doubts.size() == 1 && too_new(doubts[0], policy_.trust));
  if (!believed && replicas_would_not_do) audited_ = true;
  if (audited_) {
    decision.want_validator = true;
  } else if (believed) {
    canonical_ = first->digest;
  } else {
    decision.want_results = 1;
  }
}

void TaskValidation::choose_canonical(Decision& decision) {
  const Entry* any = nullptr;
  const Entry* trusted = nullptr;
  for (const Entry& e : entries_) {
    if (e.refused) continue;
    any = &e;
    if (e.trusted) trusted = &e;
  }
  if (lone_trusted()) return confirm_lone(decision);
  if (policy_.policy != wire::Policy::kReplicate && trusted != nullptr) {
    canonical_ = trusted->digest;
    return;
  }
  if (policy_.policy == wire::Policy::kAdaptive && !audited_) return choose_believed(decision);
  if (!replicating()) {
    decision.want_validator = any != nullptr;
    decision.want_results = any != nullptr ? 0 : 1;
    return;
  }
  const std::uint32_t count = any == nullptr ? 0 : votes(any->digest);
  if (count >= quorum()) {
    canonical_ = any->digest;
  } else {
    decision.want_results = quorum() - count;
  }
}

void TaskValidation::use_canonical(Decision& decision) {
  bool by_validator = false;
  for (const Entry& e : entries_)
    by_validator = by_validator || (!e.refused && e.trusted && e.digest == *canonical_);
  const RefusalReason reason = unsettled_     ? RefusalReason::kUnsettled
                               : by_validator ? RefusalReason::kValidatorDiffers
                                              : RefusalReason::kQuorumDiffers;
  for (Entry& e : entries_)
    if (e.digest != *canonical_) refuse(e, reason);
  Entry* next = nullptr;
  bool fetching = false;
  bool awaited = false;
  for (Entry& e : entries_) {
    if (e.refused || e.digest != *canonical_) continue;
    if (e.here) {
      if (policy_.policy != wire::Policy::kAdaptive || by_validator || released_)
        return accept(e, decision);
      if (!held_) decision.hold = held_ = e.lease;
      return release_copies(*canonical_, decision);
    }
    fetching = fetching || (e.fetching && !e.late);
    awaited = awaited || e.late;
    if (!e.lost && !e.fetching && next == nullptr) next = &e;
  }
  if (fetching) return;
  if (next == nullptr) {
    decision.want_results = awaited ? 0 : 1;
    return;
  }
  next->fetching = true;
  decision.fetch = next->lease;
}

/// The bytes are here: nobody else need keep them.
void TaskValidation::release_copies(const wire::Digest& digest, Decision& decision) {
  for (Entry& e : entries_) {
    if (e.refused || e.digest != digest || e.here || e.lost || e.fetching) continue;
    e.lost = true;
    decision.release.push_back(e.lease);
  }
}

/// One copy of every digest that may win; the others need not be kept.
void TaskValidation::gather(Decision& decision) {
  for (const Entry& first : entries_) {
    if (first.refused) continue;
    const auto same = [&](const Entry& e) { return !e.refused && e.digest == first.digest; };
    if (std::find_if(entries_.begin(), entries_.end(), same)->lease != first.lease) continue;
    bool here = false;
    bool fetching = false;
    Entry* next = nullptr;
    for (Entry& e : entries_) {
      if (!same(e)) continue;
      here = here || e.here;
      fetching = fetching || (e.fetching && !e.late);
      if (next == nullptr && !e.here && !e.lost && !e.fetching) next = &e;
    }
    if (here) {
      release_copies(first.digest, decision);
    } else if (!fetching && next != nullptr && !decision.fetch) {
      next->fetching = true;
      decision.fetch = next->lease;
    }
  }
}

void TaskValidation::decide_by_digest(Decision& decision) {
  canonical_.reset();
  unsettled_ = false;
  if (!disputed()) {
    choose_canonical(decision);
  } else if (!ask_check(decision)) {
    settle(decision);
  }
  if (canonical_) use_canonical(decision);
  if (!decided_ && !canonical_) gather(decision);
}

Decision TaskValidation::decide() {
  Decision decision;
  if (!decided_) {
    if (!by_digest() && !decide_by_check(decision)) {
      abstained_ = true;
      if (decision.fetch) find(*decision.fetch)->fetching = false;
      if (decision.check) find(*decision.check)->checking = false;
      decision = {};
    }
    if (!decided_ && by_digest()) decide_by_digest(decision);
  }
  decision.refuse.swap(pending_refusals_);
  return decision;
}

std::vector<HostId> TaskValidation::differing() const {
  std::vector<HostId> hosts;
  for (auto e = entries_.begin(); e != entries_.end(); ++e) {
    const auto same = [&](const Entry& other) {
      return !other.refused && other.digest == e->digest;
    };
    if (!e->refused && std::none_of(entries_.begin(), e, same)) hosts.push_back(e->host);
  }
  return hosts.size() > 1 ? hosts : std::vector<HostId>{};
}

std::vector<HostId> TaskValidation::voters() const {
  std::vector<HostId> hosts;
  if (!decided_ && !held_) return hosts;
  if (!canonical_) {
    hosts.push_back(accepted_host_);
    return hosts;
  }
  for (const Entry& e : entries_)
    if (!e.refused && e.digest == *canonical_) hosts.push_back(e.host);
  std::sort(hosts.begin(), hosts.end());
  return hosts;
}

}  // namespace goblin::validation
