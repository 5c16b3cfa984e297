// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Starting programs, and getting at other processes.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <vector>

#include "tests/testing/plugins/jail_probe/probes.hpp"

namespace goblin::testing {
namespace {

pid_t daemon_of(const Target& target) { return static_cast<pid_t>(target.pid); }

/// Of a child that ends at once.
int reaped(long pid) {
  if (pid == 0) {
    ::_exit(0);
  }
  const int error = failed(pid);
  if (pid > 0) {
    ::waitpid(static_cast<pid_t>(pid), nullptr, 0);
  }
  return error;
}

int clones(const Target& /*target*/) {
  return reaped(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

int clone3s(const Target& /*target*/) {
  struct {
    std::uint64_t flags = 0, pidfd = 0, child_tid = 0, parent_tid = 0, exit_signal = SIGCHLD,
                  stack = 0, stack_size = 0, tls = 0;
  } arguments;
  return reaped(::syscall(SYS_clone3, &arguments, sizeof arguments));
}

int spawns(const Target& /*target*/) {
  char program[] = "/bin/true";
  char* arguments[] = {program, nullptr};
  char* variables[] = {nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, program, nullptr, nullptr, arguments, variables);
  if (error == 0) {
    ::waitpid(pid, nullptr, 0);
  }
  return error;
}

/// Only where the caller is a child that may be replaced.
int executes(const Target& /*target*/) {
  char program[] = "/bin/true";
  char* arguments[] = {program, nullptr};
  char* variables[] = {nullptr};
  return failed(::execve(program, arguments, variables));
}

/// 500 threads at once.
int threads_without_end(const Target& /*target*/) {
  constexpr std::size_t kThreads = 500;
  std::mutex closed;
  closed.lock();
  std::vector<pthread_t> threads;
  pthread_attr_t small;
  ::pthread_attr_init(&small);
  ::pthread_attr_setstacksize(&small, 1U << 14);
  int error = 0;
  while (error == 0 && threads.size() < kThreads) {
    pthread_t thread{};
    error = ::pthread_create(
        &thread, &small,
        [](void* mutex) -> void* {
          const std::lock_guard wait(*static_cast<std::mutex*>(mutex));
          return nullptr;
        },
        &closed);
    if (error == 0) {
      threads.push_back(thread);
    }
  }
  closed.unlock();
  for (const pthread_t thread : threads) {
    ::pthread_join(thread, nullptr);
  }
  ::pthread_attr_destroy(&small);
  return error;
}

int reads_memory_of_daemon(const Target& target) {
  char byte = 0;
  iovec here{&byte, 1};
  iovec there{const_cast<char*>("x"), 1};
  return failed(::process_vm_readv(daemon_of(target), &here, 1, &there, 1, 0));
}

int asks_to_be_signalled_for(const Target& target) {
  return failed(::fcntl(STDOUT_FILENO, F_SETOWN, daemon_of(target)));
}

int limits_of_daemon(const Target& target) {
  rlimit limit{};
  return failed(::prlimit(daemon_of(target), RLIMIT_NOFILE, nullptr, &limit));
}

int undo(int option, unsigned long value) { return failed(::prctl(option, value, 0, 0, 0)); }

constexpr Probe kProbes[] = {
    {"forks", "processes", false, true, [](const Target&) { return reaped(::fork()); }},
    {"clones itself", "processes", false, true, clones},
    {"clones itself by clone3", "processes", false, true, clone3s},
    {"forks by the old call", "processes", true, true,
     [](const Target&) {
#if defined(SYS_fork)
       return reaped(::syscall(SYS_fork));
#else
       return reaped(::syscall(SYS_execveat, -1, "", nullptr, nullptr, 0));
#endif
     }},
    {"starts a program", "processes", false, true, spawns},
    {"becomes a program", "processes", true, true, executes},
    {"starts 500 threads", "processes", false, true, threads_without_end},
    {"signals the daemon", "signals", false, true,
     [](const Target& target) { return failed(::kill(daemon_of(target), 0)); }},
    {"signals everybody", "signals", false, true,
     [](const Target&) { return failed(::kill(-1, 0)); }},
    {"signals a thread of the daemon", "signals", false, true,
     [](const Target& target) {
       return failed(::syscall(SYS_tgkill, daemon_of(target), daemon_of(target), 0));
     }},
    {"signals a thread by the old call", "signals", false, true,
     [](const Target& target) { return failed(::syscall(SYS_tkill, daemon_of(target), 0)); }},
    {"opens the daemon's process", "signals", true, true,
     [](const Target& target) {
       const long fd = ::syscall(SYS_pidfd_open, daemon_of(target), 0);
       if (fd >= 0) {
         ::close(static_cast<int>(fd));
       }
       return failed(fd);
     }},
    {"traces the daemon", "signals", true, false,
     [](const Target& target) {
       return failed(::ptrace(PTRACE_SEIZE, daemon_of(target), nullptr, nullptr));
     }},
    {"lets itself be traced", "signals", true, true,
     [](const Target&) { return failed(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)); }},
    {"reads the daemon's memory by a call", "signals", true, false, reads_memory_of_daemon},
    {"has the kernel signal the daemon", "signals", false, false, asks_to_be_signalled_for},
    {"reads the daemon's limits", "signals", false, true, limits_of_daemon},
    {"slows the daemon down", "signals", false, true,
     [](const Target& target) {
       return failed(::setpriority(PRIO_PROCESS, static_cast<id_t>(target.pid),
                                   ::getpriority(PRIO_PROCESS, static_cast<id_t>(target.pid))));
     }},
    {"leaves its session", "persistence", false, true,
     [](const Target&) {
       // A leader of a group may not: outside, a child that is none tries.
       return ::getpid() == ::getpgrp() ? EPERM : failed(::setsid());
     }},
    {"leaves its process group", "persistence", false, false,
     [](const Target&) { return failed(::setpgid(0, 0)); }},
    {"outlives its parent", "persistence", false, true,
     [](const Target&) { return undo(PR_SET_PDEATHSIG, 0); }},
    {"takes orphans over", "persistence", false, true,
     [](const Target&) { return undo(PR_SET_CHILD_SUBREAPER, 0); }},
    {"lets itself be dumped", "other-labs", false, true,
     [](const Target&) { return undo(PR_SET_DUMPABLE, 1); }},
    {"becomes root", "kernel", false, true, [](const Target&) { return failed(::setuid(0)); }},
    {"changes its groups", "kernel", false, true,
     [](const Target&) { return failed(::setgid(0)); }},
};

}  // namespace

std::span<const Probe> process_probes() { return kProbes; }

}  // namespace goblin::testing
