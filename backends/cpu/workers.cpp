// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "backends/cpu/workers.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace goblin::backends::cpu {
namespace {

// A sleeper needs 30 to 100 µs to come back, a product of n = 512 takes 500: calls that follow each
// other closely must not pay for that, and a host without work must not pay for spinning.
constexpr auto kSpin = std::chrono::microseconds(100);

void relax() {
#if defined(__SSE__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Looks at `ready` for kSpin or until it says yes.
template <class Ready>
void spin(const Ready& ready) {
  constexpr int kLooks = 16;  // between two looks at the clock
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int look = 0; look < kLooks; ++look) {
      if (ready()) return;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
}

/// Wakes a sleeping thread on another processor than this one, if it may use any. Under KVM an idle
/// processor passes for a preempted one, so Linux wakes a thread where its waker runs and leaves
/// the two there for milliseconds: 4 ms of work on each took 7.9 ms, with this 4.05.
void wake_elsewhere(pthread_t thread, std::condition_variable& condition) {
#if defined(__linux__)
  const int here = sched_getcpu();
  cpu_set_t allowed;
  if (here >= 0 && pthread_getaffinity_np(thread, sizeof allowed, &allowed) == 0) {
    cpu_set_t others = allowed;
    CPU_CLR(static_cast<std::size_t>(here), &others);
    if (CPU_COUNT(&others) > 0 && pthread_setaffinity_np(thread, sizeof others, &others) == 0) {
      condition.notify_one();
      pthread_setaffinity_np(thread, sizeof allowed, &allowed);  // it stays where it woke
      return;
    }
  }
#else
  static_cast<void>(thread);
#endif
  condition.notify_one();
}

/// Threads inherit the mask of signals: a worker must not take one that the host waits for.
class SignalsBlocked final {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
      sigdelset(&all, fault);
    }
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

class Workers::Pool final {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      closing_.store(true, std::memory_order_relaxed);
    }
    for (Worker& worker : workers_) worker.wake.notify_one();
    for (Worker& worker : workers_) worker.thread.join();
  }

  /// False in a process that fork() made from the one that owns the threads: nothing here, not even
  /// the mutex, can then be relied on.
  [[nodiscard]] bool mine() const { return getpid() == owner_; }

  void run(std::int64_t threads, const void* context, Function function) {
    Call call{function, context, threads, 1, {0}, nullptr};
    Worker* wake = nullptr;
    {
      const std::lock_guard lock(mutex_);
      grow(threads - 1);
      call.next = calls_;
      calls_ = &call;
      seats_.fetch_add(threads - 1, std::memory_order_relaxed);
      for (std::int64_t i = 1; i < threads && asleep_ != nullptr; ++i) {
        Worker* const worker = std::exchange(asleep_, asleep_->next);
        worker->next = std::exchange(wake, worker);
      }
    }
    while (wake != nullptr) {
      Worker* const worker = std::exchange(wake, wake->next);
      {
        // Only now: once called it may go back to sleep, and into the list of sleepers.
        const std::lock_guard lock(mutex_);
        worker->called = true;
      }
      wake_elsewhere(worker->thread.native_handle(), worker->wake);
    }
    function(context, 0);
    {
      const std::lock_guard lock(mutex_);
      Call** at = &calls_;
      while (*at != &call) at = &(*at)->next;
      *at = call.next;
      seats_.fetch_sub(call.threads - call.seated, std::memory_order_relaxed);
    }
    const auto done = [&] { return call.working.load(std::memory_order_acquire) == 0; };
    spin(done);
    if (done()) return;
    std::unique_lock lock(mutex_);
    ++waiting_;
    done_.wait(lock, done);
    --waiting_;
  }

  [[nodiscard]] std::int64_t started() {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int64_t>(workers_.size());
  }

 private:
  /// On its caller's stack. A worker does not touch it after `working` has gone down.
  struct Call {
    Function function;
    const void* context;
    std::int64_t threads;
    std::int64_t seated;                // indices given out; guarded by mutex_
    std::atomic<std::int64_t> working;  // workers inside `function`
    Call* next;                         // guarded by mutex_
  };

  struct Worker {
    std::thread thread;
    std::condition_variable wake;
    bool called = false;     // guarded by mutex_; not before, a sleeper wakes
    Worker* next = nullptr;  // in a list of sleepers: asleep_, or what one call is about to wake
  };

  /// With the mutex held.
  void grow(std::int64_t wanted) {
    if (static_cast<std::int64_t>(workers_.size()) >= wanted) return;
    const SignalsBlocked blocked;
    while (static_cast<std::int64_t>(workers_.size()) < wanted) {
      try {
        Worker& worker = workers_.emplace_back();
        worker.thread = std::thread(&Pool::serve, this, std::ref(worker));
      } catch (const std::exception&) {
        // At the limit of threads or memory: those that run do all the work.
        if (!workers_.empty() && !workers_.back().thread.joinable()) workers_.pop_back();
        return;
      }
    }
  }

  void serve(Worker& self) {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (Call* const call = take()) {
        const std::int64_t index = call->seated++;
        seats_.fetch_sub(1, std::memory_order_relaxed);
        call->working.fetch_add(1, std::memory_order_relaxed);
        lock.unlock();
        call->function(call->context, index);
        lock.lock();
        call->working.fetch_sub(1, std::memory_order_release);
        if (waiting_ > 0) done_.notify_all();
        continue;
      }
      if (closing_.load(std::memory_order_relaxed)) return;
      const auto ready = [&] {
        return seats_.load(std::memory_order_relaxed) > 0 ||
               closing_.load(std::memory_order_relaxed);
      };
      lock.unlock();
      spin(ready);
      lock.lock();
      if (ready()) continue;
      self.called = false;
      self.next = std::exchange(asleep_, &self);
      self.wake.wait(lock, [&] { return self.called || closing_.load(std::memory_order_relaxed); });
    }
  }

  /// The oldest call with a seat left, or null. With the mutex held.
  Call* take() {
    Call* found = nullptr;
    for (Call* call = calls_; call != nullptr; call = call->next) {
      if (call->seated < call->threads) found = call;
    }
    return found;
  }

  const pid_t owner_ = getpid();
  std::mutex mutex_;
  std::condition_variable done_;  // a worker has left a call
  std::list<Worker> workers_;
  Worker* asleep_ = nullptr;            // guarded by mutex_, as all below
  Call* calls_ = nullptr;               // newest first
  std::atomic<std::int64_t> seats_{0};  // free ones of all calls; changes with the mutex held
  std::atomic<bool> closing_{false};    // likewise
  std::int64_t waiting_ = 0;            // callers
};

Workers::Workers() : pool_(new (std::nothrow) Pool) {}

Workers::~Workers() {
  // There is nobody to join in a forked child, and condition variables remember the parent's
  // waiters.
  if (pool_ != nullptr && !pool_->mine()) {
    [[maybe_unused]] const Pool* const left_alone = pool_.release();
  }
}

std::int64_t Workers::started() const {
  return pool_ != nullptr && pool_->mine() ? pool_->started() : 0;
}

void Workers::run_erased(std::int64_t threads, const void* context, Function function) {
  if (threads <= 1 || pool_ == nullptr) {
    function(context, 0);
  } else if (pool_->mine()) {
    pool_->run(threads, context, function);
  } else {
    Pool().run(threads, context, function);
  }
}

}  // namespace goblin::backends::cpu
