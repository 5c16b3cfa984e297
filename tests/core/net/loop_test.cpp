// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/net/loop.hpp"

#include <signal.h>
#include <sys/eventfd.h>

#include <future>
#include <thread>

#include "core/net/sha256.hpp"
#include "net_test.hpp"

namespace goblin::net {
namespace {

/// Opens a gate when a coroutine's frame goes.
struct Opens {
  explicit Opens(std::promise<void>& opened) : gate(opened) {}
  ~Opens() { gate.set_value(); }
  Opens(const Opens&) = delete;
  Opens& operator=(const Opens&) = delete;
  std::promise<void>& gate;
};

/// Says when a coroutine's frame goes.
struct Gone {
  explicit Gone(bool& told) : flag(told) {}
  ~Gone() { flag = true; }
  Gone(const Gone&) = delete;
  Gone& operator=(const Gone&) = delete;
  bool& flag;
};

TEST_F(NetTest, CreateRefusesNoWorkers) {
  auto loop = Loop::create(0);
  ASSERT_FALSE(loop);
  EXPECT_EQ(loop.error().code, Code::kInvalidArgument);
}

Task<int> number(int n) { co_return n; }

TEST_F(NetTest, AwaitsThatEndAtOnceNeedNoStack) {
  run([](Loop& loop) -> Task<void> {
    std::int64_t sum = 0;
    for (int i = 0; i < 1'000'000; ++i) {
      sum += co_await number(i);
    }
    EXPECT_EQ(sum, 499'999'500'000);
    Queue<int> queue(loop);
    for (int i = 0; i < 100'000; ++i) {
      queue.push(i);
    }
    queue.close();
    int popped = 0;
    while (const auto item = co_await queue.pop()) {
      ++popped;
    }
    EXPECT_EQ(popped, 100'000);
  }(loop()));
}

TEST_F(NetTest, SleepKeepsOrder) {
  std::vector<int> order;
  auto sleeper = [](Loop& loop, std::vector<int>& out, int ms) -> Task<void> {
    co_await loop.sleep(Milliseconds(ms));
    out.push_back(ms);
  };
  loop().spawn(sleeper(loop(), order, 20));
  loop().spawn(sleeper(loop(), order, 1));
  run(sleeper(loop(), order, 40));
  EXPECT_EQ(order, (std::vector<int>{1, 20, 40}));
}

TEST_F(NetTest, OffloadRunsElsewhereAndComesBack) {
  run([](Loop& loop) -> Task<void> {
    const auto here = std::this_thread::get_id();
    const auto there = co_await loop.offload([] { return std::this_thread::get_id(); });
    EXPECT_NE(there, here);
    EXPECT_EQ(std::this_thread::get_id(), here);
  }(loop()));
}

TEST_F(NetTest, DestroyWhileOffloadRuns) {
  std::promise<void> started, release;
  auto kept = std::make_shared<int>(7);
  bool resumed = false;
  auto work = [](Loop& loop, std::promise<void>& began, std::shared_future<void> go,
                 std::shared_ptr<int> value, bool& came_back) -> Task<void> {
    auto blocked = [&began, go, value] {
      began.set_value();
      go.wait();
      return *value;
    };
    co_await loop.offload(std::as_const(blocked));
    came_back = true;
  };
  Task<void> task = work(loop(), started, release.get_future().share(), kept, resumed);
  run([](Loop& loop, Task<void>& victim, std::promise<void>& began, std::promise<void>& go,
         std::shared_ptr<int>& value) -> Task<void> {
    victim.start();
    began.get_future().wait();
    victim = Task<void>();
    go.set_value();
    // The worker's queue is in order: when both have answered, the first is done.
    Task<int> one = loop.offload([] { return 1; });
    Task<int> two = loop.offload([] { return 1; });
    one.start();
    two.start();
    co_await one;
    co_await two;
    while (value.use_count() != 1) {
      co_await loop.offload([] { return 0; });
    }
  }(loop(), task, started, release, kept));
  EXPECT_FALSE(resumed);
  EXPECT_EQ(kept.use_count(), 1);
}

TEST_F(NetTest, DestroyedBeforeAWorkerIsFreeNeverStarts) {
  std::promise<void> release;
  std::shared_future<void> go = release.get_future().share();
  std::atomic<bool> ran{false};
  run([](Loop& loop, std::shared_future<void> wait, std::promise<void>& open,
         std::atomic<bool>& flag) -> Task<void> {
    auto block = [wait] {
      wait.wait();
      return 0;
    };
    Task<int> a = loop.offload(block);
    Task<int> b = loop.offload(block);  // both workers are busy
    Task<int> c = loop.offload([&flag] {
      flag = true;
      return 0;
    });
    a.start();
    b.start();
    c.start();
    c = Task<int>();
    open.set_value();
    co_await a;
    co_await b;
    co_await loop.offload([] { return 0; });
  }(loop(), go, release, ran));
  EXPECT_FALSE(ran);
}

TEST_F(NetTest, EventWakesAllAndStaysSet) {
  Event event(loop());
  int woken = 0;
  auto waiter = [](Event& e, int& n) -> Task<void> {
    co_await e.wait();
    ++n;
  };
  for (int i = 0; i < 3; ++i) {
    loop().spawn(waiter(event, woken));
  }
  run([](Loop& loop, Event& e, int& n) -> Task<void> {
    co_await settle(loop);
    e.set();
    EXPECT_EQ(n, 0) << "woken inside set()";
    co_await settle(loop);
    EXPECT_EQ(n, 3);
    co_await e.wait();
    const bool again = co_await e.wait_for(Milliseconds(0));
    EXPECT_TRUE(again);
    e.reset();
    const bool timed = co_await e.wait_for(Milliseconds(1));
    EXPECT_FALSE(timed);
  }(loop(), event, woken));
}

TEST_F(NetTest, DestroyWaitersOfAnEvent) {
  run([](Loop& loop) -> Task<void> {
    auto event = std::make_unique<Event>(loop);
    bool first_gone = false, second_gone = false;
    auto waiter = [](Event& e, bool& gone) -> Task<void> {
      const Gone guard(gone);
      const bool never = co_await e.wait_for(Milliseconds(1));
      ADD_FAILURE() << "resumed " << never;
    };
    Task<void> waiting = waiter(*event, first_gone);
    Task<void> woken = waiter(*event, second_gone);
    waiting.start();
    waiting = Task<void>();
    EXPECT_TRUE(first_gone);
    woken.start();
    event->set();  // its wake-up is posted, and must not find it
    woken = Task<void>();
    EXPECT_TRUE(second_gone);
    event.reset();
    co_await loop.sleep(Milliseconds(3));  // past their deadlines
  }(loop()));
}

TEST_F(NetTest, OneThatWakesMayDestroyTheNext) {
  run([](Loop& loop) -> Task<void> {
    Event event(loop);
    Task<void> second;
    bool second_gone = false;
    auto killer = [](Event& e, Task<void>& victim) -> Task<void> {
      co_await e.wait();
      victim = Task<void>();
    };
    auto waiter = [](Event& e, bool& gone) -> Task<void> {
      const Gone guard(gone);
      co_await e.wait();
      ADD_FAILURE() << "resumed";
    };
    Task<void> first = killer(event, second);
    second = waiter(event, second_gone);
    first.start();
    second.start();
    event.set();
    co_await first;
    EXPECT_TRUE(second_gone);
  }(loop()));
}

TEST_F(NetTest, StopDestroysWhatIsSuspended) {
  bool gone = false, inner_gone = false;
  auto inner = [](Loop& loop, bool& flag) -> Task<void> {
    const Gone guard(flag);
    co_await loop.sleep(Milliseconds(1'000'000));
  };
  loop().spawn([](Loop&, bool& flag, Task<void> child) -> Task<void> {
    const Gone guard(flag);
    co_await child;
  }(loop(), gone, inner(loop(), inner_gone)));
  run(settle(loop()));
  EXPECT_TRUE(gone);
  EXPECT_TRUE(inner_gone);
}

/// What a worker uses may go once run() has returned.
TEST_F(NetTest, StopWaitsForWhatRunsOnAWorker) {
  std::promise<void> started, frame_gone;
  std::atomic<bool> ended{false};
  auto kept = std::make_shared<int>(7);
  auto work = [](Loop& loop, std::promise<void>& began, std::promise<void>& gate,
                 std::atomic<bool>& done, std::shared_ptr<int> value) -> Task<void> {
    const Opens opens(gate);
    auto blocked = [&began, go = gate.get_future().share(), &done, value] {
      began.set_value();
      go.wait();  // opens when run() has little left to do
      const auto digest = sha256(filled(32u << 20, 5));
      done = true;
      return digest;
    };
    co_await loop.offload(blocked);
    ADD_FAILURE() << "resumed";
  };
  loop().spawn(work(loop(), started, frame_gone, ended, kept));
  run([](Loop& loop, std::promise<void>& began) -> Task<void> {
    co_await loop.sleep(Milliseconds(0));
    began.get_future().wait();
  }(loop(), started));
  EXPECT_TRUE(ended);
  EXPECT_EQ(kept.use_count(), 1) << "the function itself has gone, too";
}

TEST_F(NetTest, StopDropsWhatWaitsForAWorkerButNotForOthers) {
  auto other = std::move(*Loop::create(1));
  std::promise<void> release;
  std::atomic<bool> dropped_ran{false};
  std::atomic<bool> kept_ran{false};
  auto block = [go = release.get_future().share()] {
    go.wait();
    return 0;
  };
  auto spawned = [](Loop& loop, std::atomic<bool>& ran, std::promise<void>& open) -> Task<void> {
    const Opens opens(open);
    co_await loop.offload([&ran] {
      ran = true;
      return 0;
    });
  };
  Task<int> first = other->offload(block);
  Task<int> mine = other->offload([&kept_ran] {
    kept_ran = true;
    return 5;
  });
  first.start();  // the one worker is busy
  other->spawn(spawned(*other, dropped_ran, release));
  auto script = [](Loop& loop, Task<int>& held) -> Task<void> {
    held.start();
    loop.stop();
    co_return;
  };
  other->spawn(script(*other, mine));
  other->run();
  EXPECT_FALSE(dropped_ran);
  EXPECT_TRUE(kept_ran) << "its owner lives on";
  // Its answer waits for the next run.
  auto take = [](Loop& loop, Task<int>& held) -> Task<void> {
    const int five = co_await held;
    EXPECT_EQ(five, 5);
    loop.stop();
  };
  other->spawn(take(*other, mine));
  other->run();
}

TEST_F(NetTest, NeverStartedTasksGoToo) {
  bool gone = false;
  {
    auto other = std::move(*Loop::create(1));
    auto holder = std::make_shared<Gone>(gone);
    other->spawn([](std::shared_ptr<Gone>) -> Task<void> { co_return; }(std::move(holder)));
    other->stop();
    other->run();
  }
  EXPECT_TRUE(gone);
}

TEST_F(NetTest, PostFromAnotherThread) {
  std::thread other;
  run([](Loop& loop, std::thread& thread) -> Task<void> {
    Event event(loop);
    thread = std::thread([&loop, &event] { loop.post([&event] { event.set(); }); });
    co_await event.wait();
  }(loop(), other));
  other.join();
}

TEST_F(NetTest, Within) {
  run([](Loop& loop) -> Task<void> {
    const auto quick = co_await within(loop, Milliseconds(1000), number(5));
    EXPECT_EQ(quick, 5);
    auto slow = [](Loop& l) -> Task<int> {
      co_await l.sleep(Milliseconds(1'000'000));
      co_return 1;
    };
    const auto late = co_await within(loop, Milliseconds(1), slow(loop));
    EXPECT_EQ(late, std::nullopt);
    auto medium = [](Loop& l) -> Task<int> {
      co_await l.sleep(Milliseconds(1));
      co_return 2;
    };
    const auto done = co_await within(loop, Milliseconds(10'000), medium(loop));
    EXPECT_EQ(done, 2);
  }(loop()));
}

TEST_F(NetTest, SignalsArriveInOrder) {
  run([](Loop& loop) -> Task<void> {
    Task<int> first = loop.signal();
    first.start();
    ::raise(SIGTERM);
    const int one = co_await first;
    EXPECT_EQ(one, SIGTERM);
    ::raise(SIGINT);  // nobody waits: kept for the next
    co_await settle(loop);
    const int two = co_await loop.signal();
    EXPECT_EQ(two, SIGINT);
  }(loop()));
}

TEST_F(NetTest, Readable) {
  const UniqueFd fd(::eventfd(0, EFD_CLOEXEC));
  run([](Loop& loop, int event) -> Task<void> {
    Task<Result<void>> destroyed = loop.readable(event);
    destroyed.start();
    destroyed = Task<Result<void>>();
    Task<Result<void>> waiting = loop.readable(event);
    waiting.start();
    EXPECT_FALSE(waiting.done());
    EXPECT_EQ(::eventfd_write(event, 1), 0);
    auto ready = co_await waiting;
    EXPECT_TRUE(ready);
    EXPECT_EQ(::fcntl(event, F_GETFL) & O_NONBLOCK, 0);
    auto bad = co_await loop.readable(-1);
    expect_error(bad, Code::kInvalidArgument, "descriptor -1");
  }(loop(), fd.get()));
}

TEST(Backoff, StaysBetweenFirstAndLastAndGrows) {
  Backoff backoff(42);
  std::int64_t most = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto delay = backoff.next();
    const std::int64_t ceiling = i < 9 ? 200 << (i + 1) : 60'000;
    EXPECT_GE(delay.count(), 200);
    EXPECT_LE(delay.count(), std::min<std::int64_t>(ceiling, 60'000));
    most = std::max(most, delay.count());
  }
  EXPECT_GT(most, 50'000);
  backoff.reset();
  EXPECT_LE(backoff.next().count(), 400);
  EXPECT_NE(Backoff(1).next(), Backoff(2).next());
}

}  // namespace
}  // namespace goblin::net
