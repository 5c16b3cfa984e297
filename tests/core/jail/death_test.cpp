// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Daemon, spawner and runner are killed at any time: no runner is left, and none is left behind by
// a plugin that tried.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>

#include "core/jail/sanitized.hpp"
#include "tests/core/plugin/runner_fixture.hpp"
#include "tests/testing/plugins/faulty_modes.hpp"

namespace goblin::testing {
namespace {

constexpr int kPatienceMs = 60'000;

/// Waits until the process that `pidfd` names is gone.
bool ends(const net::UniqueFd& pidfd) {
  pollfd wait{pidfd.get(), POLLIN, 0};
  return ::poll(&wait, 1, kPatienceMs) == 1;
}

net::UniqueFd open_process(pid_t pid) {
  return net::UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

/// The parent of a process, by /proc.
pid_t parent_of(pid_t pid) {
  std::FILE* file = std::fopen(("/proc/" + std::to_string(pid) + "/status").c_str(), "re");
  char line[256];
  int parent = 0;
  while (file != nullptr && parent == 0 && std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "PPid: %d", &parent) != 1) {
      parent = 0;
    }
  }
  if (file != nullptr) {
    std::fclose(file);
  }
  return parent;
}

class Death : public RunnerFixture {
 protected:
  Death() : memory_(8192) {}

  static wire::RunnerTask hang(std::uint32_t segment) {
    wire::RunnerTask task;
    task.params = {wire::Value::of(std::int64_t{kExecuteHang})};
    task.inputs = {vector_at(segment, 0, 8)};
    task.outputs = {vector_at(segment, 4096, 8)};
    return task;
  }

  /// A child process that is a daemon: starts a runner, has it compute without end, tells its
  /// number, and waits to be killed.
  struct Daemon {
    pid_t pid = 0;
    pid_t runner = 0;
  };
  Daemon start_daemon() {
    int fds[2];
    EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(fds[0]);
      run([&]() -> net::Task<void> {
        auto client = co_await start("faulty", options());
        if (!client) {
          ::_exit(1);
        }
        const auto segment = co_await (*client)->map(memory_.fd(), memory_.size(), true);
        auto work = [&]() -> net::Task<void> {
          const wire::Execute request = batch(hang(*segment));
          (void)co_await (*client)->execute(request, std::chrono::hours(1));
        };
        loop_->spawn(work());
        const std::atomic_ref begun(memory_.as<double>(4096)[0]);
        while (begun.load() == 0) {
          co_await loop_->sleep(net::Milliseconds(1));
        }
        const pid_t runner = (*client)->pid();
        if (::write(fds[1], &runner, sizeof runner) != sizeof runner) {
          ::_exit(1);
        }
        co_await (*client)->exited();
        ::_exit(2);
      });
      ::_exit(3);
    }
    ::close(fds[1]);
    Daemon daemon{child, 0};
    EXPECT_EQ(::read(fds[0], &daemon.runner, sizeof daemon.runner),
              static_cast<ssize_t>(sizeof daemon.runner));
    ::close(fds[0]);
    return daemon;
  }

  SharedMemory memory_;
};

TEST_F(Death, OfTheDaemonLeavesNoRunner) {
  const Daemon daemon = start_daemon();
  ASSERT_GT(daemon.runner, 0);
  const net::UniqueFd runner = open_process(daemon.runner);
  const net::UniqueFd spawner = open_process(parent_of(daemon.runner));
  ASSERT_TRUE(runner);
  ASSERT_TRUE(spawner);
  ::kill(daemon.pid, SIGKILL);
  ::waitpid(daemon.pid, nullptr, 0);
  EXPECT_TRUE(ends(runner));
  EXPECT_TRUE(ends(spawner));
}

TEST_F(Death, OfTheSpawnerLeavesNoRunner) {
  if (jail::kSanitized) {
    GTEST_SKIP() << "a build with a sanitizer has no spawner";
  }
  const Daemon daemon = start_daemon();
  ASSERT_GT(daemon.runner, 0);
  const net::UniqueFd runner = open_process(daemon.runner);
  const pid_t spawner = parent_of(daemon.runner);
  ASSERT_EQ(parent_of(spawner), daemon.pid);
  ASSERT_TRUE(runner);
  ::kill(spawner, SIGKILL);
  EXPECT_TRUE(ends(runner));
  int status = 0;
  ::waitpid(daemon.pid, &status, 0);  // it notices, and ends
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2);
}

TEST_F(Death, OfTheRunnerLeavesNoSpawner) {
  const Daemon daemon = start_daemon();
  ASSERT_GT(daemon.runner, 0);
  const net::UniqueFd spawner = open_process(parent_of(daemon.runner));
  ASSERT_TRUE(spawner);
  ::kill(daemon.runner, SIGKILL);
  EXPECT_TRUE(ends(spawner));
  int status = 0;
  ::waitpid(daemon.pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2);
}

}  // namespace
}  // namespace goblin::testing
