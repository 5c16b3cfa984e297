// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The large and dangerous parts of the kernel. Arguments are such that a call which is let through
// does no harm.
#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>

#include "tests/testing/plugins/jail_probe/probes.hpp"

namespace goblin::testing {
namespace {

/// A call with no sense, to see whether it is let through at all: 0 unless it was denied.
template <typename... Arguments>
int reaches(long call, Arguments... arguments) {
  errno = 0;
  const long result = ::syscall(call, arguments...);
  if (result >= 0) {
    return 0;
  }
  return errno == EPERM || errno == ENOSYS || errno == EACCES ? errno : 0;
}

int other_abi(const Target& /*target*/) {
#if defined(__x86_64__)
  constexpr long kX32 = 0x40000000;
  return reaches(kX32 + SYS_getpid);
#else
  return ENOSYS;
#endif
}

int old_abi(const Target& /*target*/) {
#if defined(__x86_64__)
  long result = 20;  // getpid of 32-bit programs
  asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
  return result > 0 ? 0 : static_cast<int>(-result);
#else
  return ENOSYS;
#endif
}

int types_into_terminal(const Target& /*target*/) {
  char letter = 'x';
  constexpr unsigned long kStuff = TIOCSTI;
  const int error = failed(::ioctl(STDOUT_FILENO, kStuff, &letter));
  return error == ENOTTY ? 0 : error;  // it asked the file, and was not denied
}

constexpr std::array<char, 8> kNothing{};
const char* const kText = kNothing.data();

constexpr Probe kProbes[] = {
    {"mounts", "kernel", true, false,
     [](const Target&) { return reaches(SYS_mount, kText, kText, kText, 0, nullptr); }},
    {"unmounts", "kernel", true, false,
     [](const Target&) { return reaches(SYS_umount2, kText, 0); }},
    {"opens a mount", "kernel", true, false,
     [](const Target&) { return reaches(SYS_open_tree, -1, kText, 0); }},
    {"changes its root", "kernel", true, false,
     [](const Target&) { return reaches(SYS_chroot, kText); }},
    {"swaps its root", "kernel", true, false,
     [](const Target&) { return reaches(SYS_pivot_root, kText, kText); }},
    {"leaves its namespaces", "kernel", true, false,
     [](const Target&) { return reaches(SYS_unshare, CLONE_NEWUSER); }},
    {"joins a namespace", "kernel", true, false,
     [](const Target&) { return reaches(SYS_setns, -1, 0); }},
    {"loads a BPF program", "kernel", true, false,
     [](const Target&) { return reaches(SYS_bpf, -1, nullptr, 0); }},
    {"opens a performance counter", "kernel", true, false,
     [](const Target&) { return reaches(SYS_perf_event_open, nullptr, 0, -1, -1, 0); }},
    {"handles page faults", "kernel", true, false,
     [](const Target&) { return reaches(SYS_userfaultfd, -1); }},
    {"sets io_uring up", "kernel", true, false,
     [](const Target&) { return reaches(SYS_io_uring_setup, 0, nullptr); }},
    {"loads a module", "kernel", true, false,
     [](const Target&) { return reaches(SYS_init_module, nullptr, 0, kText); }},
    {"loads another kernel", "kernel", true, false,
     [](const Target&) { return reaches(SYS_kexec_load, 0, 0, nullptr, ULONG_MAX); }},
    {"changes its personality", "kernel", true, true,
     [](const Target&) { return failed(::personality(0xffffffff)); }},
    {"reads the kernel's log", "kernel", true, false,
     [](const Target&) { return reaches(SYS_syslog, 9, nullptr, 0); }},
    {"sets the clock", "kernel", true, false,
     [](const Target&) { return reaches(SYS_clock_settime, -1, nullptr); }},
    {"renames the computer", "kernel", true, false,
     [](const Target&) { return reaches(SYS_sethostname, nullptr, -1); }},
    {"restarts the computer", "kernel", true, false,
     [](const Target&) { return reaches(SYS_reboot, 0, 0, 0, nullptr); }},
    {"opens a file by its handle", "kernel", true, false,
     [](const Target&) { return reaches(SYS_open_by_handle_at, -1, nullptr, 0); }},
    {"asks for a key", "other-labs", true, false,
     [](const Target&) { return reaches(SYS_request_key, kText, kText, nullptr, 0); }},
    {"adds a key", "other-labs", true, false,
     [](const Target&) { return reaches(SYS_add_key, kText, kText, nullptr, 0, 0); }},
    {"reads a keyring", "other-labs", true, false,
     [](const Target&) { return reaches(SYS_keyctl, 11, -3, nullptr, 0); }},
    {"watches files", "kernel", false, true,
     [](const Target&) {
       const long fd = ::syscall(SYS_inotify_init1, O_CLOEXEC);
       if (fd >= 0) {
         ::close(static_cast<int>(fd));
       }
       return failed(fd);
     }},
    {"types into a terminal", "kernel", false, false, types_into_terminal},
    {"calls by the 32-bit ABI of x86-64", "kernel", true, false, other_abi},
    {"calls as a 32-bit program", "kernel", true, false, old_abi},
};

}  // namespace

std::span<const Probe> kernel_probes() { return kProbes; }

}  // namespace goblin::testing
