// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// How the results of one task are judged. Pure logic: no clock, socket, thread or randomness.
//
//   algebraic   one host commits; its bytes are fetched and the kind's own check decides. When the
//               check abstains, or passes two results that differ, equal digests decide: of a
//               validator if there is one, else of two independent hosts (replicate 2).
//   validator   one host commits; a trusted host recomputes; equal digests accept. A trusted host
//               that was the first is no check of itself: the kind's own check must pass it, or
//               another host agree, unless nobody else is there.
//   replicate k hosts of different groups commit until k digests are equal.
//   adaptive    hosts commit until the doubt about equal results of independent ones
//               (credibility.hpp) is at most the target; then the result is held until a trusted
//               host has recomputed one of its batch, which the caller draws (audit(), release()).
//               Where hosts are too new for replicas to be worth it, a trusted host recomputes
//               this one.
//
// Where digests decide and two differ (a dispute), somebody lies or errs, and nobody is believed at
// his word, no trusted host either (dispute.cpp): the kind's check looks at each of them; where it
// cannot tell, trusted hosts and then further independent ones compute the task, until one digest
// leads by k + 1 votes (k = 2 unless replicating), a trusted host's vote counting k + 1. So the
// word of one trusted host against one other host settles nothing. Hosts are refused once it is
// settled. When nobody is left to ask, the trusted host's result is used and no other host is
// blamed; without one, a majority that is a quorum decides. After 2k + 3 results without k equal
// ones, and after 6(k + 1), the task fails.
//
// A result's digest is over all of its outputs, and its bytes count only when they hash to it. Of
// every digest one copy is fetched at once, before the vote is over: a host that had to keep its
// result until others have voted would, its memory full, keep those others from their votes. Equal
// results are then released by their hosts; their votes stand. A host that later commits to another
// digest for the same task than before is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/validation/credibility.hpp"
#include "core/wire/client.hpp"
#include "core/wire/values.hpp"

namespace goblin::validation {

using HostId = std::uint32_t;
using LeaseId = std::uint64_t;

inline constexpr std::uint32_t kMinReplicas = 2;
inline constexpr std::uint32_t kMaxReplicas = 16;

struct PolicySpec {
  wire::Policy policy = wire::Policy::kAlgebraic;  ///< never kDefault
  std::uint32_t replicas = 2;                      ///< kReplicate: 2 to 16
  Trust trust{};                                   ///< kAdaptive
};

/// The policy of a job: what the researcher asked for, else the kind's default, else algebraic.
/// kInvalidArgument names `policy` or `replicas`, the value and what is allowed.
/// `kind_default_policy` is a GOBLIN_POLICY_* or 0.
Result<PolicySpec> make_policy(wire::Policy asked, std::uint32_t asked_replicas,
                               std::uint32_t kind_default_policy,
                               std::uint32_t kind_default_replicas);

enum class RefusalReason : std::uint8_t {
  kCheckFailed,        ///< the kind's check rejected it
  kBytesDiffer,        ///< its bytes do not hash to what the host had committed to
  kValidatorDiffers,   ///< a trusted host computed something else
  kQuorumDiffers,      ///< enough independent hosts computed something else
  kCommitmentChanged,  ///< the host committed to something else before
  kUnsettled,          ///< a trusted host's is used; nobody knows which of the two was wrong
};
struct Refusal {
  LeaseId lease = 0;
  HostId host = 0;
  RefusalReason reason = RefusalReason::kCheckFailed;
};

/// What must happen next for a task. Several fields may be set at once.
struct Decision {
  std::uint32_t want_results = 0;  ///< further results needed, those under way not counted
  bool want_validator = false;     ///< a result needed from a trusted host
  std::optional<LeaseId> fetch;    ///< fetch this result's bytes
  std::optional<LeaseId> check;    ///< its bytes are here: run the kind's check on them
  std::optional<LeaseId> accept;   ///< its bytes are here and right
  std::optional<LeaseId> hold;     ///< its bytes are here and believed: audit() or release() it
  std::vector<LeaseId> release;    ///< another copy is here: these hosts need not keep theirs
  std::vector<Refusal> refuse;     ///< these are not used; unless kUnsettled, they are wrong
  std::optional<Error> fail;       ///< the task cannot be decided
};

enum class Verdict : std::uint8_t { kAccept, kReject, kAbstain };

/// The judgement of one task. Copyable value; one thread. Leases that it does not know are ignored.
class TaskValidation {
 public:
  /// `by_digest`: the check has abstained on this task before, so it is not asked again.
  TaskValidation(PolicySpec policy, bool validator_available, bool by_digest = false);

  /// Whether a trusted host could be asked; decides where an abstained check goes.
  void set_validator_available(bool available) { validator_available_ = available; }

  /// Whether another independent host could compute it, too; if not, a trusted one must
  /// (kAdaptive).
  void set_replicas_available(bool available) { replicas_available_ = available; }

  /// While unconfirmed(): whether a trusted or an ordinary host is at work on it, or could be asked
  /// beside those that have answered.
  void set_left_to_ask(bool validator, bool host) {
    validator_left_ = validator;
    host_left_ = host;
  }

  /// A host has committed to a result. Ignored when the host's earlier one still stands.
  /// `passed`: results of the host that were recomputed and found right, for kAdaptive.
  void committed(LeaseId lease, HostId host, std::uint64_t group, bool trusted,
                 const wire::Digest& digest, std::uint64_t passed = 0);
  /// Bytes arrived and hash to the committed digest.
  void fetched(LeaseId lease);
  /// The bytes are still awaited, but what else can decide the task need not wait for them.
  void fetch_late(LeaseId lease);
  /// Bytes cannot be had: the host is gone, or sent others than it committed to (`wrong`).
  void fetch_failed(LeaseId lease, bool wrong);
  void checked(LeaseId lease, Verdict verdict);
  /// The host was caught elsewhere: its results and its votes no longer count. What was held with
  /// them is no longer; decide() says anew what becomes of it.
  void discard(HostId host);
  /// A trusted host must recompute this one, whatever is known of who computed it (kAdaptive).
  void audit() { audited_ = true; }
  /// What it was held for has passed: accept it. Ignored unless it is held.
  void release() { released_ = held_.has_value(); }

  /// Whether this host may be asked (again) for this task. It may not while a result of its own
  /// stands or was refused, nor, where digests decide between ordinary hosts, when one of its
  /// group has voted; in a dispute a trusted one may not after a trusted one of its group. Leases
  /// under way are the caller's to mind.
  [[nodiscard]] bool may_ask(HostId host, std::uint64_t group, bool trusted) const;
  /// Two hosts of one group must not both be at work on it.
  [[nodiscard]] bool needs_independence() const;
  /// Digests decide and two that stand differ.
  [[nodiscard]] bool disputed() const;
  /// A dispute, or the word of one trusted host alone: others may have to compute it, too.
  [[nodiscard]] bool unconfirmed() const { return disputed() || lone_trusted(); }
  /// Digests decide, not the kind's check.
  [[nodiscard]] bool by_digest() const;
  /// A trusted host must recompute it.
  [[nodiscard]] bool audited() const { return audited_; }
  /// The lease whose result is held, and waits to be audited or released.
  [[nodiscard]] std::optional<LeaseId> held() const { return held_; }
  /// Groups of hosts whose results stand.
  [[nodiscard]] std::size_t groups() const;
  /// The bytes of this lease's result have arrived.
  [[nodiscard]] bool has_bytes(LeaseId lease) const;
  /// Results that stand (refused and lost ones left out, unless their vote still counts).
  [[nodiscard]] std::size_t results() const { return entries_.size() - refused_; }

  /// Where results that stand differ: one host for each digest, in the order of their coming; else
  /// empty.
  [[nodiscard]] std::vector<HostId> differing() const;
  /// Whose word the accepted or held result rests on: the host that passed the check, or all that
  /// committed to the winning digest. Empty before.
  [[nodiscard]] std::vector<HostId> voters() const;

  /// What is new since the last call; each fetch, check, accept and refusal is said once.
  /// want_results and want_validator are the state of things.
  Decision decide();

 private:
  struct Entry {
    LeaseId lease = 0;
    HostId host = 0;
    std::uint64_t group = 0;
    wire::Digest digest;
    bool trusted = false;
    double doubt = 1;
    bool fetching = false;  ///< asked for and not answered
    bool late = false;      ///< … and nothing waits for it
    bool here = false;      ///< bytes are here and hash to the digest
    bool checking = false;
    bool lost = false;  ///< bytes cannot be had; the vote stands
    bool refused = false;
    std::optional<Verdict> verdict;
  };
  [[nodiscard]] bool replicating() const;
  [[nodiscard]] std::uint32_t quorum() const;
  [[nodiscard]] std::uint32_t votes(const wire::Digest& digest) const;
  Entry* find(LeaseId lease);
  void refuse(Entry& entry, RefusalReason reason);
  bool decide_by_check(Decision& decision);  ///< false: digests must decide
  void decide_by_digest(Decision& decision);
  [[nodiscard]] bool lone_trusted() const;
  void confirm_lone(Decision& decision);
  struct Side;
  [[nodiscard]] std::vector<Side> sides() const;
  [[nodiscard]] bool needs_trusted() const;
  bool ask_check(Decision& decision);  ///< false: it cannot tell
  void settle(Decision& decision);
  void settle_with_nobody_left(const std::vector<Side>& sides, Decision& decision);
  void choose_canonical(Decision& decision);
  void choose_believed(Decision& decision);
  void use_canonical(Decision& decision);
  void gather(Decision& decision);
  void release_copies(const wire::Digest& digest, Decision& decision);
  void unhold();
  void accept(Entry& entry, Decision& decision);

  PolicySpec policy_;
  bool validator_available_ = false;
  bool replicas_available_ = true;
  bool validator_left_ = false;
  bool host_left_ = true;
  bool abstained_ = false;  ///< the check cannot tell
  bool decided_ = false;
  bool audited_ = false;
  bool released_ = false;
  bool unsettled_ = false;
  std::optional<LeaseId> held_;
  std::size_t refused_ = 0;
  HostId accepted_host_ = 0;
  std::optional<wire::Digest> canonical_;
  std::vector<Entry> entries_;
  std::vector<Refusal> pending_refusals_;
};

}  // namespace goblin::validation
