// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The event loop of a daemon: one thread runs every coroutine; a small pool does what would block.
// Asio stays behind this header.
#pragma once

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

/// Thread-safe: run, stop, post. All else: only from the loop's thread (inside run()).
class Loop {
 public:
  /// `workers`: threads for offload, at least 1.
  static Result<std::unique_ptr<Loop>> create(unsigned workers = 2);
  virtual ~Loop() = default;

  /// Runs until stop(). Then every spawned coroutine that is still suspended is destroyed.
  virtual void run() = 0;
  virtual void stop() = 0;
  /// Runs `fn` on the loop's thread soon; never inside this call.
  virtual void post(std::function<void()> fn) = 0;

  /// Starts a coroutine that nobody awaits; the loop owns it until it ends.
  virtual void spawn(Task<void> task) = 0;
  virtual TimePoint now() const = 0;
  virtual Task<void> sleep(Milliseconds duration) = 0;
  /// Completes when SIGINT or SIGTERM arrives; answers the signal's number.
  virtual Task<int> signal() = 0;
  /// Completes when `fd` is readable (a pidfd, an eventfd). The caller keeps it open meanwhile.
  virtual Task<Result<void>> readable(int fd) = 0;

  /// Runs `fn` on a worker thread and comes back with what it returns (not void).
  template <typename F, typename R = std::invoke_result_t<F&>>
  Task<R> offload(F fn) {
    std::optional<R> value;
    co_await OffloadAwaiter{*this, [&] { value.emplace(fn()); }};
    co_return std::move(*value);
  }

 protected:
  /// Runs `work` on a worker, then `done` on the loop's thread.
  virtual void run_on_worker(std::function<void()> work, std::function<void()> done) = 0;

 private:
  struct OffloadAwaiter {
    Loop& loop;
    std::function<void()> work;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> self) {
      loop.run_on_worker(std::move(work), [self] { self.resume(); });
    }
    void await_resume() const noexcept {}
  };
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
