// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Taking all there is: memory in its many forms, priorities; and what other runners might share.
#include <fcntl.h>
#include <mqueue.h>
#include <sched.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "tests/testing/plugins/jail_probe/probes.hpp"

namespace goblin::testing {
namespace {

constexpr std::size_t kHuge = std::size_t{16} << 30;

int maps(std::size_t bytes, int flags) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (at == MAP_FAILED) {
    return errno;
  }
  ::munmap(at, bytes);
  return 0;
}

/// Memory that nobody counts when it is mapped becomes memory that is written to.
int reserves_and_opens(const Target& /*target*/) {
  void* at = ::mmap(nullptr, kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return errno;
  }
  const int error = failed(::mprotect(at, kHuge, PROT_READ | PROT_WRITE));
  ::munmap(at, kHuge);
  return error;
}

/// 4 GiB in pieces of 16 MiB, each touched once.
int takes_piece_by_piece(const Target& /*target*/) {
  constexpr std::size_t kPiece = std::size_t{16} << 20;
  std::vector<void*> pieces;
  int error = 0;
  while (error == 0 && pieces.size() < 256) {
    void* piece = std::malloc(kPiece);
    if (piece == nullptr) {
      error = ENOMEM;
    } else {
      static_cast<volatile char*>(piece)[0] = 1;
      pieces.push_back(piece);
    }
  }
  for (void* piece : pieces) {
    std::free(piece);
  }
  return error;
}

int shared_memory(const Target& /*target*/) {
  const int id = ::shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
  if (id >= 0) {
    ::shmctl(id, IPC_RMID, nullptr);
  }
  return failed(id);
}

int semaphores(const Target& /*target*/) {
  const int id = ::semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
  if (id >= 0) {
    ::semctl(id, 0, IPC_RMID);
  }
  return failed(id);
}

int messages(const Target& /*target*/) {
  const int id = ::msgget(IPC_PRIVATE, IPC_CREAT | 0600);
  if (id >= 0) {
    ::msgctl(id, IPC_RMID, nullptr);
  }
  return failed(id);
}

int message_queue(const Target& /*target*/) {
  const mqd_t queue = ::mq_open("/goblin-probe", O_RDWR | O_CREAT | O_EXCL, 0600, nullptr);
  if (queue != static_cast<mqd_t>(-1)) {
    ::mq_close(queue);
    ::mq_unlink("/goblin-probe");
    return 0;
  }
  return errno;
}

int pipes(const Target& /*target*/) {
  int fds[2];
  const int error = failed(::pipe2(fds, O_CLOEXEC));
  if (error == 0) {
    ::close(fds[0]);
    ::close(fds[1]);
  }
  return error;
}

int real_time(const Target& /*target*/) {
  const sched_param parameters{1};
  const int error = failed(::sched_setscheduler(0, SCHED_FIFO, &parameters));
  const sched_param none{0};
  ::sched_setscheduler(0, SCHED_OTHER, &none);
  return error;
}

constexpr Probe kProbes[] = {
    {"maps 16 GiB", "memory", false, false,
     [](const Target&) { return maps(kHuge, MAP_PRIVATE | MAP_ANONYMOUS); }},
    {"maps 16 GiB without a reserve", "memory", false, false,
     [](const Target&) { return maps(kHuge, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE); }},
    {"maps 16 GiB of shared memory", "memory", false, false,
     [](const Target&) { return maps(kHuge, MAP_SHARED | MAP_ANONYMOUS); }},
    {"maps shared memory", "memory", false, true,
     [](const Target&) { return maps(1U << 20, MAP_SHARED | MAP_ANONYMOUS); }},
    {"maps memory that grows downwards", "memory", false, true,
     [](const Target&) { return maps(1U << 20, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN); }},
    {"maps huge pages", "memory", false, false,
     [](const Target&) { return maps(1U << 21, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB); }},
    {"opens what it reserved", "memory", false, false, reserves_and_opens},
    {"takes 4 GiB piece by piece", "memory", false, false, takes_piece_by_piece},
    {"locks memory", "memory", false, false,
     [](const Target&) {
       const int error = failed(::mlockall(MCL_FUTURE));
       ::munlockall();
       return error;
     }},
    {"makes a pipe", "memory", false, true, pipes},
    {"makes System V shared memory", "other-labs", false, true, shared_memory},
    {"makes System V semaphores", "other-labs", false, true, semaphores},
    {"makes a System V queue", "other-labs", false, true, messages},
    {"makes a message queue", "other-labs", false, false, message_queue},
    {"lists memory that has names", "other-labs", false, true,
     [](const Target&) {
       const int fd = ::open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
       if (fd >= 0) {
         ::close(fd);
       }
       return failed(fd);
     }},
    {"computes before everybody else", "time", false, false, real_time},
    {"computes sooner", "time", false, false,
     [](const Target&) {
       errno = 0;
       const int now = ::nice(-1);
       const int error = now == -1 ? errno : 0;
       if (error == 0) {
         [[maybe_unused]] const int back = ::nice(1);
       }
       return error;
     }},
};

}  // namespace

std::span<const Probe> resource_probes() { return kProbes; }

}  // namespace goblin::testing
