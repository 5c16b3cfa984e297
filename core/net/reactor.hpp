// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// What core/net itself needs of the loop: readiness of descriptors and timers, as callbacks. For
// this folder's .cpp files only. Asio is behind it, in asio_loop.cpp.
#pragma once

#include <functional>
#include <memory>

#include "core/net/loop.hpp"

namespace goblin::net {

/// Watches one descriptor that the caller owns, and makes it non-blocking. Destroy the watch before
/// the descriptor is closed; no callback runs afterwards, not even one that was due.
class FdWatch {
 public:
  virtual ~FdWatch() = default;
  /// Calls `fn` once, from the loop, when the descriptor is readable or broken; replaces the
  /// callback that still waits. An empty one forgets it.
  virtual void on_readable(std::function<void()> fn) = 0;
  virtual void on_writable(std::function<void()> fn) = 0;
};

/// One deadline at a time. No callback runs after cancel() or destruction.
class Timer {
 public:
  virtual ~Timer() = default;
  virtual void start(TimePoint at, std::function<void()> fn) = 0;
  virtual void cancel() = 0;
};

class Reactor : public Loop {
 public:
  /// kExhausted when the kernel cannot watch it.
  virtual Result<std::unique_ptr<FdWatch>> watch(int fd) = 0;
  virtual std::unique_ptr<Timer> timer() = 0;
};

/// Every Loop is made by Loop::create and is a Reactor.
inline Reactor& reactor(Loop& loop) { return static_cast<Reactor&>(loop); }

/// Waits until the watched descriptor is ready; false when `deadline` comes first. Nobody else may
/// use the same side of the watch meanwhile.
enum class Readiness { kRead, kWrite };
Task<bool> wait_ready(Reactor& loop, FdWatch& watch, Readiness what,
                      std::optional<TimePoint> deadline);

/// Lets everything else that is due run first.
class Yield {
 public:
  explicit Yield(Loop& loop) : loop_(loop), cell_(std::make_shared<std::coroutine_handle<>>()) {}
  Yield(const Yield&) = delete;
  Yield& operator=(const Yield&) = delete;
  ~Yield() { *cell_ = {}; }
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> self) {
    *cell_ = self;
    loop_.post([cell = cell_] {
      if (*cell) {
        cell->resume();
      }
    });
  }
  void await_resume() const noexcept {}

 private:
  Loop& loop_;
  std::shared_ptr<std::coroutine_handle<>> cell_;
};

}  // namespace goblin::net
