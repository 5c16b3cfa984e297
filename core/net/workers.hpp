// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A few threads that run what would block the loop. For this folder's .cpp files only.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace goblin::net {

/// Thread-safe. Destruction drops what has not started and waits for what has.
class Workers {
 public:
  explicit Workers(unsigned threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  void run(std::function<void()> work);
  /// Waits until everything that was given has ended. Not from a worker.
  void drain();

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable ready_;
  std::condition_variable idle_;
  unsigned working_ = 0;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace goblin::net
