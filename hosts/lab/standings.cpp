// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/standings.hpp"

namespace goblin::lab {

void Standings::restore(const std::vector<store::StandingRecord>& records) {
  for (const auto& record : records) {
    records_[record.host] = record;
  }
}

scheduler::Standing Standings::of(const wire::Digest& host, Clocks clocks) const {
  scheduler::Standing standing;
  const auto it = records_.find(host);
  if (it == records_.end()) {
    return standing;
  }
  standing.passed = it->second.passed;
  standing.faults = it->second.faults;
  standing.forgiven = it->second.forgiven;
  const std::int64_t left = it->second.suspended_until_unix_ms - clocks.unix_ms;
  if (left > 0) {
    standing.suspended_until = clocks.now + static_cast<scheduler::Micros>(left) * 1000;
  }
  return standing;
}

void Standings::set(const wire::Digest& host, const scheduler::Standing& standing, Clocks clocks) {
  auto& record = records_[host];
  record.host = host;
  record.passed = standing.passed;
  record.faults = standing.faults;
  record.forgiven = standing.forgiven;
  record.suspended_until_unix_ms =
      standing.suspended_until > clocks.now
          ? clocks.unix_ms +
                static_cast<std::int64_t>((standing.suspended_until - clocks.now + 999) / 1000)
          : 0;
  changed_.insert(host);
  forgotten_.erase(host);
}

void Standings::forget(const wire::Digest& host, Clocks clocks) {
  const auto it = records_.find(host);
  if (it == records_.end() || it->second.suspended_until_unix_ms > clocks.unix_ms) {
    return;
  }
  records_.erase(it);
  changed_.erase(host);
  forgotten_.insert(host);
}

Standings::Due Standings::take_due() {
  Due due;
  for (const auto& host : changed_) {
    due.changed.push_back(records_.at(host));
  }
  due.forgotten.assign(forgotten_.begin(), forgotten_.end());
  changed_.clear();
  forgotten_.clear();
  return due;
}

Result<void> write_standings(store::LabJournal& journal, const Standings::Due& due) {
  if (!due.changed.empty()) {
    GOBLIN_TRY_VOID(journal.record_standings(due.changed));
  }
  if (!due.forgotten.empty()) {
    GOBLIN_TRY_VOID(journal.forget_standings(due.forgotten));
  }
  return {};
}

}  // namespace goblin::lab
