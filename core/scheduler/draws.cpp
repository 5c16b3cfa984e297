// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Which host computes a replica is drawn: a coalition that is idle at the right moment, or asks
// more often than others, must not get both halves of a quorum. The drawn hosts alone may take the
// task for a while; then others are drawn.
#include <algorithm>

#include "core/scheduler/scheduler_impl.hpp"

namespace goblin::scheduler {
namespace {

/// Of so many hosts at most candidates are looked for.
constexpr std::size_t kLooks = 128;
/// Results found right that make a host known: each quorum has one such host where there is one.
constexpr std::uint64_t kKnown = 3;

}  // namespace

std::uint64_t SchedulerImpl::random() {
  if (config_.random) return config_.random();
  random_ += 0x9e3779b97f4a7c15;  // splitmix64
  std::uint64_t x = random_;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// The bias is below n / 2^64.
std::size_t SchedulerImpl::random_below(std::size_t n) { return random() % n; }

/// Under adaptive, who begins a task is whoever is idle: its word alone is worth what it earned.
bool SchedulerImpl::draws_quorum(const Job& job) {
  return job.policy.policy == wire::Policy::kReplicate;
}

bool SchedulerImpl::draws_replicas(const Task& task) {
  return draws_quorum(*task.job) || task.job->policy.policy == wire::Policy::kAdaptive ||
         task.validation.unconfirmed();
}

/// How long a drawn host may take before others are drawn in its place: with what it was drawn for
/// before. By its own speed: who answers at once must not make the others' time short, and who is
/// always idle must not get what the busy ones let pass.
Micros SchedulerImpl::time_to_come(const Job& job, const Host& host, const Task& task) const {
  const auto known = job.hosts.find(host.id);
  const auto seconds =
      known == job.hosts.end() ? std::nullopt : known->second.speed.predict(task.flops);
  if (!seconds) return config_.draw_blind;
  const std::size_t before = host.drawn.size() / std::max(host.spec.slots, 1u);
  const double due = *seconds * 1e6 * double(1 + before) * config_.straggler_factor;
  return std::min(static_cast<Micros>(std::clamp(due, 0.0, 1e15)), config_.draw_max);
}

void SchedulerImpl::draw(Task& task, std::size_t need) {
  Job& job = *task.job;
  std::vector<HostId> before;
  before.swap(task.drawn);
  task.drawn_until = 0;
  std::vector<Host*> candidates;
  std::vector<std::uint64_t> groups;
  const auto consider = [&](Host& host) {
    if (!serves(job, host) || !takes_ordinary(job, host)) return;
    if (!eligible(job, host, task, false)) return;
    candidates.push_back(&host);
    if (std::find(groups.begin(), groups.end(), host.spec.group) == groups.end())
      groups.push_back(host.spec.group);
  };
  if (hosts_.size() <= kLooks) {
    for (const auto& [id, host] : hosts_) consider(*host);
    // The map's order is no secret and no seed's either.
    std::sort(candidates.begin(), candidates.end(),
              [](const Host* a, const Host* b) { return a->id < b->id; });
  } else {
    const std::size_t buckets = hosts_.bucket_count();
    for (std::size_t look = 0; look < 2 * kLooks && candidates.size() < kLooks; ++look) {
      const std::size_t bucket = random_below(buckets);
      for (auto it = hosts_.begin(bucket); it != hosts_.end(bucket); ++it) consider(*it->second);
    }
  }
  if (groups.size() <= need) return;  // no choice: whoever comes
  const auto known = [](const Host* host) { return host->standing.passed >= kKnown; };
  // Where results differ, those who are known decide.
  const bool disputed = !task.validation.differing().empty();
  bool one_known =
      !disputed && std::any_of(task.committed.begin(), task.committed.end(), [&](const Lease* l) {
        return l->host != nullptr && known(l->host);
      });
  Micros wait = config_.draw_min;
  while (task.drawn.size() < need && !candidates.empty()) {
    // One of a quorum is a host that has shown what it does: new keys cost nothing.
    const bool wants_known = !one_known && std::any_of(candidates.begin(), candidates.end(), known);
    std::vector<std::size_t> choice;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (wants_known && !known(candidates[i])) continue;
      choice.push_back(i);
    }
    // Those who let it pass the last time only when there is nobody else.
    std::vector<std::size_t> fresh;
    for (const std::size_t i : choice)
      if (std::find(before.begin(), before.end(), candidates[i]->id) == before.end())
        fresh.push_back(i);
    if (!fresh.empty()) choice.swap(fresh);
    Host& host = *candidates[choice[random_below(choice.size())]];
    one_known = !disputed && (one_known || known(&host));
    task.drawn.push_back(host.id);
    host.drawn.emplace_back(job.id, task.id);
    wait = std::max(wait, time_to_come(job, host, task));
    mark(host);
    std::erase_if(candidates, [&](const Host* c) { return c->spec.group == host.spec.group; });
  }
  task.drawn_until = now_ + wait;
  draws_.push({task.drawn_until, job.id, task.id});
}

/// Of tasks that nobody has had: their whole quorums are drawn until the host is in one.
Task* SchedulerImpl::pick_fresh_drawn(Job& job, Host& host) {
  for (std::uint32_t draws = 0; draws < config_.placement_window; ++draws) {
    Task* task = pick_from(job.fresh, job, host, true);
    if (task == nullptr) return nullptr;
    draw(*task, task->want_results);
    if (task->drawn.empty()) return task;  // no choice
    job.fresh.remove(task);
    task->touched = true;
    task->ready_partial = true;
    job.partial.push(task);
    if (Task* own = pick_drawn(job, host)) return own;
  }
  unpark_ = true;  // it looks on
  return nullptr;
}

/// The host takes no work any more: what was drawn for it is drawn for others.
void SchedulerImpl::redraw_for_others(Host& host) {
  std::deque<std::pair<JobId, TaskId>> drawn;
  drawn.swap(host.drawn);
  for (const auto& [job_id, task_id] : drawn) {
    Job* job = find_job(job_id);
    if (job == nullptr || job->ended) continue;
    const auto it = job->tasks.find(task_id);
    if (it == job->tasks.end() || std::erase(it->second.drawn, host.id) == 0) continue;
    if (ReadyList::linked(&it->second)) update_lists(it->second);
  }
}

/// For tick(): the time of some draws is over.
void SchedulerImpl::redraw() {
  while (!draws_.empty() && draws_.top().until <= now_) {
    const Draw over = draws_.top();
    draws_.pop();
    Job* job = find_job(over.job);
    if (job == nullptr || job->ended) continue;
    const auto it = job->tasks.find(over.task);
    if (it == job->tasks.end() || it->second.drawn_until != over.until) continue;
    Task& task = it->second;
    if (task.state != TaskState::kOpen || !ReadyList::linked(&task)) {
      task.drawn.clear();
      task.drawn_until = 0;
      continue;
    }
    std::size_t ordinary = 0;
    for (const Lease* lease : task.running) ordinary += lease->validator ? 0 : 1;
    if (task.want_results > ordinary) draw(task, task.want_results - ordinary);
    unpark_ = true;
  }
}

/// A replica that was drawn for this host.
Task* SchedulerImpl::pick_drawn(Job& job, Host& host) {
  Task* found = nullptr;
  std::erase_if(host.drawn, [&](const auto& entry) {
    const Job* owner = find_job(entry.first);
    if (owner == nullptr || owner->ended) return true;
    const auto it = job.id == entry.first ? job.tasks.find(entry.second) : job.tasks.end();
    if (job.id != entry.first) return false;
    if (it == job.tasks.end()) return true;
    Task& task = it->second;
    const bool drawn = task.drawn_until > now_ &&
                       std::find(task.drawn.begin(), task.drawn.end(), host.id) != task.drawn.end();
    if (!drawn || !ReadyList::linked(&task)) return true;
    if (found == nullptr && eligible(job, host, task, false)) {
      found = &task;
      return true;
    }
    return false;
  });
  return found;
}

}  // namespace goblin::scheduler
