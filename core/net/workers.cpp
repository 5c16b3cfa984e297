// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/net/workers.hpp"

#include <signal.h>

#include <utility>

namespace goblin::net {

Workers::Workers(unsigned threads) {
  // Signals belong to the loop's thread; a new thread inherits this mask.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (unsigned i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { serve(); });
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Workers::~Workers() {
  std::deque<std::function<void()>> dropped;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(queue_);
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void Workers::run(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  ready_.notify_one();
}

void Workers::drain() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return queue_.empty() && working_ == 0; });
}

void Workers::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    ready_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) {
      return;
    }
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    ++working_;
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    if (--working_ == 0 && queue_.empty()) {
      idle_.notify_all();
    }
  }
}

}  // namespace goblin::net
