// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Results of one task that differ: one of them is wrong, and whose must be found out.
#include <algorithm>
#include <string>

#include "core/validation/validation.hpp"

namespace goblin::validation {
namespace {

/// Results in one dispute, in votes that settle one: more are no use.
constexpr std::uint32_t kMostResults = 6;

}  // namespace

/// One digest of those that differ, and who speaks for it.
struct TaskValidation::Side {
  wire::Digest digest;
  std::uint32_t votes = 0;    ///< independent hosts, trusted ones among them
  std::uint32_t trusted = 0;  ///< of those
  [[nodiscard]] std::uint32_t weight(std::uint32_t margin) const {
    return votes - trusted + trusted * margin;
  }
};

bool TaskValidation::disputed() const {
  if (!by_digest()) return false;
  const Entry* first = nullptr;
  for (const Entry& e : entries_) {
    if (e.refused) continue;
    if (first == nullptr) first = &e;
    if (e.digest != first->digest) return true;
  }
  return false;
}

/// Under replicate it is one vote of the quorum.
bool TaskValidation::lone_trusted() const {
  if (!by_digest() || policy_.policy == wire::Policy::kReplicate) return false;
  const Entry* only = nullptr;
  for (const Entry& e : entries_) {
    if (e.refused) continue;
    if (only != nullptr && e.group != only->group) return false;
    if (only == nullptr || e.trusted) only = &e;
  }
  return only != nullptr && only->trusted && !disputed();
}

void TaskValidation::confirm_lone(Decision& decision) {
  if (ask_check(decision)) return;
  const auto trusted = std::find_if(entries_.begin(), entries_.end(),
                                    [](const Entry& e) { return !e.refused && e.trusted; });
  const bool passed = std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) {
    return !e.refused && e.verdict == Verdict::kAccept;
  });
  if (passed || (!validator_left_ && !host_left_)) {
    canonical_ = trusted->digest;
  } else if (validator_left_) {
    decision.want_validator = true;
  } else {
    decision.want_results = 1;
  }
}

std::vector<TaskValidation::Side> TaskValidation::sides() const {
  std::vector<Side> sides;
  for (const Entry& first : entries_) {
    const auto same = [&](const Entry& e) { return !e.refused && e.digest == first.digest; };
    if (first.refused || std::any_of(sides.begin(), sides.end(),
                                     [&](const Side& s) { return s.digest == first.digest; }))
      continue;
    Side side{first.digest, votes(first.digest), 0};
    std::vector<std::uint64_t> groups;
    for (const Entry& e : entries_) {
      if (!same(e) || !e.trusted) continue;
      if (std::find(groups.begin(), groups.end(), e.group) == groups.end())
        groups.push_back(e.group);
    }
    side.trusted = static_cast<std::uint32_t>(groups.size());
    sides.push_back(side);
  }
  return sides;
}

/// Whether only what a trusted host computed, too, is accepted.
bool TaskValidation::needs_trusted() const {
  return policy_.policy == wire::Policy::kValidator || policy_.policy == wire::Policy::kAdaptive;
}

/// What the check rejects is wrong, whoever computed it. It is asked about each of the digests once
/// their bytes are here; of those that cannot be had it says nothing.
bool TaskValidation::ask_check(Decision& decision) {
  if (abstained_) return false;
  bool pending = false;
  std::uint32_t passed = 0;
  for (const Entry& first : entries_) {
    if (first.refused) continue;
    const auto same = [&](const Entry& e) { return !e.refused && e.digest == first.digest; };
    if (std::find_if(entries_.begin(), entries_.end(), same)->lease != first.lease) continue;
    Entry* here = nullptr;
    bool judged = false;
    bool checking = false;
    bool coming = false;
    for (Entry& e : entries_) {
      if (!same(e)) continue;
      if (e.verdict == Verdict::kAbstain) abstained_ = true;
      judged = judged || e.verdict.has_value();
      checking = checking || e.checking;
      coming = coming || (e.fetching && !e.late) || (!e.here && !e.lost && !e.fetching);
      if (e.here && here == nullptr) here = &e;
    }
    if (judged) {
      ++passed;
      continue;
    }
    pending = pending || checking || coming || here != nullptr;
    if (checking || here == nullptr || decision.check) continue;
    here->checking = true;
    decision.check = here->lease;
  }
  // Two that differ and pass: it does not see the error.
  abstained_ = abstained_ || passed > 1;
  if (!abstained_) return pending;
  if (decision.check) find(*decision.check)->checking = false;
  decision.check.reset();
  return false;
}

void TaskValidation::settle(Decision& decision) {
  if (policy_.policy == wire::Policy::kAdaptive) audited_ = true;
  const std::uint32_t margin = quorum() + 1;
  std::vector<Side> all = sides();
  std::stable_sort(all.begin(), all.end(), [&](const Side& a, const Side& b) {
    return a.weight(margin) > b.weight(margin);
  });
  const Side& best = all[0];
  if (best.weight(margin) >= all[1].weight(margin) + margin) {
    const RefusalReason reason =
        best.trusted > 0 ? RefusalReason::kValidatorDiffers : RefusalReason::kQuorumDiffers;
    for (Entry& e : entries_)
      if (e.digest != best.digest) refuse(e, reason);
    return choose_canonical(decision);
  }
  std::size_t live = 0;
  std::uint32_t most = 0;
  for (const Side& side : all) most = std::max(most, side.votes);
  for (const Entry& e : entries_) live += e.refused ? 0 : 1;
  if ((live >= 2 * quorum() + 3 && most < quorum()) || live >= kMostResults * margin) {
    decision.fail = Error{
        Code::kCorrupt,
        std::to_string(live) + " results were computed and " +
            (most < quorum() ? "no " + std::to_string(quorum()) + " of independent hosts are equal"
                             : "none leads by " + std::to_string(margin) + " hosts") +
            ": hosts disagree on this task; look at explain() for who they are"};
    return;
  }
  const bool trusted_spoke =
      std::any_of(all.begin(), all.end(), [](const Side& s) { return s.trusted > 0; });
  if (validator_left_ || (needs_trusted() && !trusted_spoke)) {
    decision.want_validator = true;
  } else if (host_left_) {
    decision.want_results = 1;
  } else {
    settle_with_nobody_left(all, decision);
  }
}

/// Some answer must do, or the job waits for hosts that may never come.
void TaskValidation::settle_with_nobody_left(const std::vector<Side>& sides, Decision& decision) {
  const bool replicate = policy_.policy == wire::Policy::kReplicate;
  const Side* trusted = nullptr;
  std::size_t trusted_sides = 0;
  for (const Side& side : sides) {
    if (side.trusted == 0) continue;
    trusted = &side;
    ++trusted_sides;
  }
  // A trusted host that keeps its bytes from the check is not believed either.
  const bool looked_at =
      trusted != nullptr &&
      (abstained_ || std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) {
         return e.digest == trusted->digest && e.verdict == Verdict::kAccept;
       }));
  if (trusted_sides == 1 && looked_at && (!replicate || trusted->votes >= quorum())) {
    unsettled_ = true;
    canonical_ = trusted->digest;
  } else if (trusted_sides == 0 && sides[0].votes >= quorum() && sides[0].votes > sides[1].votes) {
    canonical_ = sides[0].digest;
  } else if (replicate || trusted_sides == 0) {
    decision.want_results = 1;
  } else {
    decision.want_validator = true;
  }
}

}  // namespace goblin::validation
