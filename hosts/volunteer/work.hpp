// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Leases of a host: their inputs are fetched, then they are computed, in batches when they are
// small, by one runner per job. Loop's thread only.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

#include "core/store/blob_cache.hpp"
#include "hosts/volunteer/cache_watch.hpp"
#include "hosts/volunteer/config.hpp"
#include "hosts/volunteer/held_results.hpp"

namespace goblin::volunteer {

/// Where a lease came from and its result goes.
class LabPort {
 public:
  virtual ~LabPort() = default;
  [[nodiscard]] virtual const wire::Digest& pin() const = 0;
  [[nodiscard]] virtual bool is_open() const = 0;
  virtual net::Task<Result<std::uint64_t>> fetch(wire::Digest digest, std::uint64_t offset,
                                                 std::shared_ptr<net::BlobSink> sink) = 0;
  virtual void send(net::Frame frame) = 0;
  virtual HeldResults& held() = 0;
};

/// The bytes of a plugin that the signed catalogue names. kUnsupported: never on this host.
using FindPlugin =
    std::function<net::Task<Result<std::shared_ptr<const net::UniqueFd>>>(wire::Digest)>;

struct WorkCounters {
  std::uint64_t computed = 0, failed = 0, handed_back = 0;
  std::uint64_t given_up = 0;  ///< results that were not collected
  std::uint64_t compute_us = 0, peak_bytes = 0;
};

class Work {
 public:
  /// `watch` looks after `cache`.
  Work(net::Loop& loop, const HostConfig& config, store::BlobCache& cache, CacheWatch& watch,
       FindPlugin find_plugin, log::Logger logger);
  ~Work();

  /// Spawns the loops. They end with stop().
  void start();
  void add(const std::shared_ptr<LabPort>& lab, wire::Leases leases, const wire::Bytes& payload);
  void cancel(const LabPort& lab, const std::vector<std::uint64_t>& leases);
  /// The connection is gone: its leases end.
  void drop(const LabPort& lab);
  /// Gives back the leases that wait for inputs.
  void hand_back_unfetched();
  /// Gives back the leases that are not being computed, and takes no plugin for granted any more.
  void hand_back_waiting();
  /// Ends the runners of other plugins than these and gives their leases back, running ones too.
  void drop_plugins(const std::function<bool(const wire::Digest&)>& may_run);
  /// Gives every lease back, running ones too.
  void hand_back_all();
  void pause(bool paused);
  void stop();

  /// Something that was waited for may be here: memory, a blob.
  void wake() { work_.set(); }

  [[nodiscard]] std::size_t leases() const { return leases_.size(); }
  [[nodiscard]] std::vector<std::uint64_t> running(const LabPort& lab) const;
  [[nodiscard]] const WorkCounters& counters() const { return counters_; }
  [[nodiscard]] plugin::RunnerUsage usage() const;
  [[nodiscard]] std::size_t runners() const { return runners_.size(); }
  [[nodiscard]] double cpu_used() const {
    return cpu_used_;
  }  ///< fraction of `threads`, last second
  /// Empty while something is computed, else why not.
  [[nodiscard]] std::string idle_reason() const;
  /// Completes when no lease is left.
  net::Task<void> drained();

 private:
  struct JobRunner;
  struct Entry {
    std::shared_ptr<LabPort> lab;
    wire::Lease lease;
    wire::Bytes inline_bytes;
    std::vector<std::shared_ptr<store::BlobCache::Pin>> pins;  ///< one per input; null: inline
    bool ready = false, running = false, cancelled = false;
    bool inputs_here = false;  ///< all stand in inline_bytes
    bool fetching = false;     ///< its inputs come in
    bool starved = false;      ///< … but the cache has no room for one of them
    net::TimePoint since;
    std::uint64_t fetch_us = 0;
  };
  using EntryPtr = std::shared_ptr<Entry>;
  using Key = std::pair<wire::Digest, std::uint64_t>;  ///< lab node, job

  net::Task<void> fetch_loop();
  EntryPtr next_to_fetch();
  /// False when there is none: then the lab node's leases that need it were given back.
  net::Task<bool> fetch_plugin(EntryPtr entry);
  net::Task<Result<void>> fetch_inputs(EntryPtr entry);
  /// An earlier lease of the same lab node has the connection for its large inputs.
  [[nodiscard]] bool has_to_wait(const EntryPtr& entry) const;
  using PinPtr = std::shared_ptr<store::BlobCache::Pin>;
  net::Task<Result<PinPtr>> fetch_input(EntryPtr entry, wire::TensorRef input);
  net::Task<void> compute_loop();
  std::vector<EntryPtr> next_batch();
  net::Task<void> compute(std::vector<EntryPtr> batch);
  /// A batch that a runner has answered for.
  struct Done {
    std::vector<EntryPtr> batch;
    std::shared_ptr<JobRunner> runner;
    std::shared_ptr<SharedBuffer> own;               ///< the outputs; null: in the runner's arena
    std::vector<std::vector<std::uint64_t>> places;  ///< of outputs, by task
    Result<wire::Executed> executed;
  };
  net::Task<void> deliver(Done done);
  /// For a filter only.
  static std::vector<wire::Bytes> inputs_of(const Entry& entry);
  net::Task<Result<std::shared_ptr<JobRunner>>> runner_for(const Entry& entry);
  net::Task<Result<wire::RunnerTask>> task_of(JobRunner& runner, EntryPtr entry,
                                              std::uint32_t segment, std::uint64_t& offset,
                                              std::vector<std::uint64_t>& places);
  /// Stops or continues the runner that computes, as pause and cap of processor time say.
  void stop_or_go();
  /// Results of all lab nodes that wait to be fetched, or are being hashed.
  [[nodiscard]] std::uint64_t held_bytes() const;
  /// Another lab node that gave leases is connected: this one may take half of everything.
  [[nodiscard]] bool shared_with_others(const LabPort& lab) const;
  /// What each lab node's results may take when others have work.
  [[nodiscard]] std::uint64_t share() const;
  /// A lease waits for memory that results of others take.
  [[nodiscard]] bool starves(const Entry& entry) const;
  /// Where one starves, gives up what others have not collected for long.
  void give_up_uncollected();
  /// For the log: "matmul/1, job 3 of lab node 0123456789abcdef".
  static std::string job_text(const Entry& entry, const JobRunner* runner);
  void finish(const EntryPtr& entry);
  void give_back(const EntryPtr& entry, Code reason);
  void hand_back_those(bool (*wanted)(const Entry& entry));
  /// Ends the runners that were not used for longest, so that few jobs have one at a time.
  void make_room_for_runner();
  net::Task<void> tidy_loop();
  net::Task<void> govern_loop();

  net::Loop& loop_;
  const HostConfig& config_;
  store::BlobCache& cache_;
  CacheWatch& watch_;
  FindPlugin find_plugin_;
  log::Logger logger_;
  std::set<std::weak_ptr<LabPort>, std::owner_less<>> labs_;  ///< those that gave leases
  std::list<EntryPtr> leases_;                                ///< in the order of arrival
  std::deque<EntryPtr> to_fetch_;
  std::map<const LabPort*, int> fetching_;  ///< fetchers at work; never zero
  std::set<wire::Digest> plugins_here_;     ///< those that find_plugin_ answers at once
  std::map<Key, std::shared_ptr<JobRunner>> runners_;
  std::shared_ptr<JobRunner> busy_;       ///< a batch is prepared, computed or hashed
  std::shared_ptr<JobRunner> executing_;  ///< its request is outstanding
  std::uint64_t delivering_bytes_ = 0;    ///< memory of large results that are being hashed
  WorkCounters counters_;
  net::Event fetch_, work_, empty_, wake_;
  bool paused_ = false, stopped_ = false;
  bool held_back_ = false;  ///< the cap of processor time is used up for now
  double cpu_used_ = 0;
  std::string last_trouble_;
};

}  // namespace goblin::volunteer
