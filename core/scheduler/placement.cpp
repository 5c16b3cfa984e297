// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Which ready task a host with room gets.
#include <algorithm>
#include <cmath>

#include "core/scheduler/scheduler_impl.hpp"

namespace goblin::scheduler {
namespace {

/// Input bytes per second of a host that has fetched nothing yet; only deadlines rest on it.
constexpr double kAssumedLink = 1e6;

}  // namespace

bool SchedulerImpl::takes_work(const Host& host) const {
  return host.connected && host.spec.accepting && host.spec.slots > 0 && !host.suspended;
}

bool SchedulerImpl::serves(const Job& job, const Host& host) const {
  if (!takes_work(host)) return false;
  const auto it = job.hosts.find(host.id);
  return it == job.hosts.end() || !it->second.barred();
}

/// Trusted hosts are kept for validation, unless nobody else can do the ordinary work.
bool SchedulerImpl::takes_ordinary(Job& job, const Host& host) const {
  if (!host.spec.trusted) return true;
  const JobView& v = view(job);
  if (v.ordinary == 0) return true;
  return job.policy.policy == wire::Policy::kReplicate && v.ordinary_groups < job.policy.replicas;
}

/// Enough hosts are here for the job's policy; otherwise no new task is begun.
bool SchedulerImpl::has_quorum_of_hosts(Job& job) const {
  const JobView& v = view(job);
  if (job.policy.policy == wire::Policy::kReplicate) return v.groups >= job.policy.replicas;
  if (job.policy.policy == wire::Policy::kValidator || job.policy.policy == wire::Policy::kAdaptive)
    return v.trusted > 0;
  return v.ordinary + v.trusted > 0;
}

bool SchedulerImpl::failed_here_but_not_elsewhere(Job& job, const Host& host, const Task& task,
                                                  bool validator) const {
  const auto failures = [&](HostId id) {
    return std::count_if(task.failures.begin(), task.failures.end(),
                         [&](const Failure& f) { return f.host == id; });
  };
  const auto here = failures(host.id);
  const bool more_memory = task.exhausted_at > 0 && view(job).max_worker_memory > task.exhausted_at;
  if (more_memory && host.spec.memory_bytes <= task.exhausted_at && !validator) return true;
  if (here == 0) return false;
  for (const auto& [id, other] : hosts_) {
    if (id == host.id || failures(id) >= here || !serves(job, *other)) continue;
    if (other->spec.memory_bytes < task.memory_bytes) continue;
    if (validator ? !other->spec.trusted : !takes_ordinary(job, *other)) continue;
    if (task.validation.may_ask(id, other->spec.group, other->spec.trusted)) return true;
  }
  return false;
}

bool SchedulerImpl::eligible(Job& job, const Host& host, const Task& task, bool validator) const {
  if (task.memory_bytes > host.spec.memory_bytes) return false;
  if (task.validation.results() == 0 && !may_begin(host)) return false;
  if (!task.touched) return true;
  if (!validator && task.drawn_until > now_ &&
      std::find(task.drawn.begin(), task.drawn.end(), host.id) == task.drawn.end())
    return false;
  const bool apart = task.validation.needs_independence();
  for (const Lease* lease : task.running)
    if (lease->host == &host || (apart && lease->group == host.spec.group)) return false;
  if (!task.validation.may_ask(host.id, host.spec.group, host.spec.trusted)) return false;
  return task.failures.empty() || !failed_here_but_not_elsewhere(job, host, task, validator);
}

std::uint64_t SchedulerImpl::missing_bytes(const Host& host, const Task& task) const {
  std::uint64_t missing = 0;
  for (const BlobId blob : task.inputs)
    if (!host.cache.holds(blob)) missing += blobs_[blob].bytes;
  return missing;
}

std::optional<Micros> SchedulerImpl::predict(const Job& job, const Host& host, double flops) const {
  const auto it = job.hosts.find(host.id);
  std::optional<double> seconds;
  if (it != job.hosts.end()) seconds = it->second.speed.predict(flops);
  if (!seconds) seconds = job.speed.predict(flops);
  if (!seconds) return std::nullopt;
  return static_cast<Micros>(std::clamp(*seconds * 1e6, 1.0, 1e15));
}

Micros SchedulerImpl::transfer_time(const Host& host, std::uint64_t bytes) const {
  if (bytes == 0) return 0;
  const double seconds = host.link.predict(double(bytes)).value_or(double(bytes) / kAssumedLink);
  return static_cast<Micros>(std::min(seconds * 1e6, 1e15));
}

Task* SchedulerImpl::pick_from(ReadyQueue& queue, Job& job, Host& host, bool fresh) {
  const std::uint8_t top = ReadyQueue::class_of(host.spec.memory_bytes);
  std::uint64_t classes = queue.occupied & (~std::uint64_t{0} >> (63 - top));
  // An idle host looks at all of them now and then, so that no task starves behind others.
  std::size_t looks = std::size_t{config_.placement_window} * 4;
  if (host.running.empty() && host.next_look <= now_) looks = ~std::size_t{0};
  std::size_t compared = 0;
  Task* best = nullptr;
  std::pair<std::uint64_t, std::uint64_t> best_cost{};
  // Which task a host gets of those that are drawn must not follow from when it asks.
  const auto secret = [&](const Task& task) {
    return fresh ? draws_quorum(job) : draws_replicas(task);
  };
  while (classes != 0) {
    const int c = std::bit_width(classes) - 1;
    classes &= ~(std::uint64_t{1} << c);
    for (Task* task = queue.lists[c].front(); task != nullptr; task = ReadyList::next(task)) {
      if (looks-- == 0) return best;
      if (!eligible(job, host, *task, false)) continue;
      const bool draw = secret(*task);
      // Without large inputs every host is as good: first come, first served.
      if (task->inputs.empty() && !draw) return best == nullptr ? task : best;
      const std::uint64_t missing = missing_bytes(host, *task);
      std::uint64_t holders = 0;
      for (const BlobId blob : task->inputs)
        holders += blobs_[blob].holders - (host.cache.holds(blob) ? 1 : 0);
      const std::pair<std::uint64_t, std::uint64_t> cost{missing, holders};
      ++compared;
      bool better = best == nullptr || cost < best_cost;
      if (draw && best != nullptr && cost == best_cost) {
        better = random_below(compared) == 0;
      }
      if (better) {
        best = task;
        best_cost = cost;
      }
      if (compared >= config_.placement_window) return best;
      if (cost == std::pair<std::uint64_t, std::uint64_t>{} && !draw) return best;
    }
  }
  return best;
}

Task* SchedulerImpl::pick(Job& job, Host& host, bool& as_validator) {
  as_validator = false;
  if (host.spec.trusted) {
    std::size_t looks = std::size_t{config_.placement_window} * 4;
    for (Task* task = job.validate.front(); task != nullptr; task = ValidateList::next(task)) {
      if (looks-- == 0 && !host.running.empty()) break;
      if (!eligible(job, host, *task, true)) continue;
      as_validator = true;
      return task;
    }
  }
  if (!takes_ordinary(job, host)) return nullptr;
  if (Task* task = pick_drawn(job, host)) return task;
  if (Task* task = pick_from(job.partial, job, host, false)) return task;
  if (!has_quorum_of_hosts(job) || !may_begin(host)) return nullptr;
  return draws_quorum(job) ? pick_fresh_drawn(job, host) : pick_from(job.fresh, job, host, true);
}

void SchedulerImpl::start(Job& job, Host& host, Task& task, bool validator) {
  std::uint64_t x = random();  // tells hosts nothing of how many leases others get
  while (x == 0 || leases_.contains(x)) x = random();
  Lease& lease = leases_[x];
  lease.id = x;
  lease.host_id = host.id;
  lease.host = &host;
  lease.job = &job;
  lease.task = &task;
  lease.validator = validator;
  lease.group = host.spec.group;
  lease.start = now_;
  lease.missing_bytes = missing_bytes(host, task);
  for (const BlobId blob : task.inputs) host.cache.use(blob, host.spec.cache_bytes);

  const auto own = predict(job, host, task.flops);
  lease.predicted = own.has_value();
  lease.own = own.value_or(0);
  // While nothing is known, two tasks fill a host.
  lease.load = own.value_or(config_.queue_target);
  const Micros expected = host.load + lease.own + transfer_time(host, lease.missing_bytes);
  const Micros base = lease.predicted ? expected : config_.first_deadline;
  const Micros whole =
      std::max(config_.deadline_floor,
               static_cast<Micros>(std::min(double(base) * config_.deadline_factor, 1e15)));
  lease.expected_end = now_ + expected;
  lease.last_deadline = now_ + whole;
  lease.deadline = lease.predicted ? lease.last_deadline : now_ + config_.first_deadline;
  lease.charged = double(lease.load) * 1e-6;
  book(job, lease.charged);
  vtime_ = std::max(vtime_, job.vtime - lease.charged / job.weight);

  lease.host_index = host.running.size();
  host.running.push_back(&lease);
  host.load += lease.load;
  if (task.running.empty()) job.running.push_back(&task);
  task.running.push_back(&lease);
  task.touched = true;
  std::erase(task.drawn, host.id);
  host.counts.idle_reason.clear();
  Micros look = lease.deadline;
  if (lease.predicted) {
    const double late = double(expected) * config_.straggler_factor;
    look = std::min(
        look, now_ + std::max(config_.straggler_floor, static_cast<Micros>(std::min(late, 1e15))));
  } else {
    look = std::min(look, now_ + 1'000'000);
  }
  wake_at(host, look);
  update_lists(task);
  say(SendLease{host.id, x, job.id, task.id, whole});
}

bool SchedulerImpl::assign_one(Host& host) {
  for (auto it = runnable_.begin(); it != runnable_.end(); ++it) {
    Job& job = *find_job(it->second);
    if (!serves(job, host) || pauses(job, host)) continue;
    bool as_validator = false;
    Task* task = pick(job, host, as_validator);
    if (task != nullptr) {
      start(job, host, *task, as_validator);
      return true;
    }
    if (!job.plan_done && takes_ordinary(job, host) && may_begin(host)) {
      job.has_asker = true;
      job.asker = host.id;
      mark(job);
    }
  }
  return second_start(host);
}

void SchedulerImpl::unpark(Host& host) {
  parked_[host.parked_index] = parked_.back();
  parked_[host.parked_index]->parked_index = host.parked_index;
  parked_.pop_back();
  host.parked = false;
}

void SchedulerImpl::dispatch() {
  // A host that is given a task, or draws for others, wakes those.
  do {
    dispatch_once();
  } while (unpark_ || !dirty_hosts_.empty());
}

void SchedulerImpl::dispatch_once() {
  if (unpark_) {
    unpark_ = false;
    while (!parked_.empty()) {
      mark(*parked_.back());
      unpark(*parked_.back());
    }
  }
  for (Host* host : dirty_hosts_) {
    host->dirty = false;
    if (host->parked) unpark(*host);  // something of its own changed: it may look again
    update_hunger(*host);
  }
  dirty_hosts_.clear();
  while (!hungry_.empty()) {
    bool tail = false;
    if (runnable_.empty()) {
      for (const auto& [id, job] : jobs_)
        tail = tail || !job->running.empty() || !job->late.empty();
      if (!tail) break;
    }
    Host& host = *find_host(hungry_.begin()->second);
    if (!assign_one(host)) {
      host.parked = true;
      host.parked_index = parked_.size();
      parked_.push_back(&host);
    }
    update_hunger(host);
  }
}

std::vector<Action> SchedulerImpl::take_actions() {
  dispatch();
  std::vector<Job*> dirty;
  dirty.swap(dirty_jobs_);
  for (Job* job : dirty) {
    job->dirty = false;
    maybe_plan(*job);
    close_batches_of_drained(*job);
    maybe_finish(*job);
  }
  say_standings();
  std::vector<Action> actions;
  actions.swap(actions_);
  return actions;
}

}  // namespace goblin::scheduler
