// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What must hold on a lab node in every history.
#include <algorithm>
#include <cmath>

#include "tests/sim/world.hpp"

namespace goblin::sim {
namespace {

/// What speaks for a result, without the words of hosts that were caught.
struct Evidence {
  bool passed = false;     ///< the kind's check
  bool trusted = false;    ///< a validator has the same
  std::size_t groups = 0;  ///< independent hosts that have the same
};

/// Whether a result may be used under a policy. One case a policy.
bool enough(const validation::PolicySpec& policy, const Evidence& evidence) {
  switch (policy.policy) {
    case wire::Policy::kAlgebraic:
      return evidence.passed || evidence.trusted || evidence.groups >= 2;
    case wire::Policy::kValidator:
      return evidence.trusted;
    case wire::Policy::kReplicate:
      return evidence.groups >= policy.replicas;
    case wire::Policy::kAdaptive:  // and its batch: tests/core/scheduler/audits_test.cpp
      return evidence.trusted || evidence.groups >= 1;
    default:
      return false;
  }
}

/// Whether a wrong result may be accepted now and then, until its host is caught.
bool may_err(const JobPlan& plan) {
  return plan.miss > 0 || plan.policy.policy == wire::Policy::kAdaptive;
}

std::string named(TaskId task, JobId job) {
  return "task " + std::to_string(task) + " of job " + std::to_string(job);
}

}  // namespace

const RightResults& Lab::right(const SimJob& job) {
  return right_.try_emplace(job.plan->key, *job.plan).first->second;
}

std::uint64_t Lab::before(const SimJob& job, TaskId task) {
  const TaskId first = job.plan->first_of_round(task);
  std::uint64_t sum = 0;
  if (first == 0) return sum;
  for (TaskId t = first - job.plan->round; t < first; ++t) {
    // One that was withdrawn: what its planner has kept.
    const auto it = job.accepted.find(t);
    sum = add_result(sum, t, it == job.accepted.end() ? right(job)[t] : it->second.digest);
  }
  return sum;
}

std::size_t Lab::groups_for(const SimJob& job, TaskId task, const wire::Digest& digest) const {
  std::set<std::uint64_t> groups;
  const auto it = job.commits.find(task);
  if (it == job.commits.end()) return 0;
  for (const Commit& c : it->second)
    if (c.digest == digest && !job.caught.contains(c.host)) groups.insert(c.group);
  return groups.size();
}

void Lab::watch_send(const scheduler::SendLease& send) {
  const std::string name =
      named(send.task, send.job) + " leased to host " + std::to_string(send.host);
  const auto violate = [&](const std::string& what) { world_.time.violate(name + what); };
  const SimJob* known = find_job(send.job);
  if (known == nullptr || !known->scheduled) return violate(": no such job");
  const SimJob& job = *known;
  if (job.ended) return violate(" after the job ended");
  const Seat* seat = seat_of(send.host);
  if (seat == nullptr) return violate(", which is not connected");
  if (!seat->spec.accepting) return violate(", which is paused");
  if (job.caught.contains(seat->pin)) return violate(", which is quarantined");
  if (job.quarantined.contains(seat->pin))
    return violate(", which was quarantined before a restart");
  if (seat->spec.memory_bytes < job.plan->memory) return violate(", which is too small");
  if (job.accepted.contains(send.task) && !job.rerunning.contains(send.task))
    return violate(" though it is accepted");
  if (used_leases_.contains(send.lease)) return violate(" under a lease number used before");
  if (send.deadline == 0) return violate(" without a deadline");
  if (const TaskId first = job.plan->first_of_round(send.task); first > 0)
    for (TaskId task = first - job.plan->round; task < first; ++task)
      if (!job.accepted.contains(task) && !job.withdrawn.contains(task))
        return violate(" before task " + std::to_string(task) + ", whose result it reads");
  std::size_t held = 0;
  std::size_t starts = 0;
  std::size_t waiting = 0;
  std::uint64_t waiting_bytes = 0;
  const bool replicate = job.plan->policy.policy == wire::Policy::kReplicate;
  for (const auto& [id, lease] : leases_) {
    const bool running = !lease.committed;
    if (lease.host == send.host) {
      held += running ? 1 : 0;
      // What is believed and held (adaptive) waits on the lab node alone.
      const bool held_back =
          lease.fetched && jobs_.at(lease.job).plan->policy.policy == wire::Policy::kAdaptive;
      if (!running && !held_back && lease.connection == seat->connection) {
        ++waiting;
        waiting_bytes += lease.output_bytes;
      }
    }
    if (lease.job != send.job || lease.task != send.task) continue;
    if (running && lease.host == send.host) return violate(" twice at once");
    if (running) ++starts;
    if (!running && lease.host == send.host && !lease.forgotten)
      return violate(", which has committed to it");
    if (replicate && running && lease.group == seat->spec.group &&
        groups_for(job, send.task, right(job)[send.task]) < job.plan->policy.replicas)
      return violate(" while host " + std::to_string(lease.host) + " of its group has it");
  }
  if (held >= seat->spec.slots) return violate(" over its slots");
  // Those wanted, and a second start in each role.
  if (starts >= (replicate ? job.plan->policy.replicas : 2) + 3)
    return violate(" as start " + std::to_string(starts + 1));
  // Results that wait for their judgement fill hosts and lab node: no new task is begun then.
  const auto begun = job.commits.find(send.task);
  if (begun == job.commits.end() && waiting > 0 &&
      (waiting >= world_.options.config.max_unjudged ||
       waiting_bytes >= world_.options.config.max_unjudged_bytes))
    return violate(", of which " + std::to_string(waiting) + " results (" +
                   std::to_string(waiting_bytes) + " bytes) wait to be judged");
}

void Lab::watch_accept(const scheduler::AcceptResult& accept) {
  SimJob& job = jobs_.at(accept.job);
  const std::string name =
      named(accept.task, accept.job) + " accepted from host " + std::to_string(accept.host);
  const auto violate = [&](const std::string& what) { world_.time.violate(name + what); };
  if (job.ended) return violate(" after the job ended");
  if (job.accepted.contains(accept.task)) return violate(" a second time");
  for (const auto& other : job.accepting)
    if (other.task == accept.task) return violate(" a second time before it was written");
  const auto it = leases_.find(accept.lease);
  if (it == leases_.end() || it->second.host != accept.host || it->second.job != accept.job ||
      it->second.task != accept.task)
    return violate(" under another's lease");
  SimLease& lease = it->second;
  if (lease.accepting) return violate(" twice under one lease");
  if (!lease.fetched) return violate(" without its bytes");
  if (lease.digest != accept.digest)
    return violate(" with a digest that its host did not commit to");
  if (job.caught.contains(lease.pin)) return violate(", which is quarantined");
  lease.accepting = true;
  Evidence evidence;
  for (const Commit& c : job.commits[accept.task]) {
    if (c.digest != accept.digest || job.caught.contains(c.host)) continue;
    evidence.passed = evidence.passed || c.passed;
    evidence.trusted = evidence.trusted || c.trusted;
  }
  evidence.groups = groups_for(job, accept.task, accept.digest);
  if (!enough(job.plan->policy, evidence)) return violate(" unchecked");
  const bool may =
      job.plan->policy.policy == wire::Policy::kAdaptive ? !evidence.trusted : evidence.passed;
  if (accept.digest != right(job)[accept.task] && !(may_err(*job.plan) && may))
    return violate(" though it is wrong");
}

/// What the researcher gets is what the journal says.
void Lab::watch_finish(const SimJob& job) {
  const std::string name = "job " + std::to_string(job.id);
  const auto violate = [&](const std::string& what) { world_.time.violate(name + what); };
  if (job.ended) return violate(" ended twice");
  if (!job.rerunning.empty()) return violate(" finished with a task to be run again");
  if (!job.rechecking.empty()) return violate(" finished with a task to be checked again");
  const auto records = journal_->accepted(job.id);
  if (!records) {
    if (disk_.injected() == 0) violate(" cannot be read: " + records.error().message);
    return;
  }
  if (records->size() != job.plan->tasks)
    return violate(" finished with " + std::to_string(records->size()) + " of " +
                   std::to_string(job.plan->tasks) + " tasks");
  for (const auto& record : *records) {
    const bool caught = job.caught.contains(record.host);
    if (record.digest != right(job)[record.task] && (!may_err(*job.plan) || caught))
      return violate(" finished with a wrong task " + std::to_string(record.task));
    // What rests on a caught host's word alone was looked at again.
    if (!caught || job.verified.contains(record.task)) continue;
    const auto commits = job.commits.find(record.task);
    const bool supported =
        commits != job.commits.end() &&
        std::any_of(commits->second.begin(), commits->second.end(), [&](const Commit& c) {
          return !job.caught.contains(c.host) && c.digest == record.digest;
        });
    if (!supported)
      return violate(" finished with task " + std::to_string(record.task) +
                     " on the word of a quarantined host");
  }
}

/// The reason that a job fails for must be true.
void Lab::watch_fail(const SimJob& job, const Error& error) {
  const auto violate = [&](const std::string& what) {
    world_.time.violate("job " + std::to_string(job.id) + what + ": " + error.message);
  };
  if (job.ended) return violate(" ended twice");
  for (const auto& [task, by_host] : job.failures) {
    std::uint32_t all = 0;
    for (const auto& [pin, count] : by_host) all += count;
    std::string codes;
    for (const auto& [code, count] : job.failure_codes.at(task))
      codes += (codes.empty() ? "" : ", ") + code + " " + std::to_string(count) + "×";
    const std::string said = "task " + std::to_string(task) + " failed " + std::to_string(all) +
                             " times on " + std::to_string(by_host.size()) +
                             (by_host.size() == 1 ? " host (" : " hosts (") + codes + ")";
    if (!error.message.starts_with(said)) continue;
    if (all < world_.options.config.max_attempts) violate(" failed too early");
    return;
  }
  for (const auto& [task, commits] : job.commits) {
    const std::string of_task = "task " + std::to_string(task) + ": ";
    if (!error.message.starts_with(of_task) ||
        error.message.find(" results were computed and no ") == std::string::npos)
      continue;
    std::set<Pin> hosts;
    for (const Commit& c : commits) hosts.insert(c.host);
    const std::uint64_t told = std::strtoull(error.message.c_str() + of_task.size(), nullptr, 10);
    if (told > hosts.size() || told < 2 * validation::kMinReplicas + 3)
      violate(" fails for more results than there were");
    return;
  }
  violate(" fails for a reason that is not true");
}

void Lab::watch_counts(std::size_t actions) {
  const auto& options = world_.options;
  std::size_t slots = 0;  // of all that have been here: they may have left all at once
  for (const auto& [pin, id] : ids_)
    if (const SimHost* host = world_.host_of(pin)) slots += host->spec.slots;
  std::size_t planned = 0;
  std::size_t accepted = 0;
  for (const auto& [id, job] : jobs_) {
    if (!job.scheduled) continue;
    const auto c = scheduler_->job_counts(id);
    planned += c.planned;
    accepted += c.accepted;
    if (c.accepted != job.told.size())
      world_.time.violate("the scheduler counts " + std::to_string(c.accepted) +
                          " accepted tasks of job " + std::to_string(id) + " and was told of " +
                          std::to_string(job.told.size()));
    // Ready beyond the cap only by what hosts have given back.
    if (c.ready > options.config.max_ready + slots + job.plan->tasks / 4)
      world_.time.violate("job " + std::to_string(id) + " keeps " + std::to_string(c.ready) +
                          " ready tasks");
    if (job.plans > 40 * (job.plan->tasks + 20))
      world_.time.violate("the planner of job " + std::to_string(id) + " is asked without end");
  }
  // Each lease may be begun and ended, each accepted task checked again, and little else.
  if (actions > 64 + 4 * (slots + leases_.size() + planned))
    world_.time.violate(std::to_string(actions) + " actions at once");
  if (actions > 0) return;
  std::map<HostId, std::size_t> held;
  for (const auto& [lease, l] : leases_) held[l.host] += l.committed ? 0 : 1;
  for (const auto& [id, seat] : seats_)
    if (scheduler_->host_counts(id).leases != held[id])
      world_.time.violate("host " + std::to_string(id) + " holds " + std::to_string(held[id]) +
                          " leases and the scheduler thinks " +
                          std::to_string(scheduler_->host_counts(id).leases));
  const auto footprint = scheduler_->footprint();
  const auto at_most = [&](const char* what, std::size_t is, std::size_t most) {
    if (is > most)
      world_.time.violate("the scheduler keeps " + std::to_string(is) + " " + what + " where " +
                          std::to_string(most) + " would do");
  };
  at_most("leases", footprint.leases, leases_.size());
  at_most("tasks", footprint.tasks, planned - accepted);
  at_most("hosts", footprint.hosts, ids_.size());
  std::size_t cached = 0;
  for (const auto& [pin, id] : ids_)
    if (const SimHost* host = world_.host_of(pin)) cached += (host->spec.cache_bytes >> 20) + 2;
  at_most("blobs", footprint.blobs, 2 * (planned - accepted) + cached);
  at_most("timers", footprint.timers, 64 * (ids_.size() + 1) + used_leases_.size());
}

std::string Lab::why_open() const {
  if (!up()) return " lab node " + std::to_string(node_) + " is down";
  std::string why;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const auto it = jobs_.find(submitted_[i]);
    if (it == jobs_.end()) {
      why += " job with token " + std::to_string(plans_[i].key) + " is not submitted;";
    } else if (!it->second.ended) {
      const SimJob& job = it->second;
      why += " job " + std::to_string(job.id) + " of lab node " + std::to_string(node_) + " has " +
             std::to_string(job.accepted.size()) + " of " + std::to_string(job.plan->tasks) + " (" +
             (job.scheduled ? scheduler_->waiting_reason(job.id) : "not begun") + ");";
    }
  }
  for (const auto& [id, seat] : seats_)
    why += " host " + std::to_string(id) + ": " + scheduler_->host_counts(id).idle_reason + ";";
  return why;
}

void Lab::final_look() {
  // Jobs that ended leave nothing behind.
  const auto footprint = scheduler_->footprint();
  if (footprint.leases > 0 || footprint.tasks > 0 || footprint.jobs > 0)
    world_.time.violate("all jobs have ended and the scheduler keeps " +
                        std::to_string(footprint.jobs) + " jobs, " +
                        std::to_string(footprint.tasks) + " tasks, " +
                        std::to_string(footprint.leases) + " leases");
  const bool power = world_.options.power_safe && world_.random.chance(0.5);
  disk_.stop_now();
  scheduler_.reset();
  journal_.reset();
  disk_.restart(power);
  disk_.set_faults({});
  const auto opened = store::LabJournal::open(path_, world_.options.power_safe);
  if (!opened)
    return world_.time.violate("the journal cannot be opened at last: " + opened.error().message);
  const auto contents = JournalBook::read(**opened);
  if (!contents)
    return world_.time.violate("the journal cannot be read at last: " + contents.error().message);
  const std::string why = book_.settle(*contents, false);
  if (!why.empty())
    world_.time.violate("at last, the journal of lab node " + std::to_string(node_) + ": " + why);
}

void Lab::watch_shares(double tolerance) {
  double all = 0;
  double weights = 0;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    all += seconds_[i];
    weights += plans_[i].weight;
  }
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const double got = seconds_[i] / all;
    const double due = plans_[i].weight / weights;
    if (std::abs(got - due) > tolerance)
      world_.time.violate("a job of weight " + std::to_string(plans_[i].weight) + " got " +
                          std::to_string(got) + " of the hosts' time and " + std::to_string(due) +
                          " was due");
  }
}

void Lab::computes(std::uint64_t key, double seconds) {
  for (std::size_t i = 0; i < plans_.size(); ++i)
    if (plans_[i].key == key) seconds_[i] += seconds;
}

}  // namespace goblin::sim
