// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/sim/journal_book.hpp"

#include <cstring>

#include "tests/sim/job_plan.hpp"

namespace goblin::sim {
namespace {

std::uint64_t hash_of(wire::ByteView bytes) {
  std::uint64_t hash = 0xcbf29ce484222325 ^ bytes.size();
  for (const std::byte b : bytes) hash = (hash ^ std::uint64_t(b)) * 0x100000001b3;
  return hash;
}

std::uint64_t token_of(const store::JobRecord& job) {
  std::uint64_t token = 0;
  std::memcpy(&token, job.token.data(), sizeof token);
  return token;
}

std::string name(const JournalBook::Key& key) {
  static constexpr const char* kNames[] = {"job",           "plan",       "state",
                                           "accepted task", "quarantine", "standing"};
  return std::string(kNames[std::size_t(key.kind)]) + " " + std::to_string(key.id) + " of job " +
         std::to_string(key.job);
}

}  // namespace

JournalBook::Change JournalBook::job(std::uint64_t number, std::uint64_t token) {
  return {{Kind::kJob, number, 0}, token};
}
JournalBook::Change JournalBook::plan(std::uint64_t job, const wire::Bytes& state) {
  return {{Kind::kPlan, job, 0}, hash_of(state)};
}
JournalBook::Change JournalBook::state(std::uint64_t job, wire::JobState state) {
  return {{Kind::kState, job, 0}, std::uint64_t(state)};
}
JournalBook::Change JournalBook::accepted(const store::AcceptedRecord& record) {
  return {{Kind::kAccepted, record.job, record.task},
          short_of(record.digest) ^ (short_of(record.host) * 3) ^ std::uint64_t(record.merged)};
}
JournalBook::Change JournalBook::withdrawn(std::uint64_t job, std::uint64_t task) {
  return {{Kind::kAccepted, job, task}, std::nullopt};
}
JournalBook::Change JournalBook::quarantine(const store::QuarantineRecord& record) {
  return {{Kind::kQuarantine, record.job, short_of(record.host) ^ record.task}, 1};
}

JournalBook::Change JournalBook::standing(const store::StandingRecord& record) {
  return {{Kind::kStanding, 0, short_of(record.host)},
          record.passed ^ std::uint64_t{record.faults} << 32 ^
              std::uint64_t{record.forgiven} << 48 ^
              std::uint64_t(record.suspended_until_unix_ms) * 0x9e3779b97f4a7c15};
}

void JournalBook::did(std::vector<Change> changes, bool sure) {
  calls_.push_back({std::move(changes), sure});
}

void JournalBook::forgot_job(std::uint64_t job, bool sure) {
  Contents all = base_;
  for (const Call& call : calls_) apply(all, call);
  std::vector<Change> changes;
  for (const auto& [key, value] : all)
    if (key.job == job) changes.emplace_back(key, std::nullopt);
  did(std::move(changes), sure);
}

void JournalBook::apply(Contents& contents, const Call& call) {
  for (const auto& [key, value] : call.changes) {
    if (value) {
      contents[key] = *value;
    } else {
      contents.erase(key);
    }
  }
}

Result<JournalBook::Contents> JournalBook::read(store::LabJournal& journal) {
  Contents found;
  GOBLIN_TRY(const auto jobs, journal.jobs());
  for (const auto& job_record : jobs) {
    const auto add = [&found](const Change& change) { found[change.first] = *change.second; };
    add(job(job_record.job, token_of(job_record)));
    add(state(job_record.job, job_record.state));
    if (job_record.plan_state) add(plan(job_record.job, *job_record.plan_state));
    GOBLIN_TRY(const auto tasks, journal.accepted(job_record.job));
    for (const auto& record : tasks) add(accepted(record));
    GOBLIN_TRY(const auto hosts, journal.quarantines(job_record.job));
    for (const auto& record : hosts) add(quarantine(record));
  }
  GOBLIN_TRY(const auto standings, journal.standings());
  for (const auto& record : standings) {
    const Change change = standing(record);
    found[change.first] = *change.second;
  }
  return found;
}

std::string JournalBook::difference(const Contents& wanted, const Contents& found) const {
  for (const auto& [key, value] : wanted) {
    const auto it = found.find(key);
    if (it == found.end()) return name(key) + " was acknowledged and is lost";
    if (it->second != value) return name(key) + " is not what was acknowledged";
  }
  for (const auto& [key, value] : found) {
    if (wanted.contains(key)) continue;
    // A job that was tried and not acknowledged has its token and its first state.
    const auto job_key = found.find(Key{Kind::kJob, key.job, 0});
    const bool tried = job_key != found.end() && tried_.contains(job_key->second) &&
                       !wanted.contains(job_key->first);
    if (tried && (key.kind == Kind::kJob || key.kind == Kind::kState)) continue;
    return name(key) + " is there and should not be";
  }
  return {};
}

/// Calls that failed may have taken effect, whole; a later call on the same keys hides it.
std::string JournalBook::with_all(const Contents& contents) const {
  Contents wanted = base_;
  std::map<Key, std::size_t> last;  // sure call on the key
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    if (!calls_[i].sure) continue;
    apply(wanted, calls_[i]);
    for (const auto& [key, value] : calls_[i].changes) last[key] = i;
  }
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i].sure) continue;
    Call visible;
    bool took_effect = true;
    for (const Change& change : calls_[i].changes) {
      const auto hidden = last.find(change.first);
      if (hidden != last.end() && hidden->second > i) continue;
      visible.changes.push_back(change);
      const auto it = contents.find(change.first);
      took_effect =
          took_effect && (change.second ? it != contents.end() && it->second == *change.second
                                        : it == contents.end());
    }
    if (took_effect) apply(wanted, visible);
  }
  return difference(wanted, contents);
}

std::string JournalBook::without_tail(const Contents& contents) const {
  std::string why;
  for (std::size_t keep = calls_.size() + 1; keep-- > 0;) {
    Contents wanted = base_;
    for (std::size_t i = 0; i < keep; ++i) apply(wanted, calls_[i]);
    std::string different = difference(wanted, contents);
    if (different.empty()) return {};
    if (why.empty()) why = std::move(different);
  }
  return why + ", nor is it what any number of first calls left";
}

std::string JournalBook::settle(const Contents& contents, bool tail_may_be_lost) {
  std::string why = with_all(contents);
  if (!why.empty() && tail_may_be_lost) why = without_tail(contents);
  base_ = contents;
  calls_.clear();
  return why;
}

}  // namespace goblin::sim
