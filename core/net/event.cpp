// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <list>

#include "core/net/reactor.hpp"

namespace goblin::net {

namespace {

/// A coroutine that waits for a callback; lives in its frame, so it goes when the frame goes.
struct Waiter {
  std::coroutine_handle<> handle;
  std::list<Waiter*>* list = nullptr;  ///< where it stands: waiting, then woken
  std::list<Waiter*>::iterator place;
  bool timed_out = false;

  void enter(std::list<Waiter*>& target) {
    list = &target;
    place = target.insert(target.end(), this);
  }
  void leave() {
    if (list != nullptr) {
      list->erase(place);
      list = nullptr;
    }
  }
};

}  // namespace

struct Event::State : std::enable_shared_from_this<Event::State> {
  explicit State(Loop& l) : loop(l) {}

  Loop& loop;
  bool is_set = false;
  bool wake_posted = false;
  std::list<Waiter*> waiting, woken;

  void set() {
    is_set = true;
    if (waiting.empty()) {
      return;
    }
    for (Waiter* waiter : waiting) {
      waiter->list = &woken;
    }
    woken.splice(woken.end(), waiting);
    if (!wake_posted) {
      wake_posted = true;
      loop.post([self = shared_from_this()] { self->wake(); });
    }
  }

  void wake() {
    wake_posted = false;
    // One that wakes may destroy others, or wait again: those stand in `waiting` by then.
    while (!woken.empty()) {
      Waiter* waiter = woken.front();
      waiter->leave();
      waiter->handle.resume();
    }
  }
};

namespace {

class EventAwaiter {
 public:
  EventAwaiter(std::list<Waiter*>& waiting, Timer* timer, TimePoint deadline)
      : waiting_(waiting), timer_(timer), deadline_(deadline) {}
  EventAwaiter(const EventAwaiter&) = delete;
  EventAwaiter& operator=(const EventAwaiter&) = delete;
  ~EventAwaiter() { waiter_.leave(); }

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> self) {
    waiter_.handle = self;
    waiter_.enter(waiting_);
    if (timer_ != nullptr) {
      timer_->start(deadline_, [this] {
        // Already woken: set() came first.
        if (waiter_.list == &waiting_) {
          waiter_.timed_out = true;
          waiter_.leave();
          waiter_.handle.resume();
        }
      });
    }
  }
  bool await_resume() const noexcept { return !waiter_.timed_out; }

 private:
  std::list<Waiter*>& waiting_;
  Timer* timer_;
  TimePoint deadline_;
  Waiter waiter_;
};

}  // namespace

Event::Event(Loop& loop) : state_(std::make_shared<State>(loop)) {}
Event::~Event() = default;
void Event::set() { state_->set(); }
void Event::reset() { state_->is_set = false; }
bool Event::is_set() const { return state_->is_set; }

Task<void> Event::wait() {
  const std::shared_ptr<State> state = state_;
  if (!state->is_set) {
    EventAwaiter awaiter(state->waiting, nullptr, {});
    co_await awaiter;
  }
}

Task<bool> Event::wait_for(Milliseconds timeout) {
  const std::shared_ptr<State> state = state_;
  if (state->is_set) {
    co_return true;
  }
  const std::unique_ptr<Timer> timer = reactor(state->loop).timer();
  EventAwaiter awaiter(state->waiting, timer.get(), state->loop.now() + timeout);
  const bool woken = co_await awaiter;
  co_return woken;
}

namespace {

class ReadyAwaiter {
 public:
  ReadyAwaiter(Reactor& loop, FdWatch& watch, Readiness what, std::optional<TimePoint> deadline)
      : watch_(watch), what_(what), deadline_(deadline) {
    if (deadline) {
      timer_ = loop.timer();
    }
  }
  ReadyAwaiter(const ReadyAwaiter&) = delete;
  ReadyAwaiter& operator=(const ReadyAwaiter&) = delete;
  ~ReadyAwaiter() {
    if (pending_) {
      arm(nullptr);
    }
  }

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> self) {
    handle_ = self;
    pending_ = true;
    if (timer_) {
      timer_->start(*deadline_, [this] {
        arm(nullptr);
        finish(false);
      });
    }
    arm([this] {
      if (timer_) {
        timer_->cancel();
      }
      finish(true);
    });
  }
  bool await_resume() const noexcept { return ready_; }

 private:
  void arm(std::function<void()> fn) {
    if (what_ == Readiness::kRead) {
      watch_.on_readable(std::move(fn));
    } else {
      watch_.on_writable(std::move(fn));
    }
  }
  void finish(bool ready) {
    pending_ = false;
    ready_ = ready;
    handle_.resume();
  }

  FdWatch& watch_;
  Readiness what_;
  std::optional<TimePoint> deadline_;
  std::unique_ptr<Timer> timer_;
  std::coroutine_handle<> handle_;
  bool pending_ = false;
  bool ready_ = false;
};

}  // namespace

Task<bool> wait_ready(Reactor& loop, FdWatch& watch, Readiness what,
                      std::optional<TimePoint> deadline) {
  ReadyAwaiter awaiter(loop, watch, what, deadline);
  const bool ready = co_await awaiter;
  co_return ready;
}

}  // namespace goblin::net
