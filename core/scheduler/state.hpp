// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What the scheduler remembers of hosts, jobs, tasks and leases. Plain data; scheduler_impl.hpp has
// the rules. Private to this folder.
#pragma once

#include <array>
#include <bit>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/scheduler/blob_cache.hpp"
#include "core/scheduler/scheduler.hpp"
#include "core/scheduler/speed.hpp"
#include "core/scheduler/task_list.hpp"

namespace goblin::scheduler {

inline constexpr Micros kNever = std::numeric_limits<Micros>::max();

struct Job;
struct Task;
struct Host;

enum class LeaseState : std::uint8_t { kRunning, kCommitted, kAccepting };

struct Lease {
  LeaseId id = 0;
  HostId host_id = 0;
  Host* host = nullptr;  ///< null once the host has left (committed leases only)
  Job* job = nullptr;
  Task* task = nullptr;
  LeaseState state = LeaseState::kRunning;
  bool validator = false;   ///< a trusted host decides with it
  bool predicted = false;   ///< `own` and `expected_end` mean something
  bool straggling = false;  ///< slow enough for a second start
  bool fetching = false;    ///< FetchResult was said and not answered
  bool held = false;        ///< its bytes are here and wait for their batch's audit
  bool fetch_late = false;  ///< … for so long that another host may compute the task, too
  Micros start = 0;
  Micros own = 0;            ///< predicted time of the task itself
  Micros load = 0;           ///< what it adds to the host's queue
  Micros expected_end = 0;   ///< with the queue before it and the transfer of its inputs
  Micros deadline = 0;       ///< ends then unless a heartbeat moves it
  Micros last_deadline = 0;  ///< which no heartbeat moves
  Micros running_since = 0;  ///< first heartbeat that named it; 0: none
  Micros fetch_start = 0;
  Micros fetch_late_at = 0;
  std::uint64_t fetch_bytes = 0;  ///< what the host had to send when the fetch began
  std::uint64_t fetch_came = 0;   ///< bytes of the result that have come
  double charged = 0;             ///< seconds booked on the job
  std::uint64_t missing_bytes = 0;
  std::uint64_t group = 0;
  wire::Digest digest;
  std::size_t host_index = 0;  ///< in Host::running or Host::committed
};

struct Failure {
  HostId host = 0;
  Code code = Code::kInternal;
};

enum class TaskState : std::uint8_t { kOpen, kAccepting };
enum class Category : std::uint8_t { kReady, kLeased, kJudging };

struct Task {
  Task(Job* owner, const ReadyTask& ready, validation::TaskValidation judgement)
      : job(owner),
        id(ready.task),
        flops(ready.flops),
        memory_bytes(ready.memory_bytes),
        output_bytes(ready.output_bytes),
        validation(std::move(judgement)) {}

  Job* job;
  TaskId id;
  double flops;
  std::uint64_t memory_bytes;
  std::uint64_t output_bytes;
  std::vector<BlobId> inputs;
  validation::TaskValidation validation;
  std::vector<Lease*> running;    ///< outstanding starts
  std::vector<Lease*> committed;  ///< results not yet decided on
  std::vector<Failure> failures;
  std::uint64_t exhausted_at = 0;  ///< largest memory that was not enough
  std::uint32_t want_results = 1;
  bool want_validator = false;
  bool touched = false;  ///< some host has had it
  bool judge_pending = false;
  TaskState state = TaskState::kOpen;
  Category category = Category::kLeased;
  LeaseId accepting = 0;
  std::uint64_t batch = 0;         ///< in which it is held; 0: none
  std::uint64_t audit = 0;         ///< batch for which it is recomputed; 0: none
  std::vector<HostId> drawn;       ///< hosts that alone may take it …
  Micros drawn_until = 0;          ///< … until then
  std::uint32_t late_fetches = 0;  ///< in the late list while there are any
  Hook<Task> ready_hook, validate_hook, running_hook, late_hook;
  std::uint8_t ready_class = 0;  ///< list in which ready_hook is
  bool ready_partial = false;
};

using ReadyList = LinkedList<Task, &Task::ready_hook>;
using ValidateList = LinkedList<Task, &Task::validate_hook>;
using RunningList = LinkedList<Task, &Task::running_hook>;
using LateList = LinkedList<Task, &Task::late_hook>;

/// Tasks that want an ordinary host, by the power of two of the memory that they need, so that no
/// task too large for a host stands before one that fits.
struct ReadyQueue {
  std::array<ReadyList, 64> lists;
  std::uint64_t occupied = 0;

  static std::uint8_t class_of(std::uint64_t bytes) {
    return static_cast<std::uint8_t>(bytes == 0 ? 0 : std::bit_width(bytes) - 1);
  }
  void push(Task* task) {
    const std::uint8_t c = class_of(task->memory_bytes);
    task->ready_class = c;
    lists[c].push_back(task);
    occupied |= std::uint64_t{1} << c;
  }
  void remove(Task* task) {
    ReadyList& list = lists[task->ready_class];
    list.remove(task);
    if (list.empty()) occupied &= ~(std::uint64_t{1} << task->ready_class);
  }
};

/// Results of one host that are believed and wait until a trusted host has recomputed one of them.
struct Batch {
  HostId host = 0;
  std::vector<TaskId> tasks;
  std::uint64_t bytes = 0;
  std::optional<TaskId> audited;  ///< none while the batch is open
};

inline constexpr std::uint32_t kFailedFetch = 4;  ///< delivered results that make up for one

/// What a job knows of a host.
struct JobHost {
  SpeedModel speed;
  bool quarantined = false;
  Micros not_before = 0;          ///< it gets no task of the job until then
  std::uint32_t setbacks = 0;     ///< failures in the job since its last result
  bool undelivering = false;      ///< too many of its results did not come
  std::uint32_t undelivered = 0;  ///< those, times kFailedFetch, less delivered results
  bool unsuited = false;          ///< it said that it never runs this job's tasks
  [[nodiscard]] bool barred() const { return quarantined || undelivering || unsuited; }
  std::uint64_t batch = 0;       ///< the open one
  std::vector<TaskId> accepted;  ///< tasks that rest on this host's word alone
};

/// The hosts that could serve a job now; recomputed when hosts change.
struct JobView {
  std::uint64_t epoch = 0;
  std::uint32_t ordinary = 0, trusted = 0, paused = 0, connected = 0;
  std::uint32_t quarantined = 0, undelivering = 0, suspended = 0, unsuited = 0;
  std::uint32_t ordinary_groups = 0, groups = 0;
  std::uint64_t max_memory = 0, max_trusted_memory = 0;
  std::optional<Cut> cut;               ///< once it is asked for
  std::uint64_t max_worker_memory = 0;  ///< of those that do the ordinary work
};

enum class RerunKind : std::uint8_t { kByCheck, kByDigest };

struct Job {
  JobId id = 0;
  validation::PolicySpec policy;
  double weight = 1;
  double vtime = 0;  ///< seconds of work booked, per weight
  bool runnable = false;
  bool dirty = false;
  bool ended = false;  ///< finished or failed: nothing more is said

  std::unordered_map<TaskId, Task> tasks;  ///< not yet accepted
  ReadyQueue fresh, partial;
  ValidateList validate;
  RunningList running;
  LateList late;                 ///< tasks with a result whose fetch is late
  std::uint32_t needing = 0;     ///< tasks in a ready or validate list
  std::uint32_t straggling = 0;  ///< leases and fetches over their time
  std::array<std::uint64_t, 3> categories{};

  std::unordered_map<HostId, JobHost> hosts;
  /// Tasks that rest on the words of several hosts, by those hosts (sorted).
  std::map<std::vector<HostId>, std::vector<TaskId>> accepted_together;
  std::unordered_map<TaskId, HostId> rechecks;
  std::unordered_map<TaskId, RerunKind> reruns;
  std::map<std::uint64_t, Batch> batches;  ///< policy adaptive
  std::uint64_t last_batch = 0;
  std::size_t batched = 0;       ///< tasks that are held or audited
  std::size_t open_batches = 0;  ///< without an audit
  SpeedModel speed;
  JobView view;

  bool planning = false;
  bool plan_done = false;
  bool plan_waits = false;
  std::uint64_t exhausted_memory = 0;  ///< the planner has nothing for so much or less
  std::uint64_t need_bytes = 0;        ///< what it said would do
  std::uint64_t plan_asked_memory = 0;
  std::uint64_t accepts_at_plan = 0, accept_events = 0;
  std::uint64_t tasks_at_plan = 0, task_events = 0;
  std::uint64_t empty_answers = 0, empty_allowed = 3;
  HostId asker = 0;  ///< an idle host that found nothing; valid with has_asker
  bool has_asker = false;

  JobCounts counts;
  std::optional<TaskId> first_refused;  ///< not known of refusals before a restart
};

struct Host {
  explicit Host(HostId host, BlobTable& table) : id(host), cache(table) {}

  HostId id;
  HostSpec spec;         ///< trusted: and kept its role
  bool offered = false;  ///< as a validator
  bool connected = false;
  std::vector<Lease*> running;
  std::vector<Lease*> committed;
  Micros load = 0;  ///< predicted time of what it has
  std::uint64_t unjudged_bytes = 0;
  std::uint32_t fetching = 0;  ///< fetches under way
  Micros heard = 0;            ///< when bytes of a result last came
  Micros quiet_until = 0;      ///< while it is fetched from: silent if nothing more comes till then
  SpeedModel speed;            ///< flops
  SpeedModel link;             ///< input bytes
  SpeedModel uplink;           ///< result bytes
  HostCache cache;
  Standing standing;
  bool standing_changed = false;               ///< and not said yet
  bool suspended = false;                      ///< standing.suspended_until has not come
  std::deque<std::pair<JobId, TaskId>> drawn;  ///< replicas that it is to take
  Micros not_before = 0;
  std::uint32_t setbacks = 0;  ///< hand-backs and undelivered results since the last success
  Micros jobs_not_before = 0;  ///< the latest JobHost::not_before
  Micros timer = kNever;       ///< earliest entry of it in the timer queue
  Micros next_look = 0;        ///< an idle host looks for second starts no earlier
  bool dirty = false;
  bool hungry = false;
  bool parked = false;  ///< looked, found nothing; looks again when something changes
  std::size_t parked_index = 0;
  std::pair<Micros, std::uint32_t> key{};  ///< its place among the hungry
  HostCounts counts;
};

}  // namespace goblin::scheduler
