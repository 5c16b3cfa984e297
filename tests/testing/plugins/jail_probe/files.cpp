// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Reading, writing, leaving something behind.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "tests/testing/plugins/jail_probe/probes.hpp"

namespace goblin::testing {
namespace {

int reads(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char byte = 0;
  struct stat info {};
  const bool directory = fd >= 0 && ::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
  const int error = fd < 0 ? errno : directory ? 0 : failed(::read(fd, &byte, 1));
  if (fd >= 0) {
    ::close(fd);
  }
  return error;
}

/// A file that was not there before; removed again.
int makes(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) {
    return errno;
  }
  const int error = failed(::write(fd, "x", 1));
  ::close(fd);
  ::unlink(path.c_str());
  return error;
}

/// Nothing is written; but it could be.
int may_append(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd >= 0) {
    ::close(fd);
  }
  return failed(fd);
}

std::string of_daemon(const Target& target, const char* file) {
  return "/proc/" + std::to_string(target.pid) + "/" + file;
}

std::string own_name() { return "goblin-probe-" + std::to_string(::getpid()); }

int memory_file(const Target& /*target*/) {
  const int fd = ::memfd_create("probe", MFD_CLOEXEC);
  if (fd < 0) {
    return errno;
  }
  const int error = failed(::ftruncate(fd, off_t{1} << 30));
  ::close(fd);
  return error;
}

int grows_lent_memory(const Target& /*target*/) {
  // The socket, standard streams: nothing of what is open may be made longer.
  for (int fd = 0; fd < 64; ++fd) {
    if (::ftruncate(fd, off_t{1} << 30) == 0 || ::fallocate(fd, 0, 0, off_t{1} << 30) == 0) {
      return 0;
    }
  }
  return EPERM;
}

int other_descriptors(const Target& /*target*/) {
  for (int fd = 4; fd < 1024; ++fd) {
    if (::fcntl(fd, F_GETFD) != -1) {
      return 0;
    }
  }
  return EBADF;
}

int computer_name(const Target& target) {
  utsname name{};
  return ::uname(&name) == 0 && hash_name(name.nodename) == target.host ? 0 : ENOENT;
}

constexpr Probe kProbes[] = {
    {"reads /etc/passwd", "files", false, true, [](const Target&) { return reads("/etc/passwd"); }},
    {"reads /etc/shadow", "files", false, true, [](const Target&) { return reads("/etc/shadow"); }},
    {"reads /root", "files", false, true, [](const Target&) { return reads("/root"); }},
    {"reads /home", "files", false, true, [](const Target&) { return reads("/home"); }},
    {"reads /root/.ssh", "files", false, false, [](const Target&) { return reads("/root/.ssh"); }},
    {"reads /", "files", false, true, [](const Target&) { return reads("/"); }},
    {"reads /tmp", "files", false, true, [](const Target&) { return reads("/tmp"); }},
    {"reads /usr/bin", "files", false, true, [](const Target&) { return reads("/usr/bin"); }},
    {"reads ../../etc/passwd", "files", false, false,
     [](const Target&) { return reads("../../../../etc/passwd"); }},
    {"reads /proc/self/fd/../../../etc/passwd", "files", false, false,
     [](const Target&) { return reads("/proc/self/fd/../../../etc/passwd"); }},
    {"stats /etc/passwd", "files", false, true,
     [](const Target&) {
       struct stat info {};
       return failed(::stat("/etc/passwd", &info));
     }},
    {"reads a disk", "files", false, false, [](const Target&) { return reads("/dev/vda"); }},
    {"reads /proc/1/environ", "system", false, false,
     [](const Target&) { return reads("/proc/1/environ"); }},
    {"reads the daemon's environment", "system", false, true,
     [](const Target& target) { return reads(of_daemon(target, "environ")); }},
    {"reads the daemon's command line", "system", false, true,
     [](const Target& target) { return reads(of_daemon(target, "cmdline")); }},
    {"reads the daemon's memory", "system", false, false,
     [](const Target& target) { return may_append(of_daemon(target, "mem")); }},
    {"reads the daemon's descriptors", "system", false, true,
     [](const Target& target) { return reads(of_daemon(target, "fd")); }},
    {"reads /proc/self/mountinfo", "system", false, true,
     [](const Target&) { return reads("/proc/self/mountinfo"); }},
    {"reads /proc/self/cgroup", "system", false, true,
     [](const Target&) { return reads("/proc/self/cgroup"); }},
    {"lists processes", "system", false, true, [](const Target&) { return reads("/proc"); }},
    {"reads /sys", "system", false, true, [](const Target&) { return reads("/sys"); }},
    {"learns the computer's name", "system", false, true, computer_name},
    {"knows its parent", "system", false, true,
     [](const Target&) { return ::getppid() > 0 ? 0 : ESRCH; }},
    {"makes a file in /tmp", "writing", false, true,
     [](const Target&) { return makes("/tmp/" + own_name()); }},
    {"makes a file in /var/tmp", "writing", false, true,
     [](const Target&) { return makes("/var/tmp/" + own_name()); }},
    {"makes a file in /dev/shm", "writing", false, true,
     [](const Target&) { return makes("/dev/shm/" + own_name()); }},
    {"makes a file in /", "writing", false, false,
     [](const Target&) { return makes("/" + own_name()); }},
    {"makes a file beside its descriptors", "writing", false, false,
     [](const Target&) { return makes("/proc/self/" + own_name()); }},
    {"makes a file without a name", "writing", false, true,
     [](const Target&) {
       const int fd = ::open("/tmp", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
       if (fd >= 0) {
         ::close(fd);
       }
       return failed(fd);
     }},
    {"makes a directory", "writing", false, true,
     [](const Target&) {
       const std::string path = "/tmp/" + own_name() + ".d";
       const int error = failed(::mkdir(path.c_str(), 0700));
       ::rmdir(path.c_str());
       return error;
     }},
    {"makes a symbolic link", "writing", false, true,
     [](const Target&) {
       const std::string path = "/tmp/" + own_name() + ".l";
       const int error = failed(::symlink("/", path.c_str()));
       ::unlink(path.c_str());
       return error;
     }},
    {"makes a file of 1 GiB in memory", "writing", false, true, memory_file},
    {"makes what it was lent longer", "writing", false, false, grows_lent_memory},
    {"writes to /proc/self/oom_score_adj", "writing", false, true,
     [](const Target&) { return may_append("/proc/self/oom_score_adj"); }},
    {"appends to ~/.profile", "persistence", false, false,
     [](const Target&) { return may_append("/root/.profile"); }},
    {"makes a cron job", "persistence", false, false,
     [](const Target&) { return makes("/etc/cron.d/" + own_name()); }},
    {"makes a user's cron job", "persistence", false, false,
     [](const Target&) { return makes("/var/spool/cron/crontabs/" + own_name()); }},
    {"makes a systemd unit", "persistence", false, false,
     [](const Target&) { return makes("/etc/systemd/system/" + own_name() + ".service"); }},
    {"has other descriptors", "other-labs", false, false, other_descriptors},
};

}  // namespace

int failed(long result) { return result < 0 ? errno : 0; }

std::int64_t hash_name(const char* name) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (; *name != '\0'; ++name) {
    hash = (hash ^ static_cast<unsigned char>(*name)) * 1099511628211ULL;
  }
  return static_cast<std::int64_t>(hash >> 1);
}

std::span<const Probe> file_probes() { return kProbes; }

}  // namespace goblin::testing
