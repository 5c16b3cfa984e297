// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "core/net/accept_loop.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/net/stream.hpp"

namespace goblin::net {

/// Outlives the listener: connections are counted until they close.
struct AcceptLoop::Counts {
  struct Network {
    std::uint32_t open = 0;
    std::list<Seat*> greeting;  ///< not admitted yet, the oldest first
  };
  std::uint32_t total = 0;
  std::size_t greeting = 0;
  std::map<std::string, Network> by_network;
};

class AcceptLoop::Seat final : public Place {
 public:
  Seat(std::shared_ptr<Counts> counts, std::string network)
      : counts_(std::move(counts)), network_(std::move(network)) {
    auto& network_counts = counts_->by_network[network_];
    ++counts_->total;
    ++counts_->greeting;
    ++network_counts.open;
    at_ = network_counts.greeting.insert(network_counts.greeting.end(), this);
  }
  ~Seat() override {
    admitted();
    --counts_->total;
    const auto found = counts_->by_network.find(network_);
    if (--found->second.open == 0) {
      counts_->by_network.erase(found);
    }
  }
  void admitted() override {
    if (std::exchange(greeting_, false)) {
      --counts_->greeting;
      counts_->by_network.at(network_).greeting.erase(at_);
      end_ = nullptr;
    }
  }
  void gives_way_by(std::function<void()> end) override { end_ = std::move(end); }
  void give_way() {
    // It goes from the list now, whenever the connection lets go of it.
    const auto end = std::exchange(end_, nullptr);
    admitted();
    if (end) {
      end();
    }
  }

 private:
  std::shared_ptr<Counts> counts_;
  std::string network_;
  std::list<Seat*>::iterator at_;
  std::function<void()> end_;
  bool greeting_ = true;
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
  const auto open_there = [&] {
    const auto found = counts_->by_network.find(network);
    return found == counts_->by_network.end() ? 0 : found->second.open;
  };
  // Connections whose peers are not admitted yet give way: an honest one takes milliseconds to be.
  while (network != "local" && open_there() >= limits_.per_address) {
    if (!make_way(&network)) {
      tell_refused(from);
      return;
    }
  }
  while (counts_->total >= limits_.connections) {
    if (!make_way(nullptr)) {
      tell_refused(from);
      return;
    }
  }
  while (counts_->greeting >= limits_.handshakes && make_way(nullptr)) {
  }
  const auto self = greetings_.emplace(greetings_.end());
  auto place = std::make_shared<Seat>(counts_, network);
  place->gives_way_by([this, self] { greetings_.erase(self); });
  self->task = greet(self, std::move(socket), from, std::move(place));
  self->task.start();
}

bool AcceptLoop::make_way(const std::string* network) {
  auto& networks = counts_->by_network;
  const auto chosen =
      network != nullptr
          ? networks.find(*network)
          : std::max_element(networks.begin(), networks.end(), [](const auto& a, const auto& b) {
              return a.second.greeting.size() < b.second.greeting.size();
            });
  if (chosen == networks.end() || chosen->second.greeting.empty()) {
    return false;
  }
  chosen->second.greeting.front()->give_way();
  return true;
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
                             SocketAddress from, std::shared_ptr<Place> place) {
  auto channel = co_await handshake_(std::move(socket), from, std::move(place));
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
