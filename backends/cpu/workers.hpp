// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Threads that outlive a call, and independent pieces of work on them with a common stop.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "backends/common/float_environment.hpp"
#include "goblin/abi/types.h"

namespace goblin::backends::cpu {

/// Threads that wait for calls: after one they look out for the next for some microseconds, then
/// sleep. None is started before a call asks for it; there are never more than the largest call
/// asked for, and calls at the same time share them. Any thread may call `run`, several at once,
/// but not from inside a body. The destructor ends the threads: no call may be running then.
///
/// In a child that fork() made there are no threads; `run` then makes some of its own for each
/// call.
class Workers final {
 public:
  Workers();
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Calls body(0) on this thread and, at the same time, body(1) … body(threads − 1) on others,
  /// each at most once: one that is busy elsewhere, cannot be started (no memory, no threads left),
  /// or wakes after body(0) has returned is left out. So any one body must be able to finish the
  /// work alone. Returns when all that began have returned. Bodies throw nothing.
  template <class Body>
  void run(std::int64_t threads, const Body& body) {
    static_assert(std::is_nothrow_invocable_v<const Body&, std::int64_t>);
    run_erased(threads, &body, [](const void* context, std::int64_t index) noexcept {
      (*static_cast<const Body*>(context))(index);
    });
  }

  /// Threads that are there now, the callers' not counted. For tests.
  [[nodiscard]] std::int64_t started() const;

 private:
  using Function = void (*)(const void* context, std::int64_t index) noexcept;
  class Pool;
  void run_erased(std::int64_t threads, const void* context, Function function);

  std::unique_ptr<Pool> pool_;
};

/// Asks the caller's `cancelled`; once it has said yes, every worker hears so. Any thread.
class Stop final {
 public:
  bool asked(const goblin_exec_v1* exec) {
    if (stopped()) return true;
    if (exec->cancelled == nullptr || exec->cancelled(exec->context) == 0) return false;
    stopped_.store(true, std::memory_order_relaxed);
    return true;
  }
  [[nodiscard]] bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> stopped_{false};
};

/// make(index) gives worker `index` of `threads`; it is called with pieces 0…count−1, each given to
/// one worker, until it returns false or `stop` is set. The calling thread is worker 0. `workers`
/// may be null: threads then live for this call only.
template <class Make>
void run_pieces(Workers* workers, std::int64_t threads, std::int64_t count, Stop& stop,
                const Make& make) {
  std::atomic<std::int64_t> next{0};
  const auto work = [&](std::int64_t index) noexcept {
    const FloatEnvironment environment;
    auto worker = make(index);
    while (!stop.stopped()) {
      const std::int64_t piece = next.fetch_add(1, std::memory_order_relaxed);
      if (piece >= count || !worker(piece)) return;
    }
  };
  if (threads <= 1) {
    work(0);
  } else if (workers != nullptr) {
    workers->run(threads, work);
  } else {
    Workers().run(threads, work);
  }
}

}  // namespace goblin::backends::cpu
