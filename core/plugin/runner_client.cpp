// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/plugin/runner_client.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "core/net/channel.hpp"
#include "core/plugin/child_output.hpp"
#include "core/plugin/child_process.hpp"
#include "core/plugin/note.hpp"
#include "core/plugin/runner_exit.hpp"
#include "core/plugin/runner_process.hpp"
#include "goblin/abi/types.h"

namespace goblin::plugin {
namespace {

using net::Frame;
using net::Milliseconds;
using net::Task;
using net::TimePoint;
using wire::FrameType;

// A runner that has closed its socket but does not end is killed after so long.
constexpr Milliseconds kEnd{2'000};
// How often a runner that works is looked at.
constexpr Milliseconds kLook{250};

struct Request {
  explicit Request(net::Loop& loop) : done(loop) {}
  Frame frame;
  FrameType answer{};
  Milliseconds deadline{};
  std::uint64_t number = 0;
  Result<wire::Bytes> result = fail(Code::kUnavailable, "the runner was closed");
  net::Event done;

  void finish(Result<wire::Bytes> with) {
    result = std::move(with);
    done.set();
  }
};

}  // namespace

struct RunnerClient::State {
  State(net::Loop& on, ChildProcess process, net::UniqueFd file,
        std::unique_ptr<net::Channel> socket)
      : loop(on),
        child(std::move(process)),
        note(std::move(file)),
        channel(std::move(socket)),
        requests(on),
        ended(on),
        deadline_changed(on) {}

  net::Loop& loop;
  std::optional<RunnerGroup> group;  ///< before the child, which must be gone first
  ChildProcess child;
  net::UniqueFd note;  ///< where the spawner writes
  pid_t pid = 0;       ///< of the runner itself; 0: not known yet
  std::uint32_t most_threads = 0;
  std::unique_ptr<net::Channel> channel;
  net::Queue<std::shared_ptr<Request>> requests;
  net::Event ended;             ///< the process has been reaped, and `error` says why
  net::Event deadline_changed;  ///< the watchdog must look again
  std::optional<Error> error;   ///< why the runner is gone or going
  std::optional<TimePoint> expires;
  std::string what_expires;
  std::optional<TimePoint> paused_since;
  std::vector<wire::KindDescription> kinds;
  std::string device;
  std::uint32_t next_segment = 1;
  std::uint64_t requested = 0;          ///< number of the latest request
  std::uint64_t cancelled_through = 0;  ///< requests up to this number were told to stop,
  std::optional<Milliseconds> grace;    ///< … for so long
  bool closing = false;

  /// The first reason stands.
  void kill(Error why) {
    if (!error) {
      error = std::move(why);
    }
    child.kill();
    deadline_changed.set();
  }
  void arm(Milliseconds deadline, std::string what) {
    expires = loop.now() + deadline;
    what_expires = std::move(what);
    if (paused_since) {
      paused_since = loop.now();
    }
    deadline_changed.set();
  }
  void disarm() { expires.reset(); }
  /// Tells what the runner has been sent to stop; it has `grace` to do so.
  Task<void> send_cancel() {
    if (const auto most = grace; most && expires && *expires > loop.now() + *most) {
      arm(*most, "within " + std::to_string(most->count()) + " ms after it was told to stop");
    }
    (void)co_await channel->send(net::make_frame(FrameType::kCancelWork, wire::CancelWork{}));
  }

  /// Reads frames until one of type `wanted` comes.
  static Task<Result<wire::Bytes>> receive(std::shared_ptr<State> self, FrameType wanted) {
    Result<Frame> frame = co_await self->channel->receive();
    if (frame && frame->type == wanted && frame->payload.empty()) {
      co_return std::move(frame->message);
    }
    if (frame) {
      self->kill({Code::kCorrupt, "the runner sent frame type " +
                                      std::to_string(static_cast<unsigned>(frame->type)) +
                                      " instead of an answer: a plugin has taken it over"});
    } else if (frame.error().code == Code::kCorrupt) {
      self->kill({Code::kCorrupt, "the runner broke the protocol: " + frame.error().message});
    } else if (const auto done = co_await self->ended.wait_for(kEnd); !done) {
      self->kill(socket_closed());
    }
    co_await self->ended.wait();
    co_return fail(*self->error);
  }

  /// Sends requests one after another.
  static Task<void> pump(std::shared_ptr<State> self) {
    while (auto next = co_await self->requests.pop()) {
      Request& request = **next;
      if (self->error) {
        request.finish(fail(*self->error));
        continue;
      }
      self->arm(request.deadline, "within " + std::to_string(request.deadline.count()) + " ms");
      // A failed send shows in receive: the runner is gone.
      (void)co_await self->channel->send(std::move(request.frame));
      if (request.number <= self->cancelled_through) {
        co_await self->send_cancel();  // the runner did not have it when that was said
      }
      Result<wire::Bytes> answer = co_await receive(self, request.answer);
      self->disarm();
      request.finish(std::move(answer));
    }
  }

  /// Reaps the child, whenever it ends.
  static Task<void> watch_exit(std::shared_ptr<State> self) {
    for (;;) {
      if (auto readable = co_await self->loop.readable(self->child.pidfd()); !readable) {
        self->kill(readable.error());
      }
      if (const auto status = self->child.poll()) {
        if (!self->error) {
          self->error = explain(*status, read_note(self->note));
        }
        break;
      }
    }
    self->ended.set();
    self->deadline_changed.set();
  }

  /// Kills the runner when a request takes too long, or it has too many threads where nobody else
  /// counts them.
  static Task<void> watch_deadline(std::shared_ptr<State> self) {
    while (!self->ended.is_set() && !self->closing) {
      self->deadline_changed.reset();
      if (!self->expires || self->paused_since || self->error) {
        co_await self->deadline_changed.wait();
        continue;
      }
      const auto left = *self->expires - self->loop.now();
      if (left <= TimePoint::duration::zero()) {
        self->kill({Code::kUnavailable, "the plugin did not answer " + self->what_expires +
                                            ", so its runner was "
                                            "killed"});
        continue;
      }
      if (const auto threads = read_usage(self->pid).threads; threads > self->most_threads) {
        self->kill({Code::kExhausted,
                    "the plugin has " + std::to_string(threads) + " threads, and may have " +
                        std::to_string(self->most_threads) + ": its runner was killed"});
        continue;
      }
      co_await self->deadline_changed.wait_for(
          std::min(kLook, std::chrono::ceil<Milliseconds>(left)));
    }
  }

  /// Queues a request and waits for its answer. An answer that cannot be read ends the runner.
  template <typename Reply>
  static Task<Result<Reply>> ask(std::shared_ptr<State> self, Frame frame, FrameType answer,
                                 Milliseconds deadline, Result<Reply> (*decode)(wire::ByteView)) {
    auto request = std::make_shared<Request>(self->loop);
    request->frame = std::move(frame);
    request->answer = answer;
    request->deadline = deadline;
    request->number = ++self->requested;
    self->requests.push(request);
    co_await request->done.wait();
    if (!request->result) {
      co_return fail(request->result.error());
    }
    Result<Reply> reply = decode(*request->result);
    if (!reply) {
      self->kill({Code::kCorrupt, "the runner's answer cannot be read: " + reply.error().message});
      co_return fail(*self->error);
    }
    co_return reply;
  }

  /// Sends a frame that has no answer.
  static Task<Result<void>> tell(std::shared_ptr<State> self, Frame frame) {
    if (self->error) {
      co_return fail(*self->error);
    }
    if (auto sent = co_await self->channel->send(std::move(frame)); !sent) {
      co_await self->ended.wait_for(kEnd);
      co_return fail(self->error ? *self->error : sent.error());
    }
    co_return Result<void>();
  }
};

namespace {

/// decode, or the error of the exchange.
template <typename Message>
Result<Message> decoded(Result<wire::Bytes> bytes, Result<Message> (*decode)(wire::ByteView)) {
  if (!bytes) {
    return fail(std::move(bytes).error());
  }
  return decode(*bytes);
}

}  // namespace

RunnerClient::RunnerClient(std::shared_ptr<State> state) : state_(std::move(state)) {}

RunnerClient::~RunnerClient() {
  state_->closing = true;
  state_->kill({Code::kUnavailable, "the runner was closed"});
  state_->requests.close();
}

Task<Result<std::unique_ptr<RunnerClient>>> RunnerClient::start(net::Loop& loop,
                                                                const RunnerOptions& options) {
  return start_copied(loop, options);
}

Task<Result<std::unique_ptr<RunnerClient>>> RunnerClient::start_copied(net::Loop& loop,
                                                                       RunnerOptions options) {
  GOBLIN_CO_TRY(auto sockets, make_sockets());
  GOBLIN_CO_TRY(net::UniqueFd plugin_fd, duplicate(options.plugin_fd));
  ChildProcess::Options how;
  how.program = options.runner;
  how.arguments = {"--nice", std::to_string(options.nice), "--parent", std::to_string(::getpid())};
  for (const jail::Layer layer : options.require) {
    how.arguments.insert(how.arguments.end(), {"--require", std::string(jail::name(layer))});
  }
  std::optional<RunnerGroup> group;
  if (options.groups) {
    // Without one the runner says that the layer is missing, and judges whether it must be there.
    if (auto made = options.groups->make(options.memory_bytes, most_threads(options.threads))) {
      group.emplace(std::move(*made));
      for (const std::string& directory : group->directories()) {
        how.arguments.insert(how.arguments.end(), {"--cgroup", directory});
      }
    }
  }
  how.socket = std::move(sockets.second);
  GOBLIN_CO_TRY(how.note, make_note());
  GOBLIN_CO_TRY(net::UniqueFd note, duplicate(how.note.get()));
  how.show_stderr = options.show_stderr;
  net::UniqueFd output;
  if (options.output) {
    GOBLIN_CO_TRY(auto ends, make_pipe());
    output = std::move(ends.first);
    how.output = std::move(ends.second);
  }
  GOBLIN_CO_TRY(ChildProcess child, ChildProcess::start(how));
  how.socket.reset();  // or its end would never be seen
  how.output.reset();
  if (output) {
    loop.spawn(read_output(loop, std::move(output), options.output));
  }
  GOBLIN_CO_TRY(auto channel, net::adopt_unix(loop, std::move(sockets.first)));
  channel->set_state(wire::PeerState::kOpen);
  channel->set_limits({.idle = Milliseconds(0)});
  auto state = std::make_shared<State>(loop, std::move(child), std::move(note), std::move(channel));
  if (group) {
    state->group.emplace(std::move(*group));
  }
  state->most_threads = most_threads(options.threads);
  // From here on every way out kills and reaps the child.
  std::unique_ptr<RunnerClient> client(new RunnerClient(state));
  loop.spawn(State::watch_exit(state));
  loop.spawn(State::watch_deadline(state));
  state->arm(options.startup,
             "while it was loaded, within " + std::to_string(options.startup.count()) + " ms");

  Result<wire::Bytes> bytes = co_await State::receive(state, FrameType::kRunnerHello);
  GOBLIN_CO_TRY(const wire::RunnerHello hello,
                decoded(std::move(bytes), wire::decode_runner_hello));
  if (hello.abi_major != GOBLIN_ABI_MAJOR || hello.abi_minor != GOBLIN_ABI_MINOR) {
    co_return fail(Code::kUnsupported,
                   "the runner " + options.runner + " has ABI " + std::to_string(hello.abi_major) +
                       "." + std::to_string(hello.abi_minor) + ", this daemon " +
                       std::to_string(GOBLIN_ABI_MAJOR) + "." + std::to_string(GOBLIN_ABI_MINOR) +
                       ": install both from one version");
  }
  state->pid = static_cast<pid_t>(hello.pid);
  wire::RunnerLoad request;
  request.backend = options.backend;
  request.device = options.device;
  request.threads = options.threads;
  request.memory_bytes = options.memory_bytes;
  Frame load = net::make_frame(FrameType::kRunnerLoad, request);
  load.fds.push_back(std::move(plugin_fd));
  (void)co_await state->channel->send(std::move(load));
  bytes = co_await State::receive(state, FrameType::kRunnerLoaded);
  GOBLIN_CO_TRY(wire::RunnerLoaded loaded, decoded(std::move(bytes), wire::decode_runner_loaded));
  state->disarm();
  if (loaded.status != GOBLIN_OK) {
    co_return fail(code_from_status(loaded.status), loaded.message);
  }
  state->kinds = std::move(loaded.kinds);
  state->device = std::move(loaded.device);
  loop.spawn(State::pump(state));
  co_return client;
}

const std::vector<wire::KindDescription>& RunnerClient::kinds() const { return state_->kinds; }
const std::string& RunnerClient::device() const { return state_->device; }
int RunnerClient::pid() const { return state_->pid; }
bool RunnerClient::alive() const { return !state_->error && !state_->ended.is_set(); }

Task<Error> RunnerClient::exited() {
  auto state = state_;
  co_await state->ended.wait();
  co_return *state->error;
}

Task<Result<std::uint32_t>> RunnerClient::map(int fd, std::uint64_t size, bool writable) {
  auto state = state_;
  GOBLIN_CO_TRY(net::UniqueFd copy, writable ? duplicate(fd) : read_only(fd));
  const std::uint32_t segment = state->next_segment++;
  Frame frame = net::make_frame(FrameType::kSegmentMap, wire::SegmentMap{segment, size, writable});
  frame.fds.push_back(std::move(copy));
  GOBLIN_CO_TRY_VOID(co_await State::tell(state, std::move(frame)));
  co_return segment;
}

Task<Result<void>> RunnerClient::unmap(std::vector<std::uint32_t> segments) {
  wire::SegmentUnmap request;
  request.segments = std::move(segments);
  return State::tell(state_, net::make_frame(FrameType::kSegmentUnmap, request));
}

// Each request: what it is called, its message and answer, and the answer's reader.
#define GOBLIN_RUNNER_REQUEST(name, Request, Reply, decode)                                       \
  Task<Result<wire::Reply>> RunnerClient::name(const wire::Request& request, Deadline deadline) { \
    return State::ask(state_, net::make_frame(FrameType::k##Request, request),                    \
                      FrameType::k##Reply, deadline, wire::decode);                               \
  }
GOBLIN_RUNNER_REQUEST(validate, Validate, Validated, decode_validated)
GOBLIN_RUNNER_REQUEST(plan_open, PlanOpen, PlanOpened, decode_plan_opened)
GOBLIN_RUNNER_REQUEST(plan_next, PlanNext, Planned, decode_planned)
GOBLIN_RUNNER_REQUEST(accept, Accept, Accepted, decode_accepted)
GOBLIN_RUNNER_REQUEST(recall, Recall, Done, decode_done)
GOBLIN_RUNNER_REQUEST(execute, Execute, Executed, decode_executed)
GOBLIN_RUNNER_REQUEST(check, Check, Checked, decode_checked)
GOBLIN_RUNNER_REQUEST(compare, Compare, Checked, decode_checked)
#undef GOBLIN_RUNNER_REQUEST

Task<Result<wire::Done>> RunnerClient::finish(Deadline deadline) {
  return State::ask(state_, net::make_frame(FrameType::kFinish, wire::Finish{}), FrameType::kDone,
                    deadline, wire::decode_done);
}

void RunnerClient::cancel_work(std::optional<Milliseconds> grace) {
  if (!alive()) {
    return;
  }
  state_->cancelled_through = state_->requested;
  state_->grace = grace;
  auto send = [](std::shared_ptr<State> state) -> Task<void> { co_await state->send_cancel(); };
  state_->loop.spawn(send(state_));
}

void RunnerClient::kill() { state_->kill({Code::kUnavailable, "the runner was stopped"}); }

void RunnerClient::pause() {
  if (!state_->paused_since) {
    state_->paused_since = state_->loop.now();
    state_->child.signal(SIGSTOP);
  }
}

void RunnerClient::resume() {
  if (state_->paused_since) {
    if (state_->expires) {
      *state_->expires += state_->loop.now() - *state_->paused_since;
    }
    state_->paused_since.reset();
    state_->child.signal(SIGCONT);
    state_->deadline_changed.set();
  }
}

RunnerUsage RunnerClient::usage() const {
  return state_->ended.is_set() ? RunnerUsage() : read_usage(state_->pid).usage;
}

}  // namespace goblin::plugin
