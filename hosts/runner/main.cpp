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
#include <string_view>
#include <thread>

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

void serve() {
  Socket socket(plugin::kRunnerSocketFd);
  Inbox inbox;
  Cancellation cancellation;
  if (auto sent = socket.send(wire::FrameType::kRunnerHello,
                              encode(wire::RunnerHello{GOBLIN_ABI_MAJOR, GOBLIN_ABI_MINOR}));
      !sent) {
    leave_socket(sent.error());
  }
  std::thread(read_frames, std::ref(socket), std::ref(inbox), std::ref(cancellation)).detach();
  Session session(cancellation);
  for (;;) {
    Incoming frame = inbox.pop();
    if (has_answer(frame.type)) {
      ++cancellation.running;
    }
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
  }
}

/// --nice N --parent PID
bool parse(int argc, char** argv, Confinement& out) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name(argv[i]);
    const std::string_view text(argv[i + 1]);
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      return false;
    }
    if (name == "--nice") {
      out.nice = value;
    } else if (name == "--parent") {
      out.parent = value;
    } else {
      return false;
    }
  }
  return argc % 2 == 1;
}

}  // namespace
}  // namespace goblin::runner

int main(int argc, char** argv) {
  using namespace goblin;
  runner::Confinement options;
  int type = 0;
  socklen_t size = sizeof type;
  if (!runner::parse(argc, argv, options) ||
      ::getsockopt(plugin::kRunnerSocketFd, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    runner::leave(plugin::kRunnerUsage, "started by the daemons of GPU Goblin, not by hand");
  }
  ::fcntl(plugin::kRunnerSocketFd, F_SETFD, FD_CLOEXEC);
  if (auto confined = runner::confine(options); !confined) {
    runner::leave(plugin::kRunnerConfine, confined.error().message);
  }
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  try {
    runner::serve();
  } catch (const std::bad_alloc&) {
    runner::leave(plugin::kRunnerMemory, "no memory left");
  }
}
