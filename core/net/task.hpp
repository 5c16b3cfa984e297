// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Task<T>: a lazy coroutine that its owner holds. It starts when awaited (or by start()), runs on
// the loop's thread, and is destroyed, with everything suspended inside it, when its Task is
// destroyed; that is how work is cancelled, and it is safe wherever the coroutine waits. A running
// coroutine must not destroy its own Task.
// Coroutines here do not throw: an exception that leaves one ends the process.
//
// GCC 12 destroys twice a temporary that is made by braces or by a lambda expression inside a
// co_await expression, unless its destruction is trivial (GCC bug 99576 and kin). So name such a
// function or struct first, or name the task:
//   auto hash = [source] { return hash_of(*source); };    // not: co_await loop.offload([source] …)
//   co_await loop.offload(hash);
// It also loses the way when a condition is nothing but a co_await expression, negated or not: the
// coroutine hangs or traps. scripts/lint refuses that form:
//   if (const auto sent = co_await channel.send(frame); !sent)   // not: if (!co_await channel…)
//
// Where functions here take one, kSafeInAwait refuses the dangerous form at compile time. It also
// copies what a function call returns by reference: `Task<T>& one = tasks[i]; co_await one;`.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

namespace goblin::net {

template <typename T>
class [[nodiscard]] Task;

/// For a forwarding parameter `F&&`: false for a temporary that the bug above would destroy twice.
template <typename F>
inline constexpr bool kSafeInAwait =
    std::is_lvalue_reference_v<F> || std::is_trivially_destructible_v<std::remove_cvref_t<F>>;

namespace detail {

struct PromiseBase {
  std::coroutine_handle<> continuation = std::noop_coroutine();
  bool started = false;
  /// Its awaiter is still inside await_suspend: it goes on by itself when we end now. Keeps the
  /// stack flat where many awaits end at once, also without tail calls (debug, sanitizers).
  bool awaiter_running = false;

  std::suspend_always initial_suspend() noexcept { return {}; }
  struct Final {
    bool await_ready() noexcept { return false; }
    template <typename P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> self) noexcept {
      auto& promise = self.promise();
      return promise.awaiter_running ? std::noop_coroutine() : promise.continuation;
    }
    void await_resume() noexcept {}
  };
  Final final_suspend() noexcept { return {}; }
  [[noreturn]] void unhandled_exception() noexcept { std::terminate(); }
};

template <typename T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object() noexcept;
  template <typename U = T>
  void return_value(U&& v) {
    value.emplace(std::forward<U>(v));
  }
  T take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object() noexcept;
  void return_void() noexcept {}
  void take() noexcept {}
};

}  // namespace detail

template <typename T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      destroy();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() { destroy(); }

  /// Runs it up to its first suspension, beside the caller; await it later or destroy it. Whoever
  /// never awaits it learns nothing of its end.
  void start() {
    handle_.promise().started = true;
    handle_.resume();
  }
  [[nodiscard]] bool valid() const { return static_cast<bool>(handle_); }
  [[nodiscard]] bool done() const { return handle_ && handle_.done(); }

  bool await_ready() const noexcept { return handle_.done(); }
  bool await_suspend(std::coroutine_handle<> awaiter) noexcept {
    auto& promise = handle_.promise();
    promise.continuation = awaiter;
    if (!promise.started) {
      promise.started = true;
      promise.awaiter_running = true;
      handle_.resume();
      if (handle_.done()) {
        return false;
      }
      promise.awaiter_running = false;
    }
    return true;
  }
  T await_resume() { return handle_.promise().take(); }

 private:
  void destroy() {
    if (handle_) {
      std::exchange(handle_, {}).destroy();
    }
  }
  Handle handle_;
};

template <typename T>
Task<T> detail::Promise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> detail::Promise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}

}  // namespace goblin::net
