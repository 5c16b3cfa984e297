// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Calls of the system that fail: those of this program and of the libraries in it. Only the thread
// that arms them is looked at.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

namespace goblin::fault {

enum class On : std::uint8_t {
  kDisk,  ///< open, pread, pwrite, fsync, ftruncate, fallocate, rename, unlink, mmap of files, …
  kMemory,  ///< malloc, calloc, realloc
};
enum class How : std::uint8_t {
  kFail,   ///< that call fails, the others work
  kShort,  ///< that call writes or reads half, and says so; others than those work as they are
  kKill,   ///< the process is killed before it
  kTorn,   ///< a write does half of its bytes, then the process is killed
  kPower,  ///< the process is killed, and what was written but not synchronised is lost
};
struct Fault {
  On on = On::kDisk;
  How how = How::kFail;
  std::uint64_t at = 0;  ///< number of the call, from 0
  int error_number = 0;  ///< kFail on a disk
};

/// Counts only. Forgets what came before.
void count(On on);
void arm(const Fault& fault);
/// Calls since; disarms.
std::uint64_t off();
/// The name of the call that failed last: "pwrite".
std::string last_failed();

/// Runs `body` in a child and says how that ended: the status of waitpid. The child has its own
/// faults; `body` talks through the descriptor, `read` gets its numbers afterwards.
struct Ended {
  int status = 0;
  std::uint64_t last = 0;  ///< the last number that it wrote, 0 for none
  [[nodiscard]] bool killed() const;
  [[nodiscard]] bool exited(int code) const;
};
Ended in_child(const std::function<void(int fd)>& body);
void tell(int fd, std::uint64_t number);

/// What operator new calls when there is no memory: ends the process, as the daemons' does.
inline constexpr int kNoMemory = 73;
void end_without_memory();

}  // namespace goblin::fault
