// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The one file that includes Asio.
#define BOOST_ASIO_NO_DEPRECATED
#define BOOST_ASIO_NO_TS_EXECUTORS
// One thread runs all handlers, and what other threads post passes a mutex: no fences are needed.
// ThreadSanitizer does not know them.
#define BOOST_ASIO_DISABLE_FENCED_BLOCK
#include <fcntl.h>
#include <sys/epoll.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <system_error>
#include <unordered_map>

#include "core/net/reactor.hpp"
#include "core/net/unique_fd.hpp"
#include "core/net/workers.hpp"

namespace goblin::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

class AsioWatch final : public FdWatch {
 public:
  AsioWatch(asio::io_context& context, int fd) : state_(std::make_shared<State>(context, fd)) {}
  ~AsioWatch() override {
    state_->read.fn = nullptr;
    state_->write.fn = nullptr;
    state_->descriptor.release();  // the caller owns the descriptor
  }
  void on_readable(std::function<void()> fn) override {
    arm(state_, state_->read, asio::posix::descriptor_base::wait_read, std::move(fn));
  }
  void on_writable(std::function<void()> fn) override {
    arm(state_, state_->write, asio::posix::descriptor_base::wait_write, std::move(fn));
  }

 private:
  struct Side {
    std::function<void()> fn;
    bool armed = false;
  };
  struct State {
    State(asio::io_context& context, int fd) : descriptor(context, fd) {}
    asio::posix::stream_descriptor descriptor;
    Side read, write;
  };

  static void arm(const std::shared_ptr<State>& state, Side& side,
                  asio::posix::descriptor_base::wait_type what, std::function<void()> fn) {
    side.fn = std::move(fn);
    if (!side.fn || side.armed) {
      return;
    }
    side.armed = true;
    state->descriptor.async_wait(what, [state, &side](const error_code&) {
      side.armed = false;
      if (auto call = std::exchange(side.fn, nullptr)) {
        call();
      }
    });
  }

  std::shared_ptr<State> state_;
};

class AsioTimer final : public Timer {
 public:
  explicit AsioTimer(asio::io_context& context) : state_(std::make_shared<State>(context)) {}
  ~AsioTimer() override { cancel(); }
  void start(TimePoint at, std::function<void()> fn) override {
    state_->fn = std::move(fn);
    const std::uint64_t turn = ++state_->turn;
    state_->timer.expires_at(at);
    state_->timer.async_wait([state = state_, turn](const error_code&) {
      if (state->turn == turn && state->fn) {
        std::exchange(state->fn, nullptr)();
      }
    });
  }
  void cancel() override {
    ++state_->turn;
    state_->fn = nullptr;
    state_->timer.cancel();
  }

 private:
  struct State {
    explicit State(asio::io_context& context) : timer(context) {}
    asio::steady_timer timer;
    std::function<void()> fn;
    std::uint64_t turn = 0;
  };
  std::shared_ptr<State> state_;
};

/// Coroutines that nobody awaits, by number.
using Spawned = std::unordered_map<std::uint64_t, std::coroutine_handle<>>;

struct Detached {
  struct promise_type {
    promise_type(Spawned& s, std::uint64_t i, Task<void>&) : spawned(s), id(i) {}
    ~promise_type() { spawned.erase(id); }
    Detached get_return_object() noexcept {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    [[noreturn]] void unhandled_exception() noexcept { std::terminate(); }

    Spawned& spawned;
    std::uint64_t id;
  };
  std::coroutine_handle<promise_type> handle;
};

Detached detach(Spawned&, std::uint64_t, Task<void> task) { co_await task; }

class AsioLoop final : public Reactor {
 public:
  explicit AsioLoop(unsigned workers)
      : work_(context_.get_executor()), workers_(std::make_unique<Workers>(workers)) {}
  ~AsioLoop() override {
    workers_.reset();
    destroy_spawned();
    signals_.reset();
  }

  void run() override {
    context_.run();
    destroy_spawned();
    // What workers use may go once this returns. Jobs that nobody waits for now never start.
    workers_->drain();
    drop_abandoned();
    context_.restart();
  }
  void stop() override { context_.stop(); }
  void post(std::function<void()> fn) override { asio::post(context_, std::move(fn)); }
  TimePoint now() const override { return std::chrono::steady_clock::now(); }

  void spawn(Task<void> task) override {
    const std::uint64_t id = next_id_++;
    spawned_.emplace(id, detach(spawned_, id, std::move(task)).handle);
    post([this, id] {
      if (auto found = spawned_.find(id); found != spawned_.end()) {
        found->second.resume();
      }
    });
  }

  Task<void> sleep(Milliseconds duration) override {
    Event never(*this);
    co_await never.wait_for(duration);
  }

  Task<int> signal() override {
    if (!signals_) {
      signals_ = std::make_unique<Signals>(*this);
      signals_->wait();
    }
    const std::optional<int> number = co_await signals_->arrived.pop();
    co_return number.value_or(0);
  }

  Task<Result<void>> readable(int fd) override {
    // Through an epoll of our own: watching would make the caller's descriptor non-blocking, for
    // all who share it.
    const UniqueFd nest(epoll_create1(EPOLL_CLOEXEC));
    epoll_event event{};
    event.events = EPOLLIN;
    if (!nest || epoll_ctl(nest.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      co_return fail(errno == EMFILE || errno == ENFILE ? Code::kExhausted : Code::kInvalidArgument,
                     "cannot watch descriptor " + std::to_string(fd) + ": " +
                         std::generic_category().message(errno));
    }
    GOBLIN_CO_TRY(const std::unique_ptr<FdWatch> watched, watch(nest.get()));
    co_await wait_ready(*this, *watched, Readiness::kRead, std::nullopt);
    co_return {};
  }

  Result<std::unique_ptr<FdWatch>> watch(int fd) override {
    try {
      return std::make_unique<AsioWatch>(context_, fd);
    } catch (const boost::system::system_error& error) {
      return fail(Code::kExhausted,
                  "cannot watch descriptor " + std::to_string(fd) + ": " + error.code().message());
    }
  }
  std::unique_ptr<Timer> timer() override { return std::make_unique<AsioTimer>(context_); }

 protected:
  void run_on_worker(std::shared_ptr<Job> job) override {
    workers_->run([this, job = std::move(job)]() mutable {
      if (!job->abandoned) {
        job->run();
      }
      // The loop's thread drops the last reference, too.
      {
        const std::lock_guard lock(finished_mutex_);
        finished_.push_back(std::move(job));
      }
      asio::post(context_, [this] { resume_finished(); });
    });
  }

 private:
  struct Signals {
    explicit Signals(AsioLoop& loop) : set(loop.context_, SIGINT, SIGTERM), arrived(loop) {}
    void wait() {
      set.async_wait([this](const error_code& error, int number) {
        if (!error) {
          arrived.push(number);
          wait();
        }
      });
    }
    asio::signal_set set;
    Queue<int> arrived;
  };

  void resume_finished() {
    std::shared_ptr<Job> job;
    {
      const std::lock_guard lock(finished_mutex_);
      if (finished_.empty()) {
        return;  // dropped
      }
      job = std::move(finished_.front());
      finished_.pop_front();
    }
    if (job->waiter) {
      job->waiter.resume();
    }
  }

  void drop_abandoned() {
    std::vector<std::shared_ptr<Job>> dropped;
    const std::lock_guard lock(finished_mutex_);
    for (auto& job : finished_) {
      if (job->abandoned) {
        dropped.push_back(std::move(job));
      }
    }
    std::erase(finished_, nullptr);
  }

  void destroy_spawned() {
    // A destructor inside one may end others or spawn more.
    while (!spawned_.empty()) {
      spawned_.begin()->second.destroy();
    }
  }

  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::uint64_t next_id_ = 0;
  Spawned spawned_;
  std::unique_ptr<Signals> signals_;
  std::mutex finished_mutex_;
  std::deque<std::shared_ptr<Job>> finished_;  ///< jobs whose waiters are not resumed yet
  std::unique_ptr<Workers> workers_;
};

}  // namespace

Result<std::unique_ptr<Loop>> Loop::create(unsigned workers) {
  if (workers < 1 || workers > 1024) {
    return fail(Code::kInvalidArgument,
                "workers is " + std::to_string(workers) + "; expected 1 to 1024");
  }
  try {
    return std::make_unique<AsioLoop>(workers);
  } catch (const std::system_error& error) {
    return fail(Code::kExhausted, std::string("cannot start the event loop: ") + error.what());
  }
}

}  // namespace goblin::net
