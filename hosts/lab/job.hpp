// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// One job of the lab node: its record, the files of its tensors, its two runners and what is under
// way. Data only; the engine moves it. Loop's thread only, but for the atomic counters.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/plugin/runner_client.hpp"
#include "core/scheduler/scheduler.hpp"
#include "hosts/lab/job_files.hpp"
#include "hosts/lab/result_store.hpp"

namespace goblin::lab {

/// A runner and the files that it has mapped. Files are named by a key: inputs, outputs, or the
/// number of a staging file.
class MappedRunner {
 public:
  explicit MappedRunner(std::unique_ptr<plugin::RunnerClient> client)
      : client_(std::move(client)) {}

  static std::uint64_t input_key(std::size_t index) { return (1ULL << 62) | index; }
  static std::uint64_t output_key(std::size_t index) { return (2ULL << 62) | index; }

  plugin::RunnerClient& client() { return *client_; }
  /// The segment of a file, mapped when it is not yet.
  net::Task<Result<std::uint32_t>> segment(std::uint64_t key, int fd, std::uint64_t size,
                                           bool writable);
  /// The file is gone: unmaps it when it was mapped.
  net::Task<void> forget(std::uint64_t key);

 private:
  static constexpr std::uint64_t kWritable = 1ULL << 60;
  std::unique_ptr<plugin::RunnerClient> client_;
  std::unordered_map<std::uint64_t, std::uint32_t> segments_;
};

/// A task as the planner emitted it, with all that a lease needs.
struct PreparedTask {
  wire::PlannedTask planned;
  std::vector<TensorFile> windows;      ///< one per input
  std::vector<wire::TensorRef> inputs;  ///< digests, or places in inline_bytes
  wire::Bytes inline_bytes;
};

/// An accepted result that the planner kept.
struct Kept {
  Slot slot;
  std::vector<wire::TensorSpec> outputs;
};

/// Where each output of a result begins in its slot, 64-byte aligned, and the room for all.
struct SlotLayout {
  std::vector<std::uint64_t> offsets, sizes;
  std::uint64_t total = 0;
  static SlotLayout of(const std::vector<wire::TensorSpec>& outputs);
};

struct JobCounters {
  std::atomic<std::uint64_t> bytes_sent{0};
  std::uint64_t bytes_received = 0;
  std::uint64_t checked = 0, refused = 0, recomputed = 0;
  std::uint64_t compute_us = 0, check_us = 0;
};

/// What a host did for one job.
struct HostShare {
  std::uint64_t accepted = 0, confirmed = 0, refused = 0, failed = 0;
  std::uint64_t compute_us = 0, bytes_received = 0;
  std::uint64_t peak_bytes = 0;
  bool quarantined = false;
  std::string reason;
};

/// What a host said of a lease whose inputs it found corrupt: a hand-back, or an outcome.
struct Doubt {
  std::uint64_t lease = 0;
  scheduler::HostId host = 0;
  std::optional<scheduler::Outcome> outcome;
};

struct Job {
  Job(net::Loop& loop, store::Staging& staging, ResultStore::Remove remove)
      : results(staging, std::move(remove)), changed(loop), over(loop) {}

  store::JobRecord record;
  JobFiles files;                              ///< empty once it has ended
  std::vector<OutSeen> out_seen;               ///< see check_out_files
  std::shared_ptr<const net::UniqueFd> memfd;  ///< the plugin, sealed
  std::shared_ptr<MappedRunner> planner, checker;
  /// Why a result is refused, by task and host, until the scheduler says that it is.
  std::map<std::pair<std::uint64_t, wire::Digest>, std::string> seen_wrong;
  std::uint32_t checker_starts = 0;
  std::uint32_t planner_starts = 0;
  bool scheduled = false;  ///< the scheduler knows it
  bool ended = false;      ///< done, failed or cancelled: coroutines that come back stop

  ResultStore results;
  std::unordered_map<std::uint64_t, std::shared_ptr<const PreparedTask>> tasks;
  std::unordered_map<std::uint64_t, Kept> kept;
  std::unordered_set<std::uint64_t> restored;  ///< accepted before the plan was opened anew: a
                                               ///< planner that emits them again is not listened to
  std::unordered_map<std::string, wire::Digest> view_digests;
  std::unordered_map<wire::Digest, std::uint32_t> blob_uses;  ///< by prepared tasks

  struct Queued {
    scheduler::Recheck recheck;
    std::uint32_t plan = 0;  ///< planner_starts when it was asked for
  };
  std::deque<Queued> rechecks;  ///< of a refused host, that wait for their turn
  std::size_t rechecking = 0;   ///< coroutines that take them

  std::vector<Doubt> doubts;  ///< to be settled
  bool doubting = false;      ///< somebody settles them

  double flops_total = 0, bytes_least = 0;
  std::uint64_t min_task_bytes = 0;
  std::shared_ptr<JobCounters> counters = std::make_shared<JobCounters>();
  std::map<wire::Digest, HostShare> shares;
  std::vector<wire::Incident> incidents;
  std::uint64_t incident_count = 0;
  scheduler::JobCounts final_counts;          ///< once ended
  std::int64_t started_us = 0, ended_us = 0;  ///< loop's clock
  std::uint64_t version = 0;                  ///< grows with every visible change
  net::Event changed;
  net::Event over;  ///< its state says that it has ended
  /// Once it has ended and the journal has its explanation: all that is kept of it in memory.
  std::optional<wire::JobStatus> told;
};

}  // namespace goblin::lab
