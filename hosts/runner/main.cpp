// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// goblin-runner: the child process of a daemon that loads one plugin and one backend and computes
// for them. Descriptor 3 is the socket; nothing else comes from outside.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "core/jail/attempts.hpp"
#include "core/jail/jail.hpp"
#include "core/plugin/library.hpp"
#include "core/plugin/runner_exit.hpp"
#include "hosts/runner/confine.hpp"
#include "hosts/runner/session.hpp"
#include "hosts/runner/socket.hpp"

namespace goblin::runner {
namespace {

[[noreturn]] void leave(int status, std::string_view why) {
  if (!why.empty()) {
    std::fprintf(stderr, "goblin-runner: %.*s\n", static_cast<int>(why.size()), why.data());
  }
  // No destructors: a plugin's threads may still run.
  std::_Exit(status);
}

/// What a failure at the socket means. Its end says nothing on stderr: it is how a parent that no
/// longer needs its runner tells it.
[[noreturn]] void leave_socket(const Error& error) {
  if (error.code == Code::kUnavailable) {
    leave(plugin::kRunnerSocket, "");
  }
  leave(plugin::kRunnerProtocol, error.message);
}

/// Requests on their way from the thread that reads to the one that works.
class Inbox {
 public:
  void push(Incoming frame) {
    {
      const std::lock_guard lock(mutex_);
      frames_.push_back(std::move(frame));
    }
    ready_.notify_one();
  }
  Incoming pop() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return !frames_.empty(); });
    Incoming frame = std::move(frames_.front());
    frames_.pop_front();
    return frame;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Incoming> frames_;
};

bool has_answer(wire::FrameType type) {
  return type != wire::FrameType::kSegmentMap && type != wire::FrameType::kSegmentUnmap;
}

/// Reads frames until the socket ends. A cancellation overtakes what waits, but
/// concerns only requests that were read before it.
void read_frames(Socket& socket, Inbox& inbox, Cancellation& cancellation) {
  try {
    for (;;) {
      auto frame = socket.receive();
      if (!frame) {
        leave_socket(frame.error());
      }
      if (frame->type == wire::FrameType::kCancelWork) {
        cancellation.cancelled = cancellation.received.load();
        continue;
      }
      if (has_answer(frame->type)) {
        ++cancellation.received;
      }
      inbox.push(std::move(*frame));
    }
  } catch (const std::bad_alloc&) {
    leave(plugin::kRunnerMemory, "no memory for a request");
  }
}

void serve(jail::Jail& jail) {
  Socket socket(plugin::kRunnerSocketFd);
  Inbox inbox;
  Cancellation cancellation;
  if (auto sent =
          socket.send(wire::FrameType::kRunnerHello,
                      encode(wire::RunnerHello{GOBLIN_ABI_MAJOR, GOBLIN_ABI_MINOR,
                                               static_cast<std::uint32_t>(jail.pid_outside())}));
      !sent) {
    leave_socket(sent.error());
  }
  Session session(cancellation, [&jail](std::uint32_t threads) { return jail.close(threads); });
  const auto handle = [&](Incoming frame) {
    const auto answer = session.handle(std::move(frame));
    std::fflush(stdout);  // a runner ends without notice, and what a plugin printed is for a log
    if (!answer) {
      leave(plugin::kRunnerProtocol, answer.error().message);
    }
    if (*answer) {
      if (auto sent = socket.send((*answer)->type, (*answer)->message); !sent) {
        leave_socket(sent.error());
      }
    }
  };
  // The jail is closed on the way, which takes a single thread.
  auto load = socket.receive();
  if (!load) {
    leave_socket(load.error());
  }
  handle(std::move(*load));
  std::thread(read_frames, std::ref(socket), std::ref(inbox), std::ref(cancellation)).detach();
  for (;;) {
    Incoming frame = inbox.pop();
    if (has_answer(frame.type)) {
      ++cancellation.running;
    }
    handle(std::move(frame));
  }
}

struct Options {
  jail::Policy policy;
  bool probe = false;
  std::string backend;  ///< of a probe
  std::string device;
};

/// For daemons and `goblin doctor`: closes a jail, tries to get out, and prints what came of it.
/// core/plugin/jail_probe.cpp reads that.
[[noreturn]] void probe(Result<jail::Jail> jail, const Options& options) {
  constexpr std::uint32_t kThreads = 8;
  std::optional<plugin::BackendLibrary> backend;
  const auto close = [&]() -> Result<void> {
    if (!jail) {
      return fail(jail.error());
    }
    if (!options.backend.empty()) {
      GOBLIN_TRY(backend, plugin::BackendLibrary::load(options.backend, options.device));
      std::printf("device\t%s\n", backend->device_name().c_str());
    }
    return jail->close(kThreads);
  };
  const Result<void> closed = close();
  if (jail) {
    std::fputs(jail->report().text().c_str(), stdout);
  }
  if (closed && jail->report().left_out.empty()) {
    for (const std::string& escape : jail::attempt_escapes()) {
      std::printf("escaped\t%s\n", escape.c_str());
    }
  }
  if (!closed) {
    std::printf("refused\t%s\n", closed.error().message.c_str());
  }
  std::fflush(stdout);
  leave(0, "");
}

/// --probe, and perhaps --backend PATH and --device NAME; or --nice N and --parent PID. With both
/// --require LAYER and --cgroup DIRECTORY, any number.
bool parse(int argc, char** argv, Options& out) {
  int i = 1;
  for (; i < argc; ++i) {
    const std::string_view name(argv[i]);
    if (name == "--probe") {
      out.probe = true;
      continue;
    }
    if (++i == argc) {
      return false;
    }
    const std::string_view text(argv[i]);
    if (name == "--require") {
      auto layer = jail::parse_layer(text);
      if (!layer) {
        return false;
      }
      out.policy.require.push_back(*layer);
      continue;
    }
    if (name == "--backend" || name == "--device") {
      (name == "--backend" ? out.backend : out.device) = text;
      continue;
    }
    if (name == "--cgroup") {
      out.policy.cgroups.emplace_back(text);
      continue;
    }
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      return false;
    }
    if (name == "--nice") {
      out.policy.nice = value;
    } else if (name == "--parent") {
      out.policy.parent = value;
    } else {
      return false;
    }
  }
  return true;
}

/// A probe has no daemon, but what is opened later must not get these numbers.
void stand_in_for_daemon() {
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  for (const int fd : {plugin::kRunnerSocketFd, plugin::kRunnerNoteFd}) {
    if (nothing != fd) {
      ::dup3(nothing, fd, O_CLOEXEC);
    }
  }
}

bool has_socket() {
  int type = 0;
  socklen_t size = sizeof type;
  return ::getsockopt(plugin::kRunnerSocketFd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
}

}  // namespace
}  // namespace goblin::runner

int main(int argc, char** argv) {
  using namespace goblin;
  runner::Options options;
  if (!runner::parse(argc, argv, options) || (!options.probe && !runner::has_socket())) {
    runner::leave(plugin::kRunnerUsage, "started by the daemons of GPU Goblin, not by hand");
  }
  jail::Policy& policy = options.policy;
  policy.last_fd = plugin::kRunnerSocketFd;
  policy.note = plugin::kRunnerNoteFd;
  policy.forbidden_exit = plugin::kRunnerForbidden;
  ::fcntl(plugin::kRunnerSocketFd, F_SETFD, FD_CLOEXEC);
  if (options.probe) {
    runner::stand_in_for_daemon();
  }
  auto jail = jail::Jail::enter(policy);
  if (options.probe) {
    runner::probe(std::move(jail), options);
  }
  if (!jail) {
    const std::string& why = jail.error().message;
    [[maybe_unused]] const auto n = ::pwrite(plugin::kRunnerNoteFd, why.data(), why.size(), 0);
    runner::leave(plugin::kRunnerConfine, why);
  }
  runner::reset_float_environment();
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  try {
    runner::serve(*jail);
  } catch (const std::bad_alloc&) {
    runner::leave(plugin::kRunnerMemory, "no memory left");
  }
}
