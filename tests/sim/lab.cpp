// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The lab node's side of connections, and what it does with the scheduler's actions.
#include "tests/sim/lab.hpp"

#include <algorithm>
#include <limits>

#include "tests/sim/world.hpp"

namespace goblin::sim {
namespace {

/// As hosts/lab: so long a result is waited for that its host does not send.
constexpr Micros kFetchSilence = 120'000'000;

}  // namespace

Lab::Lab(World& world, NodeId node, std::uint64_t seed, std::vector<JobPlan> plans)
    : world_(world),
      node_(node),
      disk_(seed),
      mount_(scratch_folder("lab-" + std::to_string(node)), disk_),
      path_(scratch_folder("lab-" + std::to_string(node)) + "/journal.sqlite"),
      plans_(std::move(plans)),
      submitted_(plans_.size()),
      seconds_(plans_.size()) {}

Lab::~Lab() {
  disk_.stop_now();  // what SQLite does when it closes is of no interest any more
}

void Lab::later(Micros delay, Timeline::Step step) {
  world_.time.after(delay, [this, life = life_, step = std::move(step)] {
    if (life == life_ && up()) step();
  });
}

Micros Lab::work_time() {
  return 100 + world_.random.below(world_.random.chance(0.05) ? 50'000 : 3'000);
}

SimJob* Lab::find_job(JobId job) {
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? nullptr : &it->second;
}

Lab::Seat* Lab::seat_of(HostId host) {
  const auto it = seats_.find(host);
  return it == seats_.end() ? nullptr : &it->second;
}

Lab::Seat* Lab::seat_of_connection(Connection connection) {
  for (auto& [id, seat] : seats_)
    if (seat.connection == connection) return &seat;
  return nullptr;
}

/// Numbers are given out anew after each start, as hosts/lab does.
HostId Lab::id_of(const Pin& pin) {
  auto [it, fresh] = ids_.try_emplace(pin);
  if (fresh) it->second = ++last_id_;
  return it->second;
}

std::uint32_t Lab::wanted() const { return done() ? 0 : world_.options.wanted; }

bool Lab::done() const {
  if (!up()) return false;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const auto it = jobs_.find(submitted_[i]);
    if (submitted_[i] == 0 || it == jobs_.end() || !it->second.ended) return false;
  }
  return true;
}

// ---- connections ----

void Lab::hello(Connection connection, SimHost& host, bool own_list) {
  if (!up() || !host.on || !host.connections.contains(this) ||
      host.connections.at(this) != connection)
    return;
  const auto admitted = admitted_.find(host.pin);
  if (!own_list && (admitted == admitted_.end() || admitted->second < world_.time.now())) {
    world_.time.note("host refused", {node_, host.node});
    world_.network.send(node_, host.node,
                        [this, &host, connection] { host.lost(*this, connection); });
    return;
  }
  // A greeting that comes twice opens no second connection, nor one that is over.
  if (!greeted_.insert(connection).second) return;
  const bool fresh = !ids_.contains(host.pin);
  const HostId id = id_of(host.pin);
  world_.time.note("host joins", {node_, host.node, id, connection});
  std::erase_if(leases_, [&](const auto& l) { return l.second.host == id && !l.second.committed; });
  seats_[id] = {connection, &host, id, host.pin, host.spec};
  scheduler_->host_joined(id, host.spec, world_.time.now());
  if (const auto known = standings_.find(host.pin); fresh && known != standings_.end())
    scheduler_->restore_standing(id, known->second, world_.time.now());
  for (auto& [number, job] : jobs_)
    if (!job.started && !job.ended) start(job);
  if (up()) pump();
}

void Lab::lost(Connection connection) {
  Seat* seat = up() ? seat_of_connection(connection) : nullptr;
  if (seat == nullptr) return;
  world_.time.note("host leaves", {node_, seat->host->node, seat->id});
  const HostId id = seat->id;
  seats_.erase(id);
  std::erase_if(leases_, [&](const auto& l) { return l.second.host == id && !l.second.committed; });
  scheduler_->host_left(id, world_.time.now());
  pump();
}

void Lab::changed(Connection connection, const scheduler::HostSpec& spec) {
  Seat* seat = up() ? seat_of_connection(connection) : nullptr;
  if (seat == nullptr) return;
  seat->spec = spec;
  scheduler_->host_changed(seat->id, spec, world_.time.now());
  pump();
}

void Lab::outcome(Connection connection, const scheduler::Outcome& outcome) {
  Seat* seat = up() ? seat_of_connection(connection) : nullptr;
  if (seat == nullptr) return;
  const auto it = leases_.find(outcome.lease);
  if (it != leases_.end() && it->second.host == seat->id && !it->second.committed) {
    if (outcome.status == GOBLIN_OK) {
      SimLease& lease = it->second;
      lease.committed = true;
      lease.digest = outcome.digest;
      jobs_.at(lease.job).commits[lease.task].push_back(
          {outcome.lease, lease.pin, lease.group, lease.trusted, false, outcome.digest});
    } else {
      ++jobs_.at(it->second.job).said_failed[it->second.task];
      leases_.erase(it);
    }
  }
  world_.time.note("outcome", {node_, seat->id, outcome.lease, std::uint64_t(outcome.status)});
  scheduler_->outcome(seat->id, outcome, world_.time.now());
  pump();
}

void Lab::handed_back(Connection connection, LeaseId lease, Code reason) {
  Seat* seat = up() ? seat_of_connection(connection) : nullptr;
  if (seat == nullptr) return;
  const auto it = leases_.find(lease);
  if (it != leases_.end() && it->second.host == seat->id && !it->second.committed) {
    ++jobs_.at(it->second.job).said_failed[it->second.task];
    leases_.erase(it);
  }
  world_.time.note("handed back", {node_, seat->id, lease});
  scheduler_->handed_back(seat->id, lease, reason, world_.time.now());
  pump();
}

void Lab::heartbeat(Connection connection, const std::vector<LeaseId>& running) {
  Seat* seat = up() ? seat_of_connection(connection) : nullptr;
  if (seat == nullptr) return;
  scheduler_->heartbeat(seat->id, running, world_.time.now());
  pump();
}

void Lab::bytes_came(LeaseId lease, std::uint64_t bytes) {
  if (up()) scheduler_->fetch_progress(lease, bytes, world_.time.now());
}

void Lab::fetched(LeaseId id, std::uint64_t fetch, Fetched how) {
  if (!up()) return;
  const auto asked = fetches_.find(id);
  if (asked == fetches_.end() || asked->second != fetch) return;
  fetches_.erase(asked);
  const auto it = leases_.find(id);
  if (it != leases_.end()) {
    it->second.fetching = false;
    it->second.fetched = how == Fetched::kRight;
  }
  world_.time.note("fetched", {node_, id, std::uint64_t(how)});
  if (how == Fetched::kRight) {
    scheduler_->fetched(id, world_.time.now());
  } else {
    scheduler_->fetch_failed(id, how == Fetched::kWrong, world_.time.now());
  }
  pump();
}

void Lab::assigned(const std::set<Pin>& hosts, Micros lease) {
  if (!up()) return;
  for (const Pin& pin : hosts) admitted_[pin] = world_.time.now() + lease;
}

// ---- the scheduler ----

Micros Lab::next_wakeup() const {
  return up() ? scheduler_->next_wakeup() : std::numeric_limits<Micros>::max();
}

void Lab::tick() {
  scheduler_->tick(world_.time.now());
  pump();
}

void Lab::pump() {
  std::size_t rounds = 0;
  for (auto actions = scheduler_->take_actions(); !actions.empty();
       actions = scheduler_->take_actions()) {
    watch_counts(actions.size());
    for (const auto& action : actions) {
      if (!world_.time.sound()) return;
      std::visit([this](const auto& a) { on(a); }, action);
      if (!up()) return;
    }
    if (++rounds > 1000) return world_.time.violate("the scheduler's actions never end");
  }
  watch_counts(0);
}

void Lab::on(const scheduler::PlanMore& a) { plan_more(a); }

void Lab::on(const scheduler::SendLease& a) {
  watch_send(a);
  const Seat* seat = seat_of(a.host);
  SimJob& job = jobs_.at(a.job);
  if (seat == nullptr) return;
  world_.time.note("lease", {node_, a.host, a.lease, a.job, a.task});
  SimLease& lease = leases_[a.lease];
  lease.host = a.host;
  lease.pin = seat->pin;
  lease.connection = seat->connection;
  lease.job = a.job;
  lease.task = a.task;
  lease.group = seat->spec.group;
  lease.trusted = scheduler_->host_counts(a.host).trusted;
  lease.output_bytes = job.plan->task(a.job, a.task).output_bytes;
  used_leases_.insert(a.lease);
  const SentLease sent{this,   seat->connection,   a.lease, job.plan, a.job,
                       a.task, before(job, a.task)};
  SimHost& host = *seat->host;
  const auto fate = world_.network.send(node_, host.node, [&host, sent] { host.lease(sent); });
  if (fate == Network::Fate::kLost) world_.break_connection(*this, host, seat->connection);
}

void Lab::on(const scheduler::CancelLease& a) {
  leases_.erase(a.lease);
  world_.time.note("cancel lease", {node_, a.host, a.lease});
  const Seat* seat = seat_of(a.host);
  if (seat == nullptr) return;
  SimHost& host = *seat->host;
  const auto fate =
      world_.network.send(node_, host.node, [this, &host, l = a.lease] { host.cancel(*this, l); });
  if (fate == Network::Fate::kLost) world_.break_connection(*this, host, seat->connection);
}

void Lab::on(const scheduler::FetchResult& a) {
  const auto it = leases_.find(a.lease);
  if (it == leases_.end() || !it->second.committed || it->second.fetching)
    return world_.time.violate("a result is fetched that is not there");
  it->second.fetching = true;
  const std::uint64_t fetch = fetches_[a.lease] = ++fetch_counter_;
  world_.time.note("fetch", {node_, a.host, a.lease});
  const Seat* seat = seat_of(a.host);
  if (seat == nullptr) {
    later(work_time(), [this, l = a.lease, fetch] { fetched(l, fetch, Fetched::kGone); });
    return;
  }
  later(kFetchSilence, [this, l = a.lease, fetch] { fetched(l, fetch, Fetched::kGone); });
  SimHost& host = *seat->host;
  const auto fate = world_.network.send(
      node_, host.node, [this, &host, connection = it->second.connection, l = a.lease, fetch] {
        host.fetch(*this, connection, l, fetch);
      });
  if (fate == Network::Fate::kLost) world_.break_connection(*this, host, seat->connection);
}

void Lab::on(const scheduler::CheckResult& a) {
  const auto it = leases_.find(a.lease);
  if (it == leases_.end() || !it->second.fetched)
    return world_.time.violate("a check is asked for without bytes");
  const bool slow = world_.random.chance(world_.options.slow_checks);
  later(slow ? world_.random.below(3'000'000) : work_time(), [this, a] {
    SimJob& job = jobs_.at(a.job);
    auto verdict = scheduler::Verdict::kAbstain;
    for (Commit& c : job.commits[a.task]) {
      if (c.lease != a.lease) continue;
      Random of_task(a.task * 31 + a.job);
      const bool right = c.digest == result_of(job.plan->key, a.task, before(job, a.task), 0);
      // Whether a check abstains follows from the task.
      if (!of_task.chance(job.plan->abstain))
        verdict = right || world_.random.chance(job.plan->miss) ? scheduler::Verdict::kAccept
                                                                : scheduler::Verdict::kReject;
      c.passed = verdict == scheduler::Verdict::kAccept;
    }
    world_.time.note("checked", {node_, a.lease, std::uint64_t(verdict)});
    scheduler_->checked(a.lease, verdict, world_.time.now());
    pump();
  });
}

void Lab::on(const scheduler::AcceptResult& a) {
  watch_accept(a);
  world_.time.note("accept", {node_, a.host, a.lease, a.job, a.task});
  SimJob& job = jobs_.at(a.job);
  job.accepting.push_back(a);
  if (job.writing) return;
  job.writing = true;
  later(work_time(), [this, j = a.job] { write_accepted(j); });
}

void Lab::tell_release(HostId id, LeaseId lease) {
  const Seat* seat = seat_of(id);
  if (seat == nullptr) return;
  SimHost& host = *seat->host;
  const auto fate =
      world_.network.send(node_, host.node, [this, &host, lease] { host.release(*this, lease); });
  if (fate == Network::Fate::kLost) world_.break_connection(*this, host, seat->connection);
}

void Lab::on(const scheduler::ReleaseResult& a) {
  leases_.erase(a.lease);
  fetches_.erase(a.lease);
  tell_release(a.host, a.lease);
}

void Lab::on(const scheduler::ForgetBytes& a) {
  if (const auto it = leases_.find(a.lease); it != leases_.end()) it->second.forgotten = true;
  tell_release(a.host, a.lease);
}

void Lab::on(const scheduler::StandingChanged& a) {
  world_.time.note("standing", {node_, a.host, a.standing.passed, a.standing.faults});
  for (const auto& [pin, id] : ids_) {
    if (id != a.host) continue;
    standings_[pin] = a.standing;
    standings_due_.insert(pin);
  }
  if (standings_due_.size() > 1) return;
  later(a.fault ? work_time() : 1'000'000, [this] { write_standings(); });
}

void Lab::on(const scheduler::Quarantine& a) {
  SimJob& job = jobs_.at(a.job);
  Pin pin;
  for (const auto& [known, id] : ids_)
    if (id == a.host) pin = known;
  world_.time.note("quarantine", {node_, a.host, a.job, a.task});
  if (!job.caught.insert(pin).second) world_.time.violate("a host is quarantined twice");
  const SimHost* host = world_.host_of(pin);
  if (host != nullptr && !host->liar)
    world_.time.violate("honest host " + std::to_string(host->node) +
                        " is quarantined: " + a.reason);
  // Beside everything else, as hosts/lab does it: a failure is said in the log only.
  later(work_time(),
        [this, j = a.job, record = store::QuarantineRecord{a.job, pin, a.task, a.reason}] {
          const bool sure = journal_->record_quarantine(record).has_value();
          if (!still_up()) return book_.did({JournalBook::quarantine(record)}, false);
          book_.did({JournalBook::quarantine(record)}, sure);
          if (sure) jobs_.at(j).quarantined.insert(record.host);
        });
}

void Lab::on(const scheduler::Recheck& a) { recheck(a); }

void Lab::on(const scheduler::Rerun& a) {
  world_.time.note("run again", {node_, a.job, a.task});
  later(work_time(), [this, a] {
    SimJob& job = jobs_.at(a.job);
    if (job.ended) return;
    scheduler_->task_ready(job.plan->task(job.id, a.task), world_.time.now());
    pump();
  });
}

void Lab::on(const scheduler::Incident& a) {
  world_.time.count(a.what);
  SimJob& job = jobs_.at(a.job);
  const bool late = a.what == "late";
  if (!late && !a.what.starts_with("failed: ")) return;
  if (!late && job.said_failed[a.task]-- == 0)
    world_.time.violate("task " + std::to_string(a.task) + " of job " + std::to_string(a.job) +
                        " is said to have failed and no host said so");
  Pin pin;
  for (const auto& [known, id] : ids_)
    if (id == a.host) pin = known;
  ++job.failures[a.task][pin];
  ++job.failure_codes[a.task][late ? "unavailable" : a.what.substr(8)];
}

void Lab::on(const scheduler::FinishJob& a) {
  SimJob& job = jobs_.at(a.job);
  world_.time.note("job finished", {node_, a.job});
  watch_finish(job);
  job.ended = true;
  later(0, [this, j = a.job] { end_job(jobs_.at(j), wire::JobState::kDone); });
}

void Lab::on(const scheduler::FailJob& a) {
  SimJob& job = jobs_.at(a.job);
  world_.time.note("job failed", {node_, a.job});
  watch_fail(job, a.error);
  job.ended = true;
  later(0, [this, j = a.job] { end_job(jobs_.at(j), wire::JobState::kFailed); });
}

}  // namespace goblin::sim
