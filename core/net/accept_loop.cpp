// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/net/accept_loop.hpp"

#include <cerrno>

#include "core/net/stream.hpp"

namespace goblin::net {

/// Outlives the listener: connections are counted until they close.
struct AcceptLoop::Counts {
  std::uint32_t total = 0;
  std::map<std::string, std::uint32_t> by_network;
};

AcceptLoop::AcceptLoop(Loop& loop, UniqueFd socket, ListenerLimits limits, Handshake handshake)
    : loop_(reactor(loop)),
      socket_(std::move(socket)),
      limits_(std::move(limits)),
      handshake_(std::move(handshake)),
      counts_(std::make_shared<Counts>()),
      pause_(loop_.timer()),
      ready_(std::make_shared<Queue<std::unique_ptr<Channel>>>(loop)) {}

AcceptLoop::~AcceptLoop() {
  *alive_ = false;
  close();
}

Result<std::unique_ptr<AcceptLoop>> AcceptLoop::create(Loop& loop, UniqueFd socket,
                                                       ListenerLimits limits, Handshake handshake) {
  if (::listen(socket.get(), 1024) != 0) {
    return fail(errno_error(Code::kUnavailable, "cannot listen", errno));
  }
  std::unique_ptr<AcceptLoop> made(
      new AcceptLoop(loop, std::move(socket), std::move(limits), std::move(handshake)));
  GOBLIN_TRY(made->watch_, made->loop_.watch(made->socket_.get()));
  made->wait();
  return made;
}

void AcceptLoop::close() {
  watch_.reset();
  pause_->cancel();
  socket_.reset();
  greetings_.clear();
  ready_->close();
}

Task<Result<std::unique_ptr<Channel>>> AcceptLoop::accept() {
  const auto ready = ready_;
  auto channel = co_await ready->pop();
  if (!channel) {
    co_return fail(Code::kUnavailable, "the listener was closed");
  }
  co_return std::move(*channel);
}

void AcceptLoop::wait() {
  watch_->on_readable([this] { accept_all(); });
}

void AcceptLoop::accept_all() {
  // Others get their turn after so many.
  for (int i = 0; i < 64; ++i) {
    SocketAddress from;
    from.length = sizeof from.storage;
    UniqueFd socket(::accept4(socket_.get(), reinterpret_cast<sockaddr*>(&from.storage),
                              &from.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        // Nothing to accept with; the connection stays in the backlog and would wake us at once.
        pause_->start(loop_.now() + Milliseconds(100), [this] { wait(); });
        return;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        break;
      }
      continue;  // that connection went before we took it
    }
    admit(std::move(socket), from);
  }
  wait();
}

void AcceptLoop::admit(UniqueFd socket, const SocketAddress& from) {
  const std::string network = from.network();
  if (counts_->total >= limits_.connections ||
      (network != "local" && counts_->by_network[network] >= limits_.per_address)) {
    tell_refused(from);
    return;
  }
  ++counts_->total;
  ++counts_->by_network[network];
  const std::shared_ptr<void> lease(nullptr, [counts = counts_, network](void*) {
    --counts->total;
    if (--counts->by_network[network] == 0) {
      counts->by_network.erase(network);
    }
  });
  if (greetings_.size() >= limits_.handshakes) {
    // An honest handshake takes milliseconds: the oldest is the most likely to be silent.
    greetings_.pop_front();
  }
  const auto self = greetings_.emplace(greetings_.end());
  self->task = greet(self, std::move(socket), from, lease);
  self->task.start();
}

void AcceptLoop::tell_refused(const SocketAddress& from) {
  constexpr Milliseconds kTellEvery{60'000};
  if (!limits_.refused || (told_refused_ && loop_.now() - *told_refused_ < kTellEvery)) {
    return;
  }
  told_refused_ = loop_.now();
  limits_.refused(counts_->total >= limits_.connections
                      ? "connections are closed: " + std::to_string(counts_->total) +
                            " are open, as many as may be"
                      : "connections from " + from.text() +
                            " are closed: " + std::to_string(limits_.per_address) +
                            " are open, as many as one address may have");
}

Task<void> AcceptLoop::greet(std::list<Greeting>::iterator self, UniqueFd socket,
                             SocketAddress from, std::shared_ptr<void> lease) {
  auto channel = co_await handshake_(std::move(socket), from, std::move(lease));
  if (channel) {
    ready_->push(std::move(*channel));
  }
  // It cannot destroy itself.
  ended_.splice(ended_.end(), greetings_, self);
  loop_.post([this, alive = alive_] {
    if (*alive) {
      ended_.clear();
    }
  });
}

}  // namespace goblin::net
