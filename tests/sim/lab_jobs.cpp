// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Jobs of the lab node: from the client to the journal and back after the lab node has stopped.
#include <algorithm>
#include <cstring>

#include "goblin/abi/plugin.h"

#include "tests/sim/world.hpp"

namespace goblin::sim {

bool Lab::still_up() {
  if (!disk_.frozen()) return true;
  stop(world_.random.chance(world_.options.power_losses) ? Stop::kPower : Stop::kKill);
  return false;
}

/// The client: sends the same token until it is told the job's number.
void Lab::submit(std::size_t index) {
  if (submitted_[index] != 0) return;
  if (up()) {
    const JobPlan& plan = plans_[index];
    book_.tried_job(plan.key);
    const auto number = journal_->add_job(plan.record());
    if (still_up() && number) {
      world_.time.note("job submitted", {node_, *number, plan.key});
      submitted_[index] = *number;
      SimJob& job = jobs_[*number];
      if (job.plan == nullptr) {
        job.id = *number;
        job.plan = &plan;
        book_.did({JournalBook::job(*number, plan.key),
                   JournalBook::state(*number, wire::JobState::kQueued)},
                  true);
      }
      if (plan.cancelled > 0)
        world_.time.after(plan.cancelled - plan.submitted, [this, id = *number] {
          SimJob* cancelled = up() ? find_job(id) : nullptr;
          if (cancelled == nullptr || cancelled->ended) return;
          world_.time.note("job cancelled", {node_, id});
          cancelled->ended = true;
          end_job(*cancelled, wire::JobState::kCancelled);
        });
      if (!seats_.empty() && !job.started && !job.ended) start(job);
      if (up()) pump();
      return;
    }
  }
  world_.time.after(200'000 + world_.random.below(1'000'000), [this, index] { submit(index); });
}

/// A host is here, so the plan is opened: anew, or from its state and what was accepted.
void Lab::start(SimJob& job) {
  job.started = true;
  const JobId id = job.id;
  later(work_time(), [this, id] {
    SimJob& opened = jobs_.at(id);
    if (opened.ended) return;
    const auto record = journal_->job(id);
    if (!still_up()) return;
    if (record && record->plan_state) {
      if (!restore(opened)) return;
    } else {
      const wire::Bytes state = opened.plan->state();
      const auto set =
          record ? journal_->set_plan_state(id, state) : Result<void>(fail(record.error()));
      if (record) book_.did({JournalBook::plan(id, state)}, set.has_value() && !disk_.frozen());
      if (!still_up()) return;
      if (!set) {
        opened.disk_failed = true;
        return end_job(opened, wire::JobState::kFailed);
      }
      scheduler_->add_job(id, opened.plan->policy, opened.plan->weight, world_.time.now());
    }
    opened.scheduled = true;
    pump();
  });
}

/// As the engine's replay: whatever the scheduler must know of before it acts.
bool Lab::restore(SimJob& job) {
  const auto records = journal_->accepted(job.id);
  const auto quarantined = journal_->quarantines(job.id);
  if (!still_up()) return false;
  if (!records || !quarantined) {
    job.disk_failed = true;
    end_job(job, wire::JobState::kFailed);
    return false;
  }
  world_.time.note("job taken up", {node_, job.id, records->size(), quarantined->size()});
  scheduler_->add_job(job.id, job.plan->policy, job.plan->weight, world_.time.now());
  for (const auto& record : *records) {
    // What a result rests on was accepted before it.
    const TaskId first = job.plan->first_of_round(record.task);
    if (job.plan->round > 0 && first > 0 && !job.accepted.contains(record.task))
      for (TaskId task = first - job.plan->round; task < first; ++task)
        if (!job.accepted.contains(task) && !job.withdrawn.contains(task))
          world_.time.violate("task " + std::to_string(record.task) + " of job " +
                              std::to_string(job.id) + " was journalled before task " +
                              std::to_string(task) + ", whose result it reads");
    job.accepted[record.task] = {record.host, record.digest};
    job.restored.insert(record.task);
    job.told.insert(record.task);
  }
  for (const auto& record : *records)
    scheduler_->restore_accepted(job.id, record.task, record.planned.flops, id_of(record.host));
  for (const auto& record : *quarantined) {
    job.caught.insert(record.host);
    scheduler_->restore_quarantine(job.id, id_of(record.host));
  }
  return true;
}

void Lab::plan_more(const scheduler::PlanMore& ask) {
  SimJob& asked = jobs_.at(ask.job);
  ++asked.plans;
  if (ask.max_tasks == 0) world_.time.violate("the planner is asked for no tasks");
  world_.time.note("plan", {node_, ask.job, ask.max_tasks, ask.memory_bytes});
  later(work_time(), [this, ask] {
    SimJob& job = jobs_.at(ask.job);
    if (job.ended) return;
    const JobPlan& plan = *job.plan;
    if (ask.memory_bytes < plan.memory) {
      const std::uint64_t need = world_.random.chance(0.5) ? plan.memory : 0;
      scheduler_->planned(job.id, 0, true, need, world_.time.now());
      return pump();
    }
    std::uint32_t progress = GOBLIN_PLAN_MORE;
    for (std::uint32_t i = 0; i < ask.max_tasks && job.next < plan.tasks; ++i) {
      bool waits = false;
      if (const TaskId first = plan.first_of_round(job.next); first > 0)
        for (TaskId task = first - plan.round; task < first && !waits; ++task)
          waits = !job.accepted.contains(task) && !job.withdrawn.contains(task);
      if (waits) {
        progress = GOBLIN_PLAN_WAIT;
        break;
      }
      const TaskId task = job.next++;
      if (job.restored.erase(task) == 0)
        scheduler_->task_ready(plan.task(job.id, task), world_.time.now());
    }
    if (job.next == plan.tasks) progress = GOBLIN_PLAN_DONE;
    scheduler_->planned(job.id, progress, false, 0, world_.time.now());
    pump();
  });
}

/// Everything that waits to be accepted, in one transaction; then the scheduler hears of it.
void Lab::write_accepted(JobId id) {
  SimJob& job = jobs_.at(id);
  job.writing = false;
  if (job.ended || job.accepting.empty()) return;
  std::vector<store::AcceptedRecord> records;
  std::vector<JournalBook::Change> changes;
  const std::vector<scheduler::AcceptResult> batch = std::move(job.accepting);
  job.accepting.clear();
  for (const auto& a : batch) {
    store::AcceptedRecord& record = records.emplace_back();
    record.job = id;
    record.task = a.task;
    for (const auto& [pin, host] : ids_)
      if (host == a.host) record.host = pin;
    record.digest = a.digest;
    record.merged = a.task % 3 != 0;
    record.planned.id = a.task;
    record.planned.flops = job.plan->task(id, a.task).flops;
    changes.push_back(JournalBook::accepted(record));
  }
  const bool sure = journal_->record_accepted(records).has_value();
  book_.did(changes, sure && !disk_.frozen());
  if (!still_up()) return;
  if (!sure) {
    job.disk_failed = true;
    return end_job(job, wire::JobState::kFailed);
  }
  for (const auto& record : records) {
    job.accepted[record.task] = {record.host, record.digest};
    job.rerunning.erase(record.task);
  }
  later(work_time(), [this, id, batch] {
    SimJob& told = jobs_.at(id);
    if (told.ended) return;
    for (const auto& a : batch) {
      world_.time.note("accepted", {node_, id, a.task});
      told.told.insert(a.task);
      scheduler_->accepted(id, a.task, world_.time.now());
      if (world_.random.chance(world_.options.duplicate))
        scheduler_->accepted(id, a.task, world_.time.now());
    }
    pump();
  });
}

/// What hosts have earned, and what it cost them to be caught.
void Lab::write_standings() {
  std::vector<store::StandingRecord> records;
  std::vector<JournalBook::Change> changes;
  for (const Pin& pin : std::exchange(standings_due_, {})) {
    const scheduler::Standing& known = standings_.at(pin);
    records.push_back({pin, known.passed, known.faults, known.forgiven,
                       std::int64_t(known.suspended_until / 1'000)});
    changes.push_back(JournalBook::standing(records.back()));
  }
  const bool sure = journal_->record_standings(records).has_value();
  book_.did(std::move(changes), sure && !disk_.frozen());
  (void)still_up();
}

void Lab::recheck(const scheduler::Recheck& ask) {
  SimJob& asked = jobs_.at(ask.job);
  world_.time.note("recheck", {node_, ask.job, ask.task});
  if (!asked.accepted.contains(ask.task))
    return world_.time.violate("a recheck of what is not accepted");
  if (!asked.rechecking.insert(ask.task).second)
    return world_.time.violate("a recheck of what is being rechecked");
  // Bytes must be recalled first: that may take longer than all that is left of the job.
  const Micros wait = world_.random.chance(0.3) ? 1'000 * work_time() : work_time();
  later(wait, [this, ask] {
    SimJob& job = jobs_.at(ask.job);
    if (job.ended) return;
    job.rechecking.erase(ask.task);
    const bool right = job.accepted.at(ask.task).digest ==
                       result_of(job.plan->key, ask.task, before(job, ask.task), 0);
    const double odds = world_.faulty() ? 0.2 : 0;
    const auto verdict = !right                       ? scheduler::Verdict::kReject
                         : world_.random.chance(odds) ? scheduler::Verdict::kAbstain
                                                      : scheduler::Verdict::kAccept;
    if (verdict == scheduler::Verdict::kAccept) {
      job.verified.insert(ask.task);
    } else {
      const bool sure = journal_->withdraw_accepted(job.id, ask.task).has_value();
      book_.did({JournalBook::withdrawn(job.id, ask.task)}, sure && !disk_.frozen());
      if (!still_up()) return;
      if (!sure) {
        job.disk_failed = true;
        return end_job(job, wire::JobState::kFailed);
      }
      job.rerunning.insert(ask.task);
      job.withdrawn.insert(ask.task);
      job.verified.erase(ask.task);
      job.accepted.erase(ask.task);
      job.told.erase(ask.task);
      job.commits.erase(ask.task);
    }
    world_.time.note("rechecked", {node_, ask.job, ask.task, std::uint64_t(verdict)});
    scheduler_->rechecked(ask.job, ask.task, verdict, world_.time.now());
    pump();
  });
}

void Lab::end_job(SimJob& job, wire::JobState state) {
  job.ended = true;
  if (job.scheduled) {
    scheduler_->remove_job(job.id, world_.time.now());
    // What is left to say of it ends its leases.
    for (const auto& action : scheduler_->take_actions()) {
      const bool names_it = std::visit(
          [&](const auto& a) {
            if constexpr (requires { a.job; })
              return a.job == job.id;
            else
              return false;
          },
          action);
      if (names_it) world_.time.violate("a removed job is spoken of");
      std::visit([this](const auto& a) { on(a); }, action);
      if (!up()) return;
    }
    for (const auto& [id, lease] : leases_)
      if (lease.job == job.id)
        world_.time.violate("lease " + std::to_string(id) + " outlives job " +
                            std::to_string(job.id));
  }
  job.scheduled = false;
  later(work_time(), [this, id = job.id, state] { write_end(jobs_.at(id), state, 3); });
}

void Lab::write_end(SimJob& job, wire::JobState state, int tries) {
  world_.time.note("end written", {node_, job.id, std::uint64_t(state)});
  const wire::Bytes summary(world_.random.below(world_.options.large + 200));
  const bool sure = journal_->set_job_state(job.id, state, 0, "", 2, summary).has_value();
  book_.did({JournalBook::state(job.id, state)}, sure && !disk_.frozen());
  if (!still_up()) return;
  job.done = job.done || sure;
  if (sure && world_.random.chance(0.1))
    later(work_time(), [this, id = job.id] {
      world_.time.note("job forgotten", {node_, id});
      const bool forgotten = journal_->forget_job(id).has_value();
      book_.forgot_job(id, forgotten && !disk_.frozen());
      jobs_.at(id).forgotten = true;
      (void)still_up();
    });
  if (!sure && tries > 1)
    later(500'000,
          [this, id = job.id, state, tries] { write_end(jobs_.at(id), state, tries - 1); });
}

// ---- the end of the process, and its next beginning ----

void Lab::stop(Stop how) {
  if (!up()) return;
  world_.time.note(how == Stop::kClean  ? "lab node ends"
                   : how == Stop::kKill ? "lab node killed"
                                        : "lab node loses power",
                   {node_});
  stopped_by_ = how;
  power_lost_ = power_lost_ || how == Stop::kPower;
  if (how != Stop::kClean) disk_.stop_now();
  ++life_;
  scheduler_.reset();
  journal_.reset();
  const std::uint64_t seed = world_.random.next();
  // Even an orderly end may meet a disk that stops in the middle of it.
  if (how != Stop::kClean || disk_.frozen()) disk_.restart(how == Stop::kPower);
  disk_.set_faults({});
  for (const auto& [id, seat] : seats_) {
    SimHost& host = *seat.host;
    world_.time.after(world_.random.below(seed % 5 == 0 ? 5'000'000 : 20'000),
                      [this, &host, c = seat.connection] { host.lost(*this, c); });
  }
  seats_.clear();
  ids_.clear();
  admitted_.clear();
  leases_.clear();
  used_leases_.clear();
  standings_.clear();
  standings_due_.clear();
  fetches_.clear();
  for (auto& [id, job] : jobs_) {
    SimJob kept;
    kept.id = id;
    kept.plan = job.plan;
    kept.quarantined = std::move(job.quarantined);
    kept.withdrawn = std::move(job.withdrawn);
    kept.disk_failed = job.disk_failed;
    kept.done = job.done;
    kept.forgotten = job.forgotten;
    kept.ended = job.forgotten;
    job = std::move(kept);
  }
  world_.time.after(world_.random.below(world_.random.chance(0.2) ? 15'000'000 : 500'000),
                    [this] { open(); });
}

void Lab::open() {
  if (up()) return;
  ++life_;
  // The disk may stop while the journal is being mended, too.
  if (world_.faulty() && world_.random.chance(world_.options.lab_stops * 0.3))
    disk_.stop_after(world_.random.below(20));
  auto opened = store::LabJournal::open(path_, world_.options.power_safe);
  Result<JournalBook::Contents> contents = fail(Code::kUnavailable, "");
  if (opened) contents = JournalBook::read(**opened);
  if (disk_.frozen() || (!contents && disk_.injected() > 0)) {
    world_.time.note("journal not opened", {node_});
    const bool power = disk_.frozen() && world_.random.chance(world_.options.power_losses);
    power_lost_ = power_lost_ || power;
    disk_.stop_now();
    if (opened) opened->reset();
    disk_.restart(power);
    world_.time.after(1'000'000, [this] { open(); });
    return;
  }
  if (!opened)
    return world_.time.violate("the journal cannot be opened: " + opened.error().message);
  if (!contents)
    return world_.time.violate("the journal cannot be read: " + contents.error().message);
  // What is read now was acknowledged to nobody but the next to open it.
  disk_.carry_on();
  const std::string why = book_.settle(*contents, power_lost_ && !world_.options.power_safe);
  if (!why.empty())
    return world_.time.violate("the journal of lab node " + std::to_string(node_) + ": " + why);
  power_lost_ = false;
  journal_ = std::move(*opened);
  auto config = world_.options.config;
  config.seed = world_.random.next();
  scheduler_ = scheduler::Scheduler::create(config);
  world_.time.note("lab node up", {node_, contents->size()});
  take_up();
}

void Lab::take_up() {
  const auto standings = journal_->standings();
  if (!standings)
    return world_.time.violate("standings cannot be read: " + standings.error().message);
  for (const auto& record : *standings)
    standings_[record.host] = {record.passed, record.faults, record.forgiven,
                               Micros(record.suspended_until_unix_ms) * 1'000};
  const bool first = !std::exchange(opened_before_, true);
  std::vector<store::JobRecord> records;
  if (auto listed = journal_->jobs()) {
    records = std::move(*listed);
  } else {
    return world_.time.violate("the journal's jobs cannot be read: " + listed.error().message);
  }
  // Jobs whose clients were told a number; without power-safe a loss of power may take that back,
  // and the number may be another job's then.
  std::map<JobId, std::uint64_t> tokens;
  for (const auto& record : records)
    std::memcpy(&tokens[record.job], record.token.data(), sizeof(std::uint64_t));
  std::erase_if(jobs_, [&](const auto& entry) {
    const auto it = tokens.find(entry.first);
    return it == tokens.end() ? !entry.second.forgotten : it->second != entry.second.plan->key;
  });
  for (const auto& record : records) {
    SimJob& job = jobs_[record.job];
    job.id = record.job;
    for (const JobPlan& plan : plans_)
      if (plan.key == tokens[record.job]) job.plan = &plan;
    if (record.state >= wire::JobState::kDone) {
      job.ended = job.done = true;
    } else if (job.done && world_.options.power_safe) {
      world_.time.violate("job " + std::to_string(record.job) + " had ended and runs again");
    } else {
      job.ended = job.done = job.forgotten = false;
    }
    // Quarantines that a loss of power took were not acknowledged for good.
    if (!world_.options.power_safe) {
      std::set<Pin> still;
      if (const auto known = journal_->quarantines(record.job))
        for (const auto& q : *known) still.insert(q.host);
      std::erase_if(job.quarantined, [&](const Pin& pin) { return !still.contains(pin); });
    }
  }
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const SimJob* job = find_job(submitted_[i]);
    if (submitted_[i] == 0 || (job != nullptr && job->plan->key == plans_[i].key)) continue;
    submitted_[i] = 0;
    submit(i);
    if (!up()) return;
  }
  if (first)
    for (std::size_t i = 0; i < plans_.size(); ++i)
      world_.time.after(plans_[i].submitted, [this, i] { submit(i); });
}

}  // namespace goblin::sim
