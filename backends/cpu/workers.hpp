// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Independent pieces of work on a few threads, with a common stop.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "backends/common/float_environment.hpp"
#include "goblin/abi/types.h"

namespace goblin::backends::cpu {

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
/// one worker, until it returns false or `stop` is set. The calling thread is worker 0. Where no
/// more threads can be started, fewer do all the work.
template <class Make>
void run_on_threads(std::int64_t threads, std::int64_t count, Stop& stop, const Make& make) {
  std::atomic<std::int64_t> next{0};
  const auto work = [&](std::int64_t index) {
    const FloatEnvironment environment;
    auto worker = make(index);
    while (!stop.stopped()) {
      const std::int64_t piece = next.fetch_add(1, std::memory_order_relaxed);
      if (piece >= count || !worker(piece)) return;
    }
  };
  std::vector<std::jthread> others;
  try {
    others.reserve(static_cast<std::size_t>(threads - 1));
    for (std::int64_t index = 1; index < threads; ++index) others.emplace_back(work, index);
  } catch (const std::exception&) {
    // At the limit of threads or memory: those that run take all pieces.
  }
  work(0);
}

}  // namespace goblin::backends::cpu
