// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// How the results of one task are judged. Pure logic: no clock, socket, thread or randomness.
//
//   algebraic   one host commits; its bytes are fetched and the kind's own check decides. When the
//               check abstains, the decision goes to a validator if there is one, else to
//               replicate 2.
//   validator   one host commits; a trusted host recomputes; equal digests accept, else the
//               trusted host's result stands and the other host is refused.
//   replicate k hosts of different groups commit until k digests are equal; hosts with another
//               digest are refused. After 2k + 3 results without k equal ones the task fails.
//
// A result's digest is over all of its outputs. The bytes that are used are always fetched after
// the decision's digest is known and must hash to it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/wire/client.hpp"
#include "core/wire/values.hpp"

namespace goblin::validation {

using HostId = std::uint32_t;
using LeaseId = std::uint64_t;

struct PolicySpec {
  wire::Policy policy = wire::Policy::kAlgebraic;  ///< never kDefault
  std::uint32_t replicas = 2;                      ///< kReplicate: 2 to 16
};

/// kInvalidArgument names `policy` or `replicas`, the value and what is allowed.
Result<PolicySpec> make_policy(wire::Policy asked, std::uint32_t asked_replicas,
                               std::uint32_t kind_default_policy,
                               std::uint32_t kind_default_replicas);

/// What must happen next for a task. Several fields may be set at once.
struct Decision {
  std::uint32_t want_results = 0;  ///< further results needed from untrusted hosts
  bool want_validator = false;     ///< a result needed from a trusted host
  std::optional<LeaseId> fetch;    ///< fetch this result's bytes
  std::optional<LeaseId> check;    ///< its bytes are here: run the kind's check on them
  std::optional<LeaseId> accept;   ///< its bytes are here and right
  std::vector<LeaseId> refuse;     ///< these are wrong: quarantine their hosts (once each)
  std::optional<Error> fail;       ///< the task cannot be decided
};

enum class Verdict : std::uint8_t { kAccept, kReject, kAbstain };

/// The judgement of one task. Copyable value.
class TaskValidation {
 public:
  TaskValidation(PolicySpec policy, bool validator_available);

  /// A host has committed to a result.
  void committed(LeaseId lease, HostId host, std::uint64_t group, bool trusted,
                 const wire::Digest& digest);
  /// Bytes arrived and hash to the committed digest.
  void fetched(LeaseId lease);
  /// Bytes cannot be had: the host is gone, or sent others than it committed to (`wrong`).
  void fetch_failed(LeaseId lease, bool wrong);
  void checked(LeaseId lease, Verdict verdict);
  /// Hosts that may not be asked again for this task (they have committed, or their group has).
  [[nodiscard]] bool may_ask(HostId host, std::uint64_t group, bool trusted) const;

  /// What is new since the last call; each fetch, check, accept and refusal is said once.
  Decision decide();

 private:
  struct Entry {
    LeaseId lease = 0;
    HostId host = 0;
    std::uint64_t group = 0;
    bool trusted = false;
    bool fetching = false, fetched = false, checking = false, refused = false, lost = false;
    wire::Digest digest;
  };
  PolicySpec policy_;
  bool validator_available_ = false;
  bool abstained_ = false;
  bool decided_ = false;
  std::optional<wire::Digest> canonical_;
  std::vector<Entry> entries_;
  std::vector<LeaseId> pending_refusals_;
};

}  // namespace goblin::validation
