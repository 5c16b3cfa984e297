// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/core/trust/disk_faults.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

extern "C" {
// The names are the linker's.
// NOLINTBEGIN(readability-identifier-naming)
int __real_openat(int directory, const char* path, int flags, mode_t mode);
ssize_t __real_pwrite(int fd, const void* bytes, size_t count, off_t offset);
int __real_renameat(int from_directory, const char* from, int to_directory, const char* to);
int __real_unlinkat(int directory, const char* path, int flags);
int __wrap_openat(int directory, const char* path, int flags, mode_t mode);
ssize_t __wrap_pwrite(int fd, const void* bytes, size_t count, off_t offset);
int __wrap_fsync(int fd);
int __wrap_renameat(int from_directory, const char* from, int to_directory, const char* to);
int __wrap_unlinkat(int directory, const char* path, int flags);
// NOLINTEND(readability-identifier-naming)
}

namespace goblin::trust::test {
namespace {

enum class Plan { kNone, kFail, kHalve, kDie };

struct Rename {
  std::string from;
  std::string to;
  std::optional<std::string> replaced;  ///< contents of what was there
};

struct Disk {
  Plan plan = Plan::kNone;
  std::uint64_t at = 0;
  int error_number = 0;
  std::uint64_t calls = 0;
  std::map<ino_t, std::string> unsynced;  ///< files written and not synchronised, where they are
  std::vector<Rename> renames;            ///< since the directory was synchronised
};

Disk& disk() {
  static Disk state;
  return state;
}

/// Counts a call; the error that it must answer with, 0 for none.
int begin_call() {
  Disk& d = disk();
  const std::uint64_t number = d.calls++;
  if (d.plan == Plan::kFail && number == d.at) {
    return d.error_number;
  }
  return d.plan == Plan::kDie && number >= d.at ? EIO : 0;
}

std::string path_of(int fd) {
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)).string();
}
std::string path_at(int directory, const char* name) { return path_of(directory) + "/" + name; }

std::optional<std::string> contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return std::nullopt;
  }
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

void faults_off() { disk() = Disk{}; }
std::uint64_t calls_made() { return disk().calls; }
void fail_call(std::uint64_t number, int error_number) {
  disk() = Disk{.plan = Plan::kFail, .at = number, .error_number = error_number};
}
void halve_call(std::uint64_t number) { disk() = Disk{.plan = Plan::kHalve, .at = number}; }
void die_at_call(std::uint64_t number) { disk() = Disk{.plan = Plan::kDie, .at = number}; }

void lose_power(Undo undo) {
  Disk lost = disk();
  faults_off();
  for (const auto& [inode, path] : lost.unsynced) {
    std::filesystem::resize_file(path, 0);
  }
  if (undo == Undo::kNone || lost.renames.empty()) {
    return;
  }
  if (undo == Undo::kAllButTheLast) {
    lost.renames.pop_back();
  }
  for (auto rename = lost.renames.rbegin(); rename != lost.renames.rend(); ++rename) {
    std::filesystem::rename(rename->to, rename->from);
    if (rename->replaced) {
      std::ofstream(rename->to, std::ios::binary) << *rename->replaced;
    }
  }
}

}  // namespace goblin::trust::test

using goblin::trust::test::begin_call;
using goblin::trust::test::contents;
using goblin::trust::test::disk;
using goblin::trust::test::path_at;
using goblin::trust::test::path_of;
using goblin::trust::test::Plan;

int __wrap_openat(int directory, const char* path, int flags, mode_t mode) {
  if ((flags & O_CREAT) != 0) {
    if (const int error = begin_call()) {
      errno = error;
      return -1;
    }
  }
  return __real_openat(directory, path, flags, mode);
}

ssize_t __wrap_pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  const bool half = disk().plan == Plan::kHalve && disk().calls == disk().at;
  if (const int error = begin_call()) {
    // A disk that is full takes what still fits.
    [[maybe_unused]] const ssize_t some = __real_pwrite(fd, bytes, count / 2, offset);
    errno = error;
    return -1;
  }
  struct stat info {};
  ::fstat(fd, &info);
  disk().unsynced[info.st_ino] = path_of(fd);
  return __real_pwrite(fd, bytes, half ? (count + 1) / 2 : count, offset);
}

int __wrap_fsync(int fd) {
  if (const int error = begin_call()) {
    errno = error;
    return -1;
  }
  struct stat info {};
  ::fstat(fd, &info);
  if (S_ISDIR(info.st_mode)) {
    disk().renames.clear();
  } else {
    disk().unsynced.erase(info.st_ino);
  }
  return 0;  // what a loss of power does is played here: no disk needs to be waited for
}

int __wrap_renameat(int from_directory, const char* from, int to_directory, const char* to) {
  if (const int error = begin_call()) {
    errno = error;
    return -1;
  }
  const std::string from_path = path_at(from_directory, from);
  const std::string to_path = path_at(to_directory, to);
  for (auto& [inode, path] : disk().unsynced) {
    if (path == from_path) {
      path = to_path;
    }
  }
  disk().renames.push_back({from_path, to_path, contents(to_path)});
  return __real_renameat(from_directory, from, to_directory, to);
}

int __wrap_unlinkat(int directory, const char* path, int flags) {
  if (const int error = begin_call()) {
    errno = error;
    return -1;
  }
  struct stat info {};
  if (::fstatat(directory, path, &info, AT_SYMLINK_NOFOLLOW) == 0) {
    disk().unsynced.erase(info.st_ino);
  }
  return __real_unlinkat(directory, path, flags);
}
