// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What a lab node's journal must hold, whatever happened to its disk: everything that a call
// acknowledged; of a call that failed all or nothing; nothing else.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/store/lab_journal.hpp"

namespace goblin::sim {

class JournalBook {
 public:
  enum class Kind : std::uint8_t { kJob, kPlan, kState, kAccepted, kQuarantine, kStanding };
  struct Key {
    Kind kind = Kind::kJob;
    std::uint64_t job = 0, id = 0;
    auto operator<=>(const Key&) const = default;
  };
  /// Nothing: the key is gone.
  using Change = std::pair<Key, std::optional<std::uint64_t>>;
  using Contents = std::map<Key, std::uint64_t>;

  /// A call came back; `sure`: with success.
  void did(std::vector<Change> changes, bool sure);
  /// A job of this token may be there though no call said so.
  void tried_job(std::uint64_t token) { tried_.insert(token); }
  /// The job is removed with all that belongs to it.
  void forgot_job(std::uint64_t job, bool sure);

  /// What is really there; an error of the journal where it cannot be read.
  static Result<Contents> read(store::LabJournal& journal);
  /// Compares and then takes the contents for the truth. Empty: as it must be. `tail_may_be_lost`:
  /// the last calls may be missing, but none before one that is there.
  std::string settle(const Contents& contents, bool tail_may_be_lost);

  static Change job(std::uint64_t number, std::uint64_t token);
  static Change plan(std::uint64_t job, const wire::Bytes& state);
  static Change state(std::uint64_t job, wire::JobState state);
  static Change accepted(const store::AcceptedRecord& record);
  static Change withdrawn(std::uint64_t job, std::uint64_t task);
  static Change standing(const store::StandingRecord& record);
  static Change quarantine(const store::QuarantineRecord& record);

 private:
  struct Call {
    std::vector<Change> changes;
    bool sure = false;
  };
  std::string without_tail(const Contents& contents) const;
  std::string with_all(const Contents& contents) const;
  static void apply(Contents& contents, const Call& call);
  std::string difference(const Contents& wanted, const Contents& found) const;

  Contents base_;            ///< when it was last read
  std::vector<Call> calls_;  ///< since
  std::set<std::uint64_t> tried_;
};

}  // namespace goblin::sim
