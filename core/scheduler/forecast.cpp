// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/scheduler/forecast.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "core/scheduler/blob_cache.hpp"
#include "core/scheduler/shared_link.hpp"
#include "goblin/abi/plugin.h"

namespace goblin::scheduler {
namespace {

constexpr JobId kJob = 1;
constexpr double kNever = std::numeric_limits<double>::infinity();
/// Less than a byte is nothing: what rounding leaves of a transfer.
constexpr double kLeastBytes = 0.5;
/// A job that needs more than this is not played to its end.
constexpr std::uint64_t kMostEvents = 5'000'000;

Micros micros(double seconds) { return static_cast<Micros>(seconds * 1e6); }

struct Lease {
  LeaseId id = 0;
  const ReadyTask* task = nullptr;
  std::size_t missing = 0;  ///< inputs that are still to come
};

struct Transfer {
  LeaseId lease = 0;
  BlobId blob = 0;  ///< of an input
  double left = 0;
};

/// One direction between the lab node and a host: one transfer after another.
struct Flow {
  std::deque<Transfer> waiting;
  double rate = 0;
  double bytes = 0;  ///< so far
};

struct SimHost {
  explicit SimHost(BlobTable& table) : cache(table) {}
  const ForecastHost* host = nullptr;
  HostCache cache;
  std::map<LeaseId, Lease> leases;
  std::map<BlobId, std::vector<LeaseId>> awaited;  ///< leases that wait for an input under way
  std::deque<LeaseId> ready;
  LeaseId computing = 0;
  Flow down, up;
  double flops = 0;
};

class Play {
 public:
  Play(const Config& config, const std::vector<ForecastHost>& hosts, LinkRate lab,
       const ForecastJob& job)
      : lab_(lab), job_(job), scheduler_(Scheduler::create(config)) {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      SimHost& sim = hosts_.emplace_back(blobs_);
      sim.host = &hosts[i];
      const auto id = static_cast<HostId>(i + 1);
      scheduler_->host_joined(id, hosts[i].spec, 0);
      scheduler_->restore_standing(id, hosts[i].standing, 0);
    }
    for (const ReadyTask& task : job.tasks) {
      tasks_.emplace(task.task, &task);
    }
    scheduler_->add_job(kJob, job.policy, 1, 0);
  }

  Result<Forecast> run() {
    for (std::uint64_t events = 0; events < kMostEvents; ++events) {
      act();
      if (failure_) return fail(std::move(*failure_));
      if (finished_) return outcome();
      if (!step()) {
        return fail(Code::kUnavailable,
                    "these hosts cannot compute the job: " + scheduler_->waiting_reason(kJob));
      }
    }
    return fail(Code::kExhausted, "the job has too many tasks to be played to its end");
  }

 private:
  using Event = std::function<void()>;
  struct Timed {
    double at;
    std::uint64_t order;
    Event event;
    bool operator>(const Timed& other) const {
      return std::tie(at, order) > std::tie(other.at, other.order);
    }
  };

  SimHost& host(HostId id) { return hosts_[id - 1]; }
  [[nodiscard]] Micros now() const { return micros(now_); }
  void after(double seconds, Event event) {
    timed_.push({now_ + seconds, ++order_, std::move(event)});
  }

  // ---- the scheduler's actions ----

  void act() {
    for (auto actions = scheduler_->take_actions(); !actions.empty();
         actions = scheduler_->take_actions()) {
      for (const Action& action : actions) {
        std::visit([this](const auto& one) { on(one); }, action);
      }
    }
  }

  void on(const PlanMore& action) {
    std::uint32_t given = 0;
    std::uint64_t least = 0;
    while (planned_ < job_.tasks.size() && given < action.max_tasks) {
      const ReadyTask& task = job_.tasks[planned_];
      if (task.memory_bytes > action.memory_bytes) {
        least = task.memory_bytes;
        break;
      }
      ReadyTask ready = task;
      ready.job = kJob;
      scheduler_->task_ready(std::move(ready), now());
      ++planned_;
      ++given;
    }
    const bool done = planned_ == job_.tasks.size();
    const bool exhausted = given == 0 && !done;
    scheduler_->planned(kJob, done ? GOBLIN_PLAN_DONE : GOBLIN_PLAN_MORE, exhausted, least, now());
  }
  void on(const SendLease& action) {
    const ReadyTask* const task = tasks_.at(action.task);
    after(host(action.host).host->rtt_s / 2,
          [this, id = action.host, lease = action.lease, task] { arrive(id, lease, task); });
  }
  void on(const CancelLease& action) {
    after(host(action.host).host->rtt_s / 2,
          [this, action] { cancel(host(action.host), action.lease); });
  }
  void on(const FetchResult& action) {
    const double bytes = static_cast<double>(tasks_.at(action.task)->output_bytes);
    after(host(action.host).host->rtt_s / 2, [this, action, bytes] {
      SimHost& from = host(action.host);
      if (bytes < kLeastBytes) {
        result_sent(from, action.lease);
      } else {
        from.up.waiting.push_back({action.lease, 0, bytes});
        flows_changed_ = true;
      }
    });
  }
  void on(const CheckResult& action) {
    after(0, [this, action] { scheduler_->checked(action.lease, Verdict::kAccept, now()); });
  }
  void on(const AcceptResult& action) {
    after(0, [this, action] { scheduler_->accepted(kJob, action.task, now()); });
  }
  void on(const Recheck& action) {
    after(0, [this, action] { scheduler_->rechecked(kJob, action.task, Verdict::kAccept, now()); });
  }
  void on(const FinishJob&) { finished_ = true; }
  void on(const FailJob& action) { failure_ = action.error; }
  /// What is left concerns results that nobody waits for any more, or faults, which there are not.
  template <typename T>
  void on(const T&) {}

  // ---- hosts ----

  void arrive(HostId id, LeaseId lease, const ReadyTask* task) {
    SimHost& at = host(id);
    if (cancelled_.erase(lease) != 0) return;
    Lease& entry = at.leases.emplace(lease, Lease{lease, task, 0}).first->second;
    for (const TaskInput& input : task->inputs) {
      const BlobId blob = blobs_.acquire(input.digest, input.bytes);
      if (at.cache.holds(blob)) {
        at.cache.use(blob, at.host->spec.cache_bytes);
        continue;
      }
      auto& waiting = at.awaited[blob];
      if (waiting.empty()) {
        at.down.waiting.push_back({lease, blob, static_cast<double>(input.bytes)});
        flows_changed_ = true;
      }
      waiting.push_back(lease);
      ++entry.missing;
    }
    if (entry.missing == 0) {
      at.ready.push_back(lease);
      compute(id);
    }
  }

  void input_came(HostId id, BlobId blob) {
    SimHost& at = host(id);
    at.cache.use(blob, at.host->spec.cache_bytes);
    const auto waiting = at.awaited.extract(blob);
    for (const LeaseId lease : waiting.mapped()) {
      const auto it = at.leases.find(lease);
      if (it != at.leases.end() && --it->second.missing == 0) at.ready.push_back(lease);
    }
    compute(id);
  }

  void compute(HostId id) {
    SimHost& at = host(id);
    while (at.computing == 0 && !at.ready.empty()) {
      const LeaseId lease = at.ready.front();
      at.ready.pop_front();
      const auto it = at.leases.find(lease);
      if (it == at.leases.end()) continue;
      at.computing = lease;
      ++starts_;
      const ReadyTask* const task = it->second.task;
      const double seconds = at.host->task_s + task->flops / at.host->flops_per_s;
      at.flops += task->flops;
      after(seconds, [this, id, lease, task, seconds] {
        SimHost& by = host(id);
        by.computing = 0;
        if (by.leases.erase(lease) != 0) {
          after(by.host->rtt_s / 2, [this, id, lease, task, seconds] {
            // Honest hosts agree: the task names the result.
            wire::Digest digest;
            std::memcpy(digest.bytes.data(), &task->task, sizeof task->task);
            scheduler_->outcome(id, {lease, GOBLIN_OK, digest, micros(seconds), 0}, now());
          });
        }
        compute(id);
      });
    }
  }

  void cancel(SimHost& at, LeaseId lease) {
    if (at.leases.erase(lease) == 0) cancelled_.insert(lease);
  }

  void result_sent(SimHost& from, LeaseId lease) {
    after(from.host->rtt_s / 2, [this, lease] { scheduler_->fetched(lease, now()); });
  }

  // ---- time ----

  void share(Flow SimHost::*flow, double LinkRate::*rate) {
    std::vector<double> caps;
    for (SimHost& at : hosts_) {
      caps.push_back((at.*flow).waiting.empty() ? 0 : at.host->link.*rate);
    }
    const auto rates = fair_rates(caps, lab_.*rate);
    for (std::size_t i = 0; i < rates.size(); ++i) {
      (hosts_[i].*flow).rate = rates[i];
    }
  }

  [[nodiscard]] double next_transfer() const {
    double least = kNever;
    for (const SimHost& at : hosts_) {
      for (const Flow* flow : {&at.down, &at.up}) {
        if (!flow->waiting.empty()) {
          least = std::min(least, flow->waiting.front().left / flow->rate);
        }
      }
    }
    return now_ + least;
  }

  void flow(double seconds) {
    for (SimHost& at : hosts_) {
      for (Flow* one : {&at.down, &at.up}) {
        if (one->waiting.empty()) continue;
        double& left = one->waiting.front().left;
        const double bytes = one->rate == kNever ? left : std::min(left, one->rate * seconds);
        left -= bytes;
        one->bytes += bytes;
      }
    }
  }

  void end_transfers() {
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      SimHost& at = hosts_[i];
      const auto ended = [this](Flow& one) -> std::optional<Transfer> {
        if (one.waiting.empty() || one.waiting.front().left >= kLeastBytes) return std::nullopt;
        const Transfer transfer = one.waiting.front();
        one.bytes += transfer.left;
        one.waiting.pop_front();
        flows_changed_ = true;
        return transfer;
      };
      if (const auto transfer = ended(at.down)) {
        const auto id = static_cast<HostId>(i + 1);
        after(at.host->rtt_s, [this, id, blob = transfer->blob] { input_came(id, blob); });
      }
      if (const auto transfer = ended(at.up)) result_sent(at, transfer->lease);
    }
  }

  /// To the next moment at which something happens. False: nothing ever will.
  bool step() {
    if (std::exchange(flows_changed_, false)) {
      share(&SimHost::down, &LinkRate::to_hosts);
      share(&SimHost::up, &LinkRate::from_hosts);
    }
    const Micros due = scheduler_->next_wakeup();
    const double wake =
        due == std::numeric_limits<Micros>::max() ? kNever : static_cast<double>(due) * 1e-6;
    const double timed = timed_.empty() ? kNever : timed_.top().at;
    const double transfer = next_transfer();
    const double at = std::max(now_, std::min({wake, timed, transfer}));
    if (at == kNever) return false;
    // Timers alone, of a scheduler that nothing happens to, never end a job.
    if (timed == kNever && transfer == kNever && ++idle_wakes_ > kMostIdleWakes) return false;
    if (timed != kNever || transfer != kNever) idle_wakes_ = 0;
    flow(at - now_);
    now_ = at;
    end_transfers();
    while (!timed_.empty() && timed_.top().at <= now_) {
      const Event event = timed_.top().event;
      timed_.pop();
      event();
    }
    if (wake <= now_) wake_scheduler(std::max(due, now()));
    return true;
  }

  void wake_scheduler(Micros now) {
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      std::vector<LeaseId> running;
      for (const auto& [lease, entry] : hosts_[i].leases) running.push_back(lease);
      scheduler_->heartbeat(static_cast<HostId>(i + 1), running, now);
      if (!hosts_[i].up.waiting.empty()) {
        const Transfer& coming = hosts_[i].up.waiting.front();
        scheduler_->fetch_progress(coming.lease, 1u << 20, now);
      }
    }
    scheduler_->tick(now);
  }

  Forecast outcome() {
    Forecast out;
    double planned = 0;
    for (const ReadyTask& task : job_.tasks) planned += task.flops;
    const double scale = planned > 0 ? std::max(1.0, job_.flops_total / planned) : 1.0;
    double rate = 0;
    double down = 0;
    double up = 0;
    for (const SimHost& at : hosts_) {
      if (at.flops > 0 || at.down.bytes + at.up.bytes > 0) ++out.hosts;
      rate += at.host->spec.accepting ? at.host->flops_per_s : 0;
      out.flops += at.flops;
      down += at.down.bytes;
      up += at.up.bytes;
      out.host_link_s = std::max({out.host_link_s, at.down.bytes / at.host->link.to_hosts,
                                  at.up.bytes / at.host->link.from_hosts});
    }
    out.hosts_speed_s = rate > 0 ? out.flops / rate : 0;
    out.lab_link_s = std::max(down / lab_.to_hosts, up / lab_.from_hosts);
    for (double* const one : {&out.flops, &out.hosts_speed_s, &out.lab_link_s, &out.host_link_s}) {
      *one *= scale;
    }
    out.bytes_to_hosts = down * scale;
    out.bytes_from_hosts = up * scale;
    out.seconds = now_ * scale;
    out.planned_share = 1 / scale;
    out.starts = starts_;
    if (out.lab_link_s > std::max(out.hosts_speed_s, out.host_link_s)) {
      out.bound = wire::Bound::kLabLink;
    } else if (out.host_link_s > out.hosts_speed_s) {
      out.bound = wire::Bound::kHostLink;
    }
    return out;
  }

  static constexpr int kMostIdleWakes = 1000;

  const LinkRate lab_;
  const ForecastJob& job_;
  std::unique_ptr<Scheduler> scheduler_;
  BlobTable blobs_;  // outlives the hosts' caches
  std::deque<SimHost> hosts_;
  std::map<TaskId, const ReadyTask*> tasks_;
  std::size_t planned_ = 0;
  std::priority_queue<Timed, std::vector<Timed>, std::greater<>> timed_;
  std::set<LeaseId> cancelled_;  ///< before they arrived
  std::uint64_t order_ = 0;
  std::uint64_t starts_ = 0;
  double now_ = 0;
  bool flows_changed_ = false;
  bool finished_ = false;
  int idle_wakes_ = 0;
  std::optional<Error> failure_;
};

Result<void> check_rate(double rate, const std::string& what) {
  if (!(rate > 0)) {
    return fail(Code::kInvalidArgument,
                what + " is " + std::to_string(rate) + ", but must be above 0");
  }
  return {};
}

}  // namespace

Result<Forecast> forecast(const Config& config, const std::vector<ForecastHost>& hosts,
                          LinkRate lab, const ForecastJob& job) {
  if (hosts.empty() || job.tasks.empty()) {
    return fail(Code::kInvalidArgument,
                hosts.empty() ? "a forecast needs a host" : "a forecast needs a task");
  }
  GOBLIN_TRY_VOID(check_rate(lab.to_hosts, "the lab node's rate to hosts"));
  GOBLIN_TRY_VOID(check_rate(lab.from_hosts, "the lab node's rate from hosts"));
  for (const ForecastHost& host : hosts) {
    GOBLIN_TRY_VOID(check_rate(host.flops_per_s, "a host's speed"));
    GOBLIN_TRY_VOID(check_rate(host.link.to_hosts, "the rate to a host"));
    GOBLIN_TRY_VOID(check_rate(host.link.from_hosts, "the rate from a host"));
  }
  return Play(config, hosts, lab, job).run();
}

}  // namespace goblin::scheduler
