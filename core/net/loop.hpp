// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The event loop of a daemon: one thread runs every coroutine; a small pool does what would block.
// Asio stays behind this header.
#pragma once

#include <atomic>
#include <chrono>
#include <coroutine>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/net/task.hpp"
#include "goblin/error.hpp"

namespace goblin::net {

using Milliseconds = std::chrono::milliseconds;
using TimePoint = std::chrono::steady_clock::time_point;

class Event;

/// Thread-safe: stop, post. All else: only from the loop's thread (inside run(), or before it
/// starts and after it has ended). Whatever refers to a loop is destroyed before it.
class Loop {
 public:
  /// `workers`: threads for offload, at least 1.
  static Result<std::unique_ptr<Loop>> create(unsigned workers = 2);
  virtual ~Loop() = default;

  /// Runs until stop(). Then every spawned coroutine that is still suspended is destroyed, and what
  /// runs on a worker is waited for: nothing that a function of theirs uses is in use any more once
  /// this returns. A stop() that came earlier counts.
  virtual void run() = 0;
  virtual void stop() = 0;
  /// Runs `fn` on the loop's thread soon; never inside this call.
  virtual void post(std::function<void()> fn) = 0;

  /// Starts a coroutine that nobody awaits, soon, never inside this call; the loop owns it until it
  /// ends.
  virtual void spawn(Task<void> task) = 0;
  virtual TimePoint now() const = 0;
  virtual Task<void> sleep(Milliseconds duration) = 0;
  /// Completes when SIGINT or SIGTERM arrives; answers the signal's number. From the first call on
  /// they no longer end the process; each signal completes one call, also one made after it came.
  virtual Task<int> signal() = 0;
  /// Completes when `fd` is readable (a pidfd, an eventfd). The caller keeps it open meanwhile.
  virtual Task<Result<void>> readable(int fd) = 0;

  /// Runs `fn` on a worker thread and comes back with what it returns (not void). When the Task is
  /// destroyed meanwhile, `fn` still ends its run (one that waits for a worker never starts) and is
  /// destroyed on the loop's thread: so it must own what it uses, not refer to its caller's frame.
  template <typename F>
  Task<std::invoke_result_t<std::remove_cvref_t<F>&>> offload(F&& fn) {
    static_assert(kSafeInAwait<F>, "name the function, then offload it: see task.hpp");
    using Plain = std::remove_cvref_t<F>;
    return await_job(
        std::make_shared<JobOf<Plain, std::invoke_result_t<Plain&>>>(std::forward<F>(fn)));
  }

 protected:
  struct Job {
    virtual ~Job() = default;
    virtual void run() = 0;
    std::atomic<bool> abandoned{false};
    std::coroutine_handle<> waiter;  ///< loop's thread only; null once nobody waits
  };
  /// Runs the job on a worker unless abandoned, then resumes its waiter on the loop's thread.
  virtual void run_on_worker(std::shared_ptr<Job> job) = 0;

 private:
  template <typename F, typename R>
  struct JobOf final : Job {
    using Value = R;
    template <typename G>  // NOLINTNEXTLINE(bugprone-forwarding-reference-overload): made once
    explicit JobOf(G&& f) : fn(std::forward<G>(f)) {}
    void run() override { value.emplace(fn()); }
    F fn;
    std::optional<R> value;
  };
  class OffloadAwaiter {
   public:
    OffloadAwaiter(Loop& loop, std::shared_ptr<Job> job) : loop_(loop), job_(std::move(job)) {}
    OffloadAwaiter(const OffloadAwaiter&) = delete;
    OffloadAwaiter& operator=(const OffloadAwaiter&) = delete;
    ~OffloadAwaiter() {
      job_->abandoned = true;
      job_->waiter = {};
    }
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> self) {
      job_->waiter = self;
      loop_.run_on_worker(job_);
    }
    void await_resume() const noexcept {}

   private:
    Loop& loop_;
    std::shared_ptr<Job> job_;
  };
  template <typename J>
  Task<typename J::Value> await_job(std::shared_ptr<J> job) {
    OffloadAwaiter awaiter(*this, job);
    co_await awaiter;
    co_return std::move(*job->value);
  }
};

/// Wakes coroutines. set() wakes all who wait and lets later waits pass until reset().
/// Woken coroutines run from the loop, never inside set().
class Event {
 public:
  explicit Event(Loop& loop);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void set();
  void reset();
  [[nodiscard]] bool is_set() const;
  Task<void> wait();
  /// False after `timeout` without set().
  Task<bool> wait_for(Milliseconds timeout);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Awaits `task`, stores what it gives, then sets `done`: for a caller that starts this and does
/// something else meanwhile. All three outlive the Task that this returns; destroying that earlier
/// ends the waiting.
template <typename T>
Task<void> store_and_set(Task<T>& task, std::optional<T>& value, Event& done) {
  value.emplace(co_await task);
  done.set();
}

/// The task's value, or nullopt when `limit` passes first: the task is destroyed then.
template <typename T>
Task<std::optional<T>> within(Loop& loop, Milliseconds limit, Task<T> task) {
  std::optional<T> value;
  Event done(loop);
  Task<void> runner = store_and_set(task, value, done);
  runner.start();
  if (!done.is_set()) {
    co_await done.wait_for(limit);
  }
  co_return std::move(value);
}

/// An unbounded queue between coroutines of one loop; bound it by what you push.
template <typename T>
class Queue {
 public:
  explicit Queue(Loop& loop) : ready_(loop) {}
  void push(T value) {
    items_.push_back(std::move(value));
    ready_.set();
  }
  [[nodiscard]] std::size_t size() const { return items_.size(); }
  /// After close(), pop() answers what is left, then nullopt.
  void close() {
    closed_ = true;
    ready_.set();
  }
  Task<std::optional<T>> pop() {
    while (items_.empty()) {
      if (closed_) {
        co_return std::nullopt;
      }
      ready_.reset();
      co_await ready_.wait();
    }
    std::optional<T> value(std::move(items_.front()));
    items_.pop_front();
    co_return value;
  }

 private:
  std::deque<T> items_;
  Event ready_;
  bool closed_ = false;
};

}  // namespace goblin::net
