// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The daemon's side of a runner: starts the child process, sends it one request after another, and
// tells what became of it. A plugin can crash, hang, lie or take all memory: that ends in an error
// here and in nothing worse.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/jail/layers.hpp"
#include "core/net/loop.hpp"
#include "core/net/unique_fd.hpp"
#include "core/plugin/control_groups.hpp"
#include "core/plugin/output_lines.hpp"
#include "core/wire/runner.hpp"
#include "goblin/error.hpp"

namespace goblin::plugin {

struct RunnerOptions {
  std::string runner;              ///< path of the program goblin-runner
  std::string backend;             ///< path of the backend's library
  std::string device;              ///< name of its device; empty: the best
  std::uint32_t threads = 1;       ///< for execute and check
  std::uint64_t memory_bytes = 0;  ///< private memory of plugin and backend; 0: no cap. Mapped
                                   ///< segments come on top: subtract what you map.
  std::shared_ptr<ControlGroups> groups;  ///< where to make one for the runner; null: nowhere
  std::vector<jail::Layer> require;       ///< layers of its jail that there must be
  int nice = 0;                           ///< added to the daemon's own niceness
  int plugin_fd = -1;        ///< sealed memfd (sealed_file.hpp); borrowed until start() ends
  bool show_stderr = false;  ///< let the plugin write to the daemon's stderr
  /// Gets what the plugin prints to its standard output and error, line by line and bounded
  /// (output_lines.hpp), on the loop's thread, perhaps after the client's end; none: that is lost.
  OutputLine output;
  net::Milliseconds startup{10'000};  ///< a plugin that has not loaded by then is killed
};

struct RunnerUsage {
  std::uint64_t resident_bytes = 0;  ///< mapped segments that were touched included
  std::uint64_t cpu_us = 0;
};

/// Loop's thread only; the loop outlives it. Requests may come from any number of coroutines: they
/// are sent in the order of the calls, one at a time. A caller that is destroyed while it waits
/// leaves its request running.
///
/// Errors of every request, beside a status inside the answer, which is the plugin's own:
///   kUnavailable  no answer within `deadline` (the runner is killed), or closed by us
///   kInternal     the runner died: the message names signal or exit status, or says that
///                 the plugin closed the socket
///   kExhausted    the runner was killed by the system, most likely for memory
///   kCorrupt      the runner sent something that is no answer (it is killed)
/// After any of them the runner is gone: every later request gives the same error.
class RunnerClient {
 public:
  /// Starts a runner and loads the plugin. Errors as above, or why the plugin or the backend cannot
  /// be used (kUnsupported for an ABI, kCorrupt for a damaged file, …).
  static net::Task<Result<std::unique_ptr<RunnerClient>>> start(net::Loop& loop,
                                                                const RunnerOptions& options);
  /// Has the runner killed.
  ~RunnerClient();
  RunnerClient(const RunnerClient&) = delete;
  RunnerClient& operator=(const RunnerClient&) = delete;

  [[nodiscard]] const std::vector<wire::KindDescription>& kinds() const;
  [[nodiscard]] const std::string& device() const;
  [[nodiscard]] int pid() const;  ///< of the runner itself, not of its spawner
  [[nodiscard]] bool alive() const;
  /// Completes when the runner is gone; why.
  net::Task<Error> exited();

  /// Maps `size` bytes of `fd` (a memfd or a file, at least that long; duplicated, and opened anew
  /// for reading where it is open for more than `writable` says) for the requests that are made
  /// afterwards. Answers the segment's number.
  net::Task<Result<std::uint32_t>> map(int fd, std::uint64_t size, bool writable);
  /// Forgets segments. Those that an open plan uses stay mapped until it ends.
  net::Task<Result<void>> unmap(std::vector<std::uint32_t> segments);

  // A request is encoded inside the call. Name it first: GCC 12 destroys a temporary made by braces
  // inside a co_await expression twice (core/net/task.hpp).
  using Deadline = net::Milliseconds;
  net::Task<Result<wire::Validated>> validate(const wire::Validate& request, Deadline deadline);
  /// Replaces the plan that was open.
  net::Task<Result<wire::PlanOpened>> plan_open(const wire::PlanOpen& request, Deadline deadline);
  net::Task<Result<wire::Planned>> plan_next(const wire::PlanNext& request, Deadline deadline);
  net::Task<Result<wire::Accepted>> accept(const wire::Accept& request, Deadline deadline);
  net::Task<Result<wire::Done>> recall(const wire::Recall& request, Deadline deadline);
  net::Task<Result<wire::Done>> finish(Deadline deadline);
  net::Task<Result<wire::Executed>> execute(const wire::Execute& request, Deadline deadline);
  net::Task<Result<wire::Checked>> check(const wire::Check& request, Deadline deadline);
  net::Task<Result<wire::Checked>> compare(const wire::Compare& request, Deadline deadline);

  /// Asks the running request, and those made before now, to stop: they answer kCancelled inside.
  /// A plugin that does not look whether it should stop goes on: with `grace`, the runner is killed
  /// when no answer has come after so long, and the request ends with kUnavailable.
  void cancel_work(std::optional<net::Milliseconds> grace = std::nullopt);
  /// Kills the runner now: the pending request ends with kUnavailable.
  void kill();
  /// Stops and continues all threads of the runner; paused time does not count for deadlines.
  void pause();
  void resume();
  /// Zeroes when the runner is gone.
  [[nodiscard]] RunnerUsage usage() const;

 private:
  struct State;
  static net::Task<Result<std::unique_ptr<RunnerClient>>> start_copied(net::Loop& loop,
                                                                       RunnerOptions options);
  explicit RunnerClient(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace goblin::plugin
