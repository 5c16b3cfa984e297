// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "backends/cpu/workers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace goblin::backends::cpu {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLong = std::chrono::seconds(30);

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;  // neither threads after fork() nor small address spaces
#else
constexpr bool kSanitized = false;
#endif

/// Waits until `ready`; false after a long time.
template <class Ready>
bool wait_for(const Ready& ready) {
  const auto end = Clock::now() + kLong;
  while (!ready()) {
    if (Clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

struct Member {
  pid_t tid;
  clockid_t clock;
  friend bool operator<(const Member& x, const Member& y) { return x.tid < y.tid; }
};

/// One call whose bodies wait for each other, so that all of them take part.
std::set<Member> meet(Workers& workers, std::int64_t threads) {
  std::mutex mutex;
  std::set<Member> members;
  std::atomic<std::int64_t> arrived{0};
  std::atomic<bool> late{false};
  workers.run(threads, [&](std::int64_t) noexcept {
    Member me{gettid(), 0};
    pthread_getcpuclockid(pthread_self(), &me.clock);
    {
      const std::lock_guard lock(mutex);
      members.insert(me);
    }
    ++arrived;
    if (!wait_for([&] { return arrived == threads; })) late = true;
  });
  EXPECT_FALSE(late) << "only " << arrived << " of " << threads << " came";
  return members;
}

TEST(Workers, OneThreadIsTheCallersAndStartsNone) {
  Workers workers;
  EXPECT_EQ(workers.started(), 0);
  int calls = 0;
  const auto me = std::this_thread::get_id();
  workers.run(1, [&](std::int64_t index) noexcept {
    ++calls;
    EXPECT_EQ(index, 0);
    EXPECT_EQ(std::this_thread::get_id(), me);
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(workers.started(), 0);
}

TEST(Workers, ThreadsStayAndGrowToTheLargestCall) {
  Workers workers;
  const std::set<Member> first = meet(workers, 3);
  EXPECT_EQ(first.size(), 3U);
  EXPECT_EQ(workers.started(), 2);
  for (int call = 0; call < 20; ++call) {
    for (const Member& member : meet(workers, 3)) EXPECT_EQ(first.count(member), 1U);
  }
  EXPECT_EQ(meet(workers, 7).size(), 7U);
  EXPECT_EQ(meet(workers, 2).size(), 2U);
  EXPECT_EQ(workers.started(), 6);
}

TEST(Workers, EveryIndexAtMostOnceAndTheCallersAlways) {
  Workers workers;
  for (int call = 0; call < 5000; ++call) {
    const std::int64_t threads = std::array{1, 2, 7}[static_cast<std::size_t>(call % 3)];
    std::array<std::atomic<int>, 7> entered{};
    workers.run(threads, [&](std::int64_t index) noexcept { ++entered.at(index); });
    EXPECT_EQ(entered[0], 1);
    for (std::int64_t index = 1; index < 7; ++index) {
      ASSERT_LE(entered.at(static_cast<std::size_t>(index)), index < threads ? 1 : 0);
    }
  }
}

/// Σ piece over all pieces, by workers that keep sums of their own.
std::int64_t sum_of_pieces(Workers* workers, std::int64_t threads, std::int64_t count) {
  Stop stop;
  std::atomic<std::int64_t> total{0};
  run_pieces(workers, threads, count, stop, [&](std::int64_t) {
    return [&](std::int64_t piece) {
      total.fetch_add(piece, std::memory_order_relaxed);
      return true;
    };
  });
  return total;
}

TEST(Workers, ManyCallersAtOnceGetAllTheirPiecesDone) {
  constexpr std::int64_t kPieces = 50;
  Workers workers;
  std::vector<std::jthread> callers;
  for (int caller = 0; caller < 5; ++caller) {
    callers.emplace_back([&, caller] {
      for (int call = 0; call < 1000; ++call) {
        const std::int64_t threads =
            std::array{1, 2, 7}[static_cast<std::size_t>(call + caller) % 3];
        ASSERT_EQ(sum_of_pieces(&workers, threads, kPieces), kPieces * (kPieces - 1) / 2);
      }
    });
  }
  callers.clear();
  EXPECT_LE(workers.started(), 6);
}

TEST(Workers, WithoutAPoolACallBringsItsOwn) {
  EXPECT_EQ(sum_of_pieces(nullptr, 1, 10), 45);
  EXPECT_EQ(sum_of_pieces(nullptr, 7, 1000), 499'500);
}

TEST(Workers, ACallWhoseHelpersAreBusyDoesNotWaitForThem) {
  Workers workers;
  std::atomic<int> inside{0};
  std::atomic<bool> leave{false};
  std::thread other([&] {
    workers.run(2, [&](std::int64_t) noexcept {
      ++inside;
      wait_for([&] { return leave.load(); });
    });
  });
  EXPECT_TRUE(wait_for([&] { return inside == 2; }));
  EXPECT_EQ(sum_of_pieces(&workers, 2, 100), 4950);
  leave = true;
  other.join();
}

TEST(Workers, StopReachesEveryWorkerAndTheNextCallIsWhole) {
  Workers workers;
  for (int round = 0; round < 200; ++round) {
    Stop stop;
    std::atomic<int> asked{0};
    goblin_exec_v1 exec{};
    exec.context = &asked;
    exec.cancelled = [](void* context) {
      return static_cast<std::atomic<int>*>(context)->fetch_add(1) >= 5 ? 1 : 0;
    };
    std::atomic<std::int64_t> done{0};
    run_pieces(&workers, 7, INT64_MAX / 2, stop, [&](std::int64_t) {
      return [&](std::int64_t) {
        if (stop.asked(&exec)) return false;
        ++done;
        return true;
      };
    });
    EXPECT_TRUE(stop.stopped());
    EXPECT_EQ(done, 5);
    ASSERT_EQ(sum_of_pieces(&workers, 7, 100), 4950);
  }
}

char state_of(pid_t tid) {
  std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name = line.rfind(')');
  return name == std::string::npos ? '?' : line[name + 2];
}

std::int64_t nanoseconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

TEST(Workers, IdleThreadsSleepAndComeBack) {
  Workers workers;
  for (int round = 0; round < 3; ++round) {
    std::vector<Member> others;
    for (const Member& member : meet(workers, 4)) {
      if (member.tid != gettid()) others.push_back(member);
    }
    ASSERT_EQ(others.size(), 3U);
    for (const Member& member : others) {
      // Asleep for good: no processor time while this thread uses 5 ms.
      EXPECT_TRUE(wait_for([&] {
        if (state_of(member.tid) != 'S') return false;
        const std::int64_t used = nanoseconds(member.clock);
        const std::int64_t end = nanoseconds(CLOCK_THREAD_CPUTIME_ID) + 5'000'000;
        while (nanoseconds(CLOCK_THREAD_CPUTIME_ID) < end) {
        }
        return nanoseconds(member.clock) == used;
      })) << "thread "
          << member.tid << " goes on without work";
    }
  }
}  // the destructor meets sleepers

TEST(Workers, SleepersComeBackAndMayUseAllProcessors) {
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  Workers workers;
  for (int round = 0; round < 20; ++round) {
    for (const Member& member : meet(workers, 2)) {
      if (member.tid == gettid()) continue;
      ASSERT_TRUE(wait_for([&] { return state_of(member.tid) == 'S'; }));
      cpu_set_t theirs;
      ASSERT_EQ(sched_getaffinity(member.tid, sizeof theirs, &theirs), 0);
      EXPECT_TRUE(CPU_EQUAL(&mine, &theirs)) << "a worker was left with fewer processors";
    }
  }
}

TEST(Workers, DestroyedRightAfterACall) {
  for (int round = 0; round < 200; ++round) {
    Workers workers;
    EXPECT_EQ(sum_of_pieces(&workers, 1 + round % 7, 20), 190);
  }
}

TEST(Workers, TakeNoSignalsThatTheProgramWaitsFor) {
  Workers workers;
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  const auto me = std::this_thread::get_id();
  std::atomic<int> arrived{0};
  workers.run(2, [&](std::int64_t) noexcept {
    ++arrived;
    EXPECT_TRUE(wait_for([&] { return arrived == 2; }));
    if (std::this_thread::get_id() == me) return;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    for (const int number : {SIGTERM, SIGINT, SIGCHLD, SIGHUP}) {
      EXPECT_EQ(sigismember(&mask, number), 1) << number;
    }
    EXPECT_EQ(sigismember(&mask, SIGSEGV), 0);
  });
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
}

/// Runs `test` in a forked child; its answer is the exit status.
template <class Test>
int in_child(const Test& test) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a child that hangs dies
    _exit(test());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(Workers, AForkedChildComputesWithoutItsParentsThreads) {
  if (kSanitized) GTEST_SKIP() << "sanitizers allow no threads after fork()";
  for (int round = 0; round < 20; ++round) {
    auto workers = std::make_unique<Workers>();
    // In the child the pool's mutex may be held for ever, and its sleepers are remembered.
    std::atomic<bool> leave{false};
    std::thread busy([&] {
      while (!leave) sum_of_pieces(workers.get(), 4, 10);
    });
    meet(*workers, 3);
    EXPECT_EQ(in_child([&] {
                if (workers->started() != 0) return 1;
                if (sum_of_pieces(workers.get(), 4, 1000) != 499'500) return 2;
                if (sum_of_pieces(workers.get(), 1, 1000) != 499'500) return 3;
                workers.reset();
                return 0;
              }),
              0);
    leave = true;
    busy.join();
    EXPECT_EQ(sum_of_pieces(workers.get(), 4, 1000), 499'500);
  }
}

TEST(Workers, WhereNoThreadCanBeStartedTheCallerDoesAll) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need their address space";
  EXPECT_EQ(in_child([] {
              Workers workers;
              // No memory for a stack, and none of those of earlier threads is large enough.
              pthread_attr_t large;
              pthread_attr_init(&large);
              pthread_attr_setstacksize(&large, std::size_t{256} << 20);
              const rlimit nothing{1, 1};
              if (pthread_setattr_default_np(&large) != 0) return 1;
              if (setrlimit(RLIMIT_AS, &nothing) != 0) return 1;
              if (sum_of_pieces(&workers, 7, 1000) != 499'500) return 2;
              return workers.started() == 0 ? 0 : 3;
            }),
            0);
}

}  // namespace
}  // namespace goblin::backends::cpu
