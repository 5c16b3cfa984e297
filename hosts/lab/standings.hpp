// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What hosts have earned or lost at this lab node, by their keys, and what of it the journal has
// still to hear. Loop's thread only.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "core/scheduler/scheduler.hpp"
#include "core/store/lab_journal.hpp"

namespace goblin::lab {

/// The scheduler's clock beside the calendar's, read at one moment.
struct Clocks {
  scheduler::Micros now = 0;
  std::int64_t unix_ms = 0;
};

class Standings {
 public:
  /// What the journal has; nothing of it is due to be written.
  void restore(const std::vector<store::StandingRecord>& records);
  /// Of a key that is not known: all zero.
  [[nodiscard]] scheduler::Standing of(const wire::Digest& host, Clocks clocks) const;
  void set(const wire::Digest& host, const scheduler::Standing& standing, Clocks clocks);
  /// The key is forgotten, unless it is suspended still.
  void forget(const wire::Digest& host, Clocks clocks);

  struct Due {
    std::vector<store::StandingRecord> changed;
    std::vector<wire::Digest> forgotten;
    [[nodiscard]] bool empty() const { return changed.empty() && forgotten.empty(); }
  };
  /// What changed since the last call.
  Due take_due();

 private:
  std::map<wire::Digest, store::StandingRecord> records_;
  std::set<wire::Digest> changed_, forgotten_;
};

/// Writes what is due.
Result<void> write_standings(store::LabJournal& journal, const Standings::Due& due);

}  // namespace goblin::lab
