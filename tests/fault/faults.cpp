// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/fault/faults.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <vector>

namespace goblin::fault {
namespace {

struct Undo {
  int fd = -1;  ///< of its own
  off_t offset = 0, size = 0;
  std::vector<char> before;
  ino_t inode = 0;
};

struct State {
  bool armed = false, counting_only = true, busy = false;
  Fault fault;
  std::uint64_t calls = 0;
  const char* failed = "";
  std::vector<Undo> unsynced;
};

// Constant-initialised: malloc asks before any constructor has run.
constinit thread_local State* current = nullptr;

State& state() {
  static State only;
  return only;
}

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  std::abort();
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

void lose_power(State& s) {
  s.busy = true;
  static auto* const original = real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  static auto* const cut_original = real<int(int, off_t)>("ftruncate");
  for (auto undo = s.unsynced.rbegin(); undo != s.unsynced.rend(); ++undo) {
    if (!undo->before.empty() &&
        original(undo->fd, undo->before.data(), undo->before.size(), undo->offset) < 0) {
      std::abort();
    }
    if (cut_original(undo->fd, undo->size) != 0) std::abort();
  }
  die();
}

enum class Does : std::uint8_t { kNothing, kFails, kHalf, kHalfAndDies };

/// Counts a call and says what becomes of it.
Does begin(On on, const char* name) {
  State* s = current;
  if (s == nullptr || !s->armed || s->busy || s->fault.on != on) return Does::kNothing;
  const std::uint64_t number = s->calls++;
  if (s->counting_only || number != s->fault.at) return Does::kNothing;
  s->failed = name;
  switch (s->fault.how) {
    case How::kFail:
      errno = on == On::kMemory ? ENOMEM : s->fault.error_number;
      return Does::kFails;
    case How::kShort:
      return Does::kHalf;
    case How::kTorn:
      return Does::kHalfAndDies;
    case How::kPower:
      lose_power(*s);
      break;
    case How::kKill:
      die();
  }
  return Does::kNothing;
}

bool keeps_undo() {
  return current != nullptr && current->armed && !current->busy &&
         current->fault.how == How::kPower && current->fault.on == On::kDisk &&
         !current->counting_only;
}

/// Before a file changes: what a loss of power brings back.
void note_change(int fd, off_t offset, std::size_t count) {
  if (!keeps_undo()) return;
  State& s = *current;
  s.busy = true;
  struct stat info {};
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
    Undo undo;
    undo.fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    undo.offset = offset;
    undo.size = info.st_size;
    undo.inode = info.st_ino;
    const off_t end = std::min<off_t>(info.st_size, offset + static_cast<off_t>(count));
    if (end > offset) {
      undo.before.resize(static_cast<std::size_t>(end - offset));
      static auto* const original = real<ssize_t(int, void*, size_t, off_t)>("pread");
      if (original(fd, undo.before.data(), undo.before.size(), offset) < 0) std::abort();
    }
    s.unsynced.push_back(std::move(undo));
  }
  s.busy = false;
}

void note_sync(int fd) {
  if (!keeps_undo()) return;
  struct stat info {};
  if (::fstat(fd, &info) != 0) return;
  std::erase_if(current->unsynced, [&](Undo& undo) {
    if (undo.inode != info.st_ino) return false;
    ::close(undo.fd);
    return true;
  });
}

}  // namespace

void count(On on) {
  off();
  state() = State{.armed = true, .counting_only = true, .fault = {.on = on}};
  current = &state();
}

void arm(const Fault& fault) {
  off();
  state() = State{.armed = true, .counting_only = false, .fault = fault};
  current = &state();
}

std::uint64_t off() {
  current = nullptr;
  State& s = state();
  for (const Undo& undo : s.unsynced) ::close(undo.fd);
  s.unsynced.clear();
  s.armed = false;
  return s.calls;
}

std::string last_failed() { return state().failed; }

bool Ended::killed() const { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }
bool Ended::exited(int code) const { return WIFEXITED(status) && WEXITSTATUS(status) == code; }

Ended in_child(const std::function<void(int fd)>& body) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    body(ends[1]);
    ::_exit(0);  // no destructors: as a crash
  }
  ::close(ends[1]);
  Ended ended;
  std::uint64_t number = 0;
  while (::read(ends[0], &number, sizeof number) == sizeof number) ended.last = number;
  ::close(ends[0]);
  ::waitpid(child, &ended.status, 0);
  return ended;
}

void tell(int fd, std::uint64_t number) {
  if (::write(fd, &number, sizeof number) != sizeof number) ::_exit(1);
}

void end_without_memory() { ::_exit(kNoMemory); }

}  // namespace goblin::fault

using goblin::fault::begin;
using goblin::fault::die;
using goblin::fault::Does;
using goblin::fault::note_change;
using goblin::fault::note_sync;
using goblin::fault::On;
using goblin::fault::real;

// The names are the C library's; those with 64 are what SQLite was built with.
// NOLINTBEGIN(readability-identifier-naming)
#define GOBLIN_STANDS_BEFORE extern "C" __attribute__((visibility("default")))

extern "C" void* __libc_malloc(size_t size);
extern "C" void* __libc_calloc(size_t count, size_t size);
extern "C" void* __libc_realloc(void* memory, size_t size);

GOBLIN_STANDS_BEFORE void* malloc(size_t size) {
  return begin(On::kMemory, "malloc") == Does::kFails ? nullptr : __libc_malloc(size);
}
GOBLIN_STANDS_BEFORE void* calloc(size_t n, size_t size) {
  return begin(On::kMemory, "calloc") == Does::kFails ? nullptr : __libc_calloc(n, size);
}
GOBLIN_STANDS_BEFORE void* realloc(void* memory, size_t size) {
  return begin(On::kMemory, "realloc") == Does::kFails ? nullptr : __libc_realloc(memory, size);
}

namespace {

bool fails(const char* name) { return begin(On::kDisk, name) == Does::kFails; }

ssize_t write_at(int fd, const void* bytes, size_t n, off_t offset) {
  static auto* const original = real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  const Does does = begin(On::kDisk, "pwrite");
  if (does == Does::kFails) {
    const int error = errno;
    // A disk that is full takes what still fits.
    if (original(fd, bytes, n / 2, offset) < 0) return -1;
    errno = error;
    return -1;
  }
  note_change(fd, offset, n);
  if (does == Does::kHalfAndDies) {
    (void)!original(fd, bytes, n / 2, offset);
    die();
  }
  return original(fd, bytes, does == Does::kHalf ? (n + 1) / 2 : n, offset);
}

ssize_t read_at(int fd, void* bytes, size_t n, off_t offset) {
  static auto* const original = real<ssize_t(int, void*, size_t, off_t)>("pread");
  const Does does = begin(On::kDisk, "pread");
  if (does == Does::kFails) return -1;
  if (does == Does::kHalfAndDies) die();
  return original(fd, bytes, does == Does::kHalf ? (n + 1) / 2 : n, offset);
}

int sync_of(int fd, const char* name) {
  if (fails(name)) return -1;
  note_sync(fd);
  return 0;  // a loss of power is played: no disk needs to be waited for
}

int cut(int fd, off_t length) {
  static auto* const original = real<int(int, off_t)>("ftruncate");
  if (fails("ftruncate")) return -1;
  note_change(fd, length, SIZE_MAX >> 2);
  return original(fd, length);
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(arguments, unsigned))
                                              : 0;
}

int open_at(int directory, const char* path, int flags, mode_t mode) {
  static auto* const original = real<int(int, const char*, int, ...)>("openat");
  return fails("open") ? -1 : original(directory, path, flags, mode);
}

void* map(void* at, size_t length, int protection, int flags, int fd, off_t offset) {
  static auto* const original = real<void*(void*, size_t, int, int, int, off_t)>("mmap");
  if (fd >= 0 && fails("mmap")) return MAP_FAILED;
  return original(at, length, protection, flags, fd, offset);
}

}  // namespace

#define GOBLIN_OPEN(name, directory_parameter, directory)                               \
  GOBLIN_STANDS_BEFORE int name(directory_parameter const char* path, int flags, ...) { \
    va_list arguments;                                                                  \
    va_start(arguments, flags);                                                         \
    const mode_t mode = mode_of(flags, arguments);                                      \
    va_end(arguments);                                                                  \
    return open_at(directory, path, flags, mode);                                       \
  }
#define GOBLIN_COMMA ,
GOBLIN_OPEN(open, , AT_FDCWD)
GOBLIN_OPEN(open64, , AT_FDCWD)
GOBLIN_OPEN(openat, int at GOBLIN_COMMA, at)
GOBLIN_OPEN(openat64, int at GOBLIN_COMMA, at)

GOBLIN_STANDS_BEFORE ssize_t pwrite(int fd, const void* bytes, size_t n, off_t offset) {
  return write_at(fd, bytes, n, offset);
}
GOBLIN_STANDS_BEFORE ssize_t pwrite64(int fd, const void* bytes, size_t n, off64_t offset) {
  return write_at(fd, bytes, n, offset);
}
GOBLIN_STANDS_BEFORE ssize_t pread(int fd, void* bytes, size_t n, off_t offset) {
  return read_at(fd, bytes, n, offset);
}
GOBLIN_STANDS_BEFORE ssize_t pread64(int fd, void* bytes, size_t n, off64_t offset) {
  return read_at(fd, bytes, n, offset);
}
GOBLIN_STANDS_BEFORE int fsync(int fd) { return sync_of(fd, "fsync"); }
GOBLIN_STANDS_BEFORE int fdatasync(int fd) { return sync_of(fd, "fdatasync"); }
GOBLIN_STANDS_BEFORE int ftruncate(int fd, off_t length) noexcept { return cut(fd, length); }
GOBLIN_STANDS_BEFORE int ftruncate64(int fd, off64_t length) noexcept { return cut(fd, length); }
GOBLIN_STANDS_BEFORE int fallocate(int fd, int mode, off_t offset, off_t length) {
  static auto* const original = real<int(int, int, off_t, off_t)>("fallocate");
  return fails("fallocate") ? -1 : original(fd, mode, offset, length);
}
GOBLIN_STANDS_BEFORE int renameat(int from_at, const char* from, int to_at,
                                  const char* to) noexcept {
  static auto* const original = real<int(int, const char*, int, const char*)>("renameat");
  return fails("renameat") ? -1 : original(from_at, from, to_at, to);
}
GOBLIN_STANDS_BEFORE int unlink(const char* path) noexcept {
  static auto* const original = real<int(const char*)>("unlink");
  return fails("unlink") ? -1 : original(path);
}
GOBLIN_STANDS_BEFORE int unlinkat(int at, const char* path, int flags) noexcept {
  static auto* const original = real<int(int, const char*, int)>("unlinkat");
  return fails("unlinkat") ? -1 : original(at, path, flags);
}
GOBLIN_STANDS_BEFORE int fchmod(int fd, mode_t mode) noexcept {
  static auto* const original = real<int(int, mode_t)>("fchmod");
  return fails("fchmod") ? -1 : original(fd, mode);
}
GOBLIN_STANDS_BEFORE int flock(int fd, int operation) noexcept {
  static auto* const original = real<int(int, int)>("flock");
  return fails("flock") ? -1 : original(fd, operation);
}
GOBLIN_STANDS_BEFORE void* mmap(void* at, size_t length, int protection, int flags, int fd,
                                off_t offset) noexcept {
  return map(at, length, protection, flags, fd, offset);
}
GOBLIN_STANDS_BEFORE void* mmap64(void* at, size_t length, int protection, int flags, int fd,
                                  off64_t offset) noexcept {
  return map(at, length, protection, flags, fd, offset);
}
// NOLINTEND(readability-identifier-naming)
