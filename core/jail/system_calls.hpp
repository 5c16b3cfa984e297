// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The system calls of a runner once its backend is loaded. What honest plugins, the product's
// kernels, glibc and the dynamic loader use was found with strace over the whole test suite. A call
// of no list answers EPERM. For seccomp.cpp only.
#pragma once

namespace goblin::jail {

// Whatever their arguments.
inline constexpr const char* kAllowed[] = {
    // memory
    "brk", "madvise", "membarrier", "mprotect", "mremap", "munmap",
    // threads
    "exit", "exit_group", "futex", "get_robust_list", "getcpu", "getpid", "gettid",
    "restart_syscall", "rseq", "sched_getaffinity", "sched_getparam", "sched_getscheduler",
    "sched_setaffinity", "sched_yield", "set_robust_list", "set_tid_address",
    // signals to oneself are filtered below
    "pause", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend",
    "rt_sigtimedwait", "sigaltstack",
    // time
    "clock_getres", "clock_gettime", "clock_nanosleep", "getrusage", "gettimeofday", "nanosleep",
    "time", "times",
    // open descriptors
    "close", "close_range", "dup", "dup2", "dup3", "fstat", "lseek", "poll", "ppoll", "pread64",
    "preadv", "preadv2", "pselect6", "pwrite64", "pwritev", "pwritev2", "read", "readv", "recvfrom",
    "recvmsg", "select", "sendmsg", "sendto", "shutdown", "write", "writev",
    // names, of which there are none: the loader asks nevertheless
    "access", "faccessat", "getcwd", "getdents64", "lstat", "newfstatat", "readlink", "readlinkat",
    "stat", "statx",
    // what a process may know of itself
    "getegid", "geteuid", "getgid", "getrandom", "getrlimit", "getuid", "sysinfo", "uname"};

// glibc and others go on without them, if they are told that there is no such call.
inline constexpr const char* kUnknown[] = {"clone3", "epoll_pwait2", "faccessat2", "openat2"};
// Newer than this list; numbers are the same on every processor.
inline constexpr int kUnknownFrom = 449;
inline constexpr int kUnknownTo = 511;

// No honest plugin comes near these: it is ended, and the call is named.
inline constexpr const char* kForbidden[] = {
    // other programs
    "execve", "execveat", "fork", "vfork",
    // other processes
    "kcmp", "pidfd_getfd", "pidfd_open", "pidfd_send_signal", "process_madvise", "process_mrelease",
    "process_vm_readv", "process_vm_writev", "ptrace",
    // large parts of the kernel
    "add_key", "bpf", "io_uring_enter", "io_uring_register", "io_uring_setup", "keyctl",
    "lookup_dcookie", "modify_ldt", "perf_event_open", "personality", "request_key", "userfaultfd",
    // the system's state
    "acct", "adjtimex", "clock_adjtime", "clock_settime", "delete_module", "finit_module",
    "init_module", "ioperm", "iopl", "kexec_file_load", "kexec_load", "nfsservctl", "quotactl",
    "quotactl_fd", "reboot", "setdomainname", "sethostname", "settimeofday", "swapoff", "swapon",
    "syslog", "vhangup",
    // mounts and namespaces
    "chroot", "fsconfig", "fsmount", "fsopen", "fspick", "mount", "mount_setattr", "move_mount",
    "name_to_handle_at", "open_by_handle_at", "open_tree", "pivot_root", "setns", "umount2",
    "unshare"};

}  // namespace goblin::jail
