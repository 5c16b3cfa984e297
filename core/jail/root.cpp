// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/jail/root.hpp"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "core/jail/system_error.hpp"

namespace goblin::jail {
namespace {

// Where the new root is put together; covered for a moment, in this namespace only.
constexpr std::array<const char*, 4> kPlaces{"/tmp", "/var", "/usr", "/run"};
constexpr const char* kDescriptors = "/proc/self/fd";
constexpr unsigned long kTight = MS_NOSUID | MS_NODEV | MS_NOEXEC;

bool is_directory(const char* path) {
  struct stat info {};
  return ::stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

Result<void> enter_empty_root() {
  const auto* place = std::find_if(kPlaces.begin(), kPlaces.end(), is_directory);
  if (place == kPlaces.end() || !is_directory(kDescriptors)) {
    return fail(
        Code::kUnavailable,
        std::string("the runner cannot confine itself: ") +
            (place == kPlaces.end() ? "none of /tmp, /var, /usr, /run" : kDescriptors) +
            (place == kPlaces.end() ? " is a directory; make one" : " is missing; mount /proc"));
  }
  // Nothing that is mounted from here on shows outside, nor the other way round.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return refused("making its mounts private");
  }
  if (::mount("runner", *place, "tmpfs", kTight, "size=64k,nr_inodes=8,mode=0755") != 0) {
    return refused(std::string("mounting a directory at ") + *place);
  }
  const std::string root = *place;
  for (const char* directory : {"/proc", "/proc/self", kDescriptors}) {
    const std::string path = root + directory;
    // The runner is not their owner once it has its own user id.
    if (::mkdir(path.c_str(), 0700) != 0 || ::chmod(path.c_str(), 0555) != 0) {
      return refused("making its root directory");
    }
  }
  if (::mount(kDescriptors, (root + kDescriptors).c_str(), nullptr, MS_BIND, nullptr) != 0) {
    return refused("showing it its descriptors");
  }
  if (::chdir(root.c_str()) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0) {
    return refused("changing its root directory");
  }
  // The old root lies on top of the new one until it is taken off.
  if (::umount2(".", MNT_DETACH) != 0 || ::chdir("/") != 0) {
    return refused("leaving the old root directory");
  }
  if (::mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kTight, nullptr) != 0) {
    return refused("making its root directory read only");
  }
  return {};
}

}  // namespace goblin::jail
