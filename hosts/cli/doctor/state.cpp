// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The state directory: its rights, the key in it, room on its disk.
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "hosts/cli/doctor/check.hpp"
#include "hosts/common/units.hpp"

namespace goblin::cli::doctor {
namespace {

constexpr mode_t kOthers = 077;
/// Below this a daemon cannot even keep a journal for long.
constexpr std::uint64_t kLeastRoom = 1ULL << 30;

std::string octal(mode_t mode) {
  std::string text;
  for (int shift = 6; shift >= 0; shift -= 3) {
    text += static_cast<char>('0' + (mode >> shift & 7));
  }
  return text;
}

void check_room(const Subject& subject, const std::string& path, Findings& findings) {
  struct statvfs disk {};
  if (::statvfs(path.c_str(), &disk) != 0) {
    return;
  }
  const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  const std::string text = hosts::format_bytes(free) + " free";
  if (free < kLeastRoom) {
    findings.bad("disk", text, "free some: at least 1 GiB is needed at '" + path + "'");
  } else if (free < subject.disk_bytes) {
    findings.note(
        "disk",
        text + ", less than its caches may take (" + hosts::format_bytes(subject.disk_bytes) + ")",
        "free some, or lower the setting 'cache'");
  } else {
    findings.good("disk", text);
  }
}

void check_key(const std::string& path, Findings& findings) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    findings.note("key", "there is none yet", "the daemon makes one when it is first started");
    return;
  }
  if ((info.st_mode & kOthers) != 0) {
    findings.bad("key", "others have rights on it (mode " + octal(info.st_mode) + ")",
                 "chmod 600 '" + path + "'");
  } else if (info.st_uid != ::geteuid()) {
    findings.bad("key", "it belongs to another user (" + std::to_string(info.st_uid) + ")",
                 "run this command, and the daemon, as that user, or chown '" + path + "'");
  } else {
    findings.good("key", "mode " + octal(info.st_mode));
  }
}

}  // namespace

void check_state(const Subject& subject, Findings& findings) {
  if (subject.state_dir.empty()) {
    return;
  }
  const std::string& path = subject.state_dir;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) {
      findings.note("state directory", "'" + path + "' is not there yet",
                    "the daemon makes it when it is first started");
    } else {
      findings.bad("state directory", "'" + path + "': " + std::strerror(errno),
                   "name another with --state-dir, or correct the rights of the folders above it");
    }
    return;
  }
  if (!S_ISDIR(info.st_mode)) {
    findings.bad("state directory", "'" + path + "' is no directory",
                 "name another with --state-dir");
    return;
  }
  if (::access(path.c_str(), R_OK | W_OK | X_OK) != 0) {
    findings.bad(
        "state directory", "'" + path + "': " + std::strerror(errno),
        "run as the user that it belongs to (" + std::to_string(info.st_uid) + "), or chown it");
  } else if ((info.st_mode & kOthers) != 0) {
    findings.note("state directory",
                  "'" + path + "' has mode " + octal(info.st_mode) + ": others may look into it",
                  "chmod 700 '" + path + "'");
  } else {
    findings.good("state directory", path);
  }
  check_key(path + "/identity/identity.key", findings);
  check_room(subject, path, findings);
}

}  // namespace goblin::cli::doctor
