// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/jail/seccomp.hpp"

#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/jail/system_calls.hpp"
#include "core/jail/system_error.hpp"

namespace goblin::jail {
namespace {

// libseccomp's first API level that can tell another process of a call.
constexpr unsigned kNotifies = 5;

/// A filter in the making. The first error stays.
class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_ERRNO(EPERM))) {
    if (context_ == nullptr) {
      error_ = -ENOMEM;
    }
  }
  ~Filter() {
    if (context_ != nullptr) {
      seccomp_release(context_);
    }
  }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

  void set(scmp_filter_attr attribute, std::uint32_t value) {
    keep(context_ == nullptr ? 0 : seccomp_attr_set(context_, attribute, value));
  }
  void add(std::uint32_t action, int call, const std::vector<scmp_arg_cmp>& when = {}) {
    // Calls that this processor never had have no number.
    if (context_ != nullptr && call != __NR_SCMP_ERROR) {
      keep(seccomp_rule_add_array(context_, action, call, static_cast<unsigned>(when.size()),
                                  when.data()));
    }
  }
  void add(std::uint32_t action, const char* name, const std::vector<scmp_arg_cmp>& when = {}) {
    add(action, seccomp_syscall_resolve_name(name), when);
  }
  [[nodiscard]] int load() { return error_ != 0 ? error_ : seccomp_load(context_); }
  [[nodiscard]] int listener() const { return seccomp_notify_fd(context_); }

 private:
  void keep(int result) {
    if (error_ == 0 && result != 0) {
      error_ = result;
    }
  }
  scmp_filter_ctx context_;
  int error_ = 0;
};

scmp_arg_cmp masked(unsigned argument, std::uint64_t mask, std::uint64_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}
scmp_arg_cmp equal(unsigned argument, std::uint64_t value) {
  return {argument, SCMP_CMP_EQ, value, 0};
}

/// Memory that RLIMIT_DATA counts, and files that the daemon lent; nothing that grows downwards,
/// nothing shared without a file, no huge pages of the system's reserve.
void allow_memory(Filter& filter) {
  constexpr std::uint64_t kLooked = 0xf | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_HUGETLB;
  for (const std::uint64_t flags :
       {MAP_PRIVATE, MAP_PRIVATE | MAP_ANONYMOUS, MAP_SHARED, MAP_SHARED_VALIDATE}) {
    filter.add(SCMP_ACT_ALLOW, "mmap", {masked(3, kLooked, flags)});
  }
}

/// A thread of this process; no process, no namespace.
void allow_threads(Filter& filter) {
  constexpr std::uint64_t kThread =
      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;
  constexpr std::uint64_t kNever = CLONE_PTRACE | CLONE_VFORK | CLONE_PARENT | CLONE_NEWNS |
                                   CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                   CLONE_NEWPID | CLONE_NEWNET | CLONE_IO;
#if defined(__s390__)
#error "clone has its arguments in another order there"
#endif
  filter.add(SCMP_ACT_ALLOW, "clone", {masked(0, kThread | kNever, kThread)});
}

/// abort() and pthread_kill() are signals to oneself.
void allow_signals(Filter& filter) {
  const auto self = static_cast<std::uint64_t>(::getpid());
  filter.add(SCMP_ACT_ALLOW, "tgkill", {equal(0, self)});
}

void allow_descriptors(Filter& filter) {
  constexpr int kGetSeals = 1034;  // F_GET_SEALS, hidden without _GNU_SOURCE in older headers
  for (const int command : {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, kGetSeals}) {
    filter.add(SCMP_ACT_ALLOW, "fcntl", {equal(1, static_cast<std::uint64_t>(command))});
  }
  // Without O_ASYNC, which has the kernel send signals.
  filter.add(SCMP_ACT_ALLOW, "fcntl", {equal(1, F_SETFL), masked(2, O_ASYNC, 0)});
  filter.add(SCMP_ACT_ALLOW, "ioctl", {equal(1, TCGETS)});  // isatty()
  constexpr std::uint64_t kWrites = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_TMPFILE;
  constexpr std::uint64_t kDirectory = O_DIRECTORY;  // a part of O_TMPFILE, and harmless alone
  filter.add(SCMP_ACT_ALLOW, "open", {masked(1, kWrites & ~kDirectory, 0)});
  filter.add(SCMP_ACT_ALLOW, "openat", {masked(2, kWrites & ~kDirectory, 0)});
}

void allow_questions(Filter& filter) {
  constexpr std::uint64_t kSetVma = 0x53564d41;  // PR_SET_VMA: malloc names its memory
  for (const std::uint64_t option :
       {std::uint64_t{PR_SET_NAME}, std::uint64_t{PR_GET_NAME}, kSetVma}) {
    filter.add(SCMP_ACT_ALLOW, "prctl", {equal(0, option)});
  }
  // One's own limits, to read.
  filter.add(SCMP_ACT_ALLOW, "prlimit64", {equal(0, 0), equal(2, 0)});
}

/// Answers 0, or a negative errno.
int install(std::uint32_t forbidden, int& listener) {
  Filter filter;
  filter.set(SCMP_FLTATR_CTL_OPTIMIZE, 2);  // a binary tree: 200 calls are found in 8 steps
  // Kernels before 5.16 slow a filtered process down against attacks of one part of it on another.
  // A runner has no such parts.
  filter.set(SCMP_FLTATR_CTL_SSB, 1);
  // Calls by another ABI, such as 32-bit ones, whose numbers mean something else.
  filter.set(SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  for (const char* name : kAllowed) {
    filter.add(SCMP_ACT_ALLOW, name);
  }
  allow_memory(filter);
  allow_threads(filter);
  allow_signals(filter);
  allow_descriptors(filter);
  allow_questions(filter);
  for (const char* name : kUnknown) {
    filter.add(SCMP_ACT_ERRNO(ENOSYS), name);
  }
  for (int call = kUnknownFrom; call <= kUnknownTo; ++call) {
    filter.add(SCMP_ACT_ERRNO(ENOSYS), call);
  }
  for (const char* name : kForbidden) {
    filter.add(forbidden, name);
  }
  const int error = filter.load();
  listener = error == 0 && forbidden == SCMP_ACT_NOTIFY ? filter.listener() : -1;
  return error;
}

}  // namespace

int enter_seccomp(Report& report) {
  int listener = -1;
  int error = seccomp_api_get() >= kNotifies ? install(SCMP_ACT_NOTIFY, listener) : -ENOSYS;
  const bool named = error == 0 && listener >= 0;
  if (error != 0) {
    // In a container whose own filter has a listener there can be no second one.
    error = install(SCMP_ACT_KILL_PROCESS, listener);
  }
  if (error != 0) {
    errno = -error;
    report.missing(Layer::kSeccomp, reason("loading the filter"));
    return -1;
  }
  report.there(Layer::kSeccomp, named ? "a list of allowed calls; forbidden ones are named"
                                      : "a list of allowed calls; forbidden ones are not named");
  return listener;
}

std::string read_forbidden_call(int listener) {
  seccomp_notif* request = nullptr;
  seccomp_notif_resp* response = nullptr;
  if (seccomp_notify_alloc(&request, &response) != 0) {
    return "a system call";
  }
  std::string text;
  if (seccomp_notify_receive(listener, request) == 0) {
    char* name = seccomp_syscall_resolve_num_arch(request->data.arch, request->data.nr);
    text = name != nullptr ? name : "a system call without a name";
    std::free(name);
  }
  seccomp_notify_free(request, response);
  return text;
}

}  // namespace goblin::jail
