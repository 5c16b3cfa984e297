// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/jail/namespaces.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>

#include "core/jail/system_error.hpp"

namespace goblin::jail {
namespace {

// What files and programs show for nobody in particular.
constexpr uid_t kNobody = 65534;

Result<void> write_file(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) {
    return refused("opening " + path);
  }
  const ssize_t n = ::write(fd, text.data(), text.size());
  const bool written = n == static_cast<ssize_t>(text.size());
  const int error = errno;
  ::close(fd);
  errno = error;
  if (!written) {
    return refused("writing " + path);
  }
  return {};
}

/// The only two ids that the runner's namespace knows: root's, until the jail is closed, because
/// the installation may be readable by root alone; and the runner's own.
Result<void> map_for(pid_t process, const OwnUid& own) {
  const std::string map =
      "0 0 1\n" + std::to_string(own.inside) + " " + std::to_string(own.outside) + " 1\n";
  const std::string directory = "/proc/" + std::to_string(process);
  GOBLIN_TRY_VOID(write_file(directory + "/gid_map", map));
  return write_file(directory + "/uid_map", map);
}

/// A process that stays behind, where root still is root, and maps ids when told to.
class Mapper {
 public:
  static Result<Mapper> start(const OwnUid& own) {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) {
      return refused("pipe");
    }
    const pid_t spawner = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) {
      char go = 0;
      ::close(fds[1]);
      const bool told = ::read(fds[0], &go, 1) == 1;
      ::_exit(told && map_for(spawner, own) ? 0 : 1);
    }
    ::close(fds[0]);
    if (pid < 0) {
      ::close(fds[1]);
      return refused("fork");
    }
    return Mapper(pid, fds[1]);
  }
  Mapper(Mapper&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), pipe_(std::exchange(other.pipe_, -1)) {}
  Mapper& operator=(Mapper&&) = delete;
  ~Mapper() { (void)end(false); }

  /// True when the ids are mapped.
  bool map() { return end(true); }

 private:
  Mapper(pid_t pid, int pipe) : pid_(pid), pipe_(pipe) {}
  bool end(bool go) {
    if (pid_ < 0) {
      return false;
    }
    if (go && ::write(pipe_, "g", 1) != 1) {
      go = false;
    }
    ::close(pipe_);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return go && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  pid_t pid_;
  int pipe_;
};

Result<void> enter_user_namespace(Report& report, std::optional<OwnUid>& own) {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  std::optional<Mapper> mapper;
  if (own) {
    own->inside = kNobody;
    GOBLIN_TRY(Mapper started, Mapper::start(*own));
    mapper.emplace(std::move(started));
  }
  if (::unshare(CLONE_NEWUSER) != 0) {
    report.missing(Layer::kUserNamespace, reason("unshare"));
    if (own) {
      own->inside = own->outside;
    }
    return {};
  }
  if (own) {
    if (!mapper->map()) {
      return fail(Code::kUnavailable,
                  "the runner cannot confine itself: the ids of its user namespace cannot be set");
    }
  } else {
    const std::string inside = std::to_string(kNobody);
    GOBLIN_TRY_VOID(write_file("/proc/self/setgroups", "deny"));
    GOBLIN_TRY_VOID(write_file("/proc/self/gid_map", inside + " " + std::to_string(gid) + " 1\n"));
    GOBLIN_TRY_VOID(write_file("/proc/self/uid_map", inside + " " + std::to_string(uid) + " 1\n"));
  }
  report.there(Layer::kUserNamespace);
  return {};
}

}  // namespace

Result<void> enter_namespaces(Report& report, std::optional<OwnUid>& own) {
  GOBLIN_TRY_VOID(enter_user_namespace(report, own));
  const struct {
    Layer layer;
    int flag;
  } all[] = {{Layer::kMountNamespace, CLONE_NEWNS},
             {Layer::kNetNamespace, CLONE_NEWNET},
             {Layer::kIpcNamespace, CLONE_NEWIPC},
             {Layer::kUtsNamespace, CLONE_NEWUTS},
             {Layer::kPidNamespace, CLONE_NEWPID}};
  for (const auto& one : all) {
    if (::unshare(one.flag) == 0) {
      report.there(one.layer);
    } else {
      report.missing(one.layer, reason("unshare"));
    }
  }
  constexpr std::string_view kName = "runner";
  if (report.has(Layer::kUtsNamespace) && (::sethostname(kName.data(), kName.size()) != 0 ||
                                           ::setdomainname(kName.data(), kName.size()) != 0)) {
    report.missing(Layer::kUtsNamespace, reason("sethostname"));
  }
  return {};
}

}  // namespace goblin::jail
