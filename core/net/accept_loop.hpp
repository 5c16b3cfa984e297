// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Accepts connections, counts them and runs their handshakes beside each other: what TLS and Unix
// listeners share. For this folder's .cpp files only.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <optional>

#include "core/net/channel.hpp"
#include "core/net/place.hpp"
#include "core/net/reactor.hpp"
#include "core/net/sockets.hpp"

namespace goblin::net {

/// Loop's thread only.
class AcceptLoop {
 public:
  /// Makes a channel of an accepted socket (handshake included); it keeps `place` while it is open.
  using Handshake = std::function<Task<Result<std::unique_ptr<Channel>>>(
      UniqueFd socket, SocketAddress from, std::shared_ptr<Place> place)>;

  /// `socket`: bound, not yet listening.
  static Result<std::unique_ptr<AcceptLoop>> create(Loop& loop, UniqueFd socket,
                                                    ListenerLimits limits, Handshake handshake);
  ~AcceptLoop();
  Task<Result<std::unique_ptr<Channel>>> accept();
  void close();
  [[nodiscard]] int fd() const { return socket_.get(); }

 private:
  struct Counts;
  class Seat;
  struct Greeting {
    Task<void> task;
  };

  AcceptLoop(Loop& loop, UniqueFd socket, ListenerLimits limits, Handshake handshake);
  void wait();
  void accept_all();
  void admit(UniqueFd socket, const SocketAddress& from);
  /// Ends the oldest connection that is not admitted yet, of `network` or, where that is null, of
  /// the one that has most of them: whoever opens many crowds out himself. False: there is none.
  bool make_way(const std::string* network);
  void tell_refused(const SocketAddress& from);
  Task<void> greet(std::list<Greeting>::iterator self, UniqueFd socket, SocketAddress from,
                   std::shared_ptr<Place> place);

  Reactor& loop_;
  UniqueFd socket_;
  ListenerLimits limits_;
  Handshake handshake_;
  std::shared_ptr<Counts> counts_;
  std::unique_ptr<FdWatch> watch_;
  std::unique_ptr<Timer> pause_;
  std::shared_ptr<Queue<std::unique_ptr<Channel>>> ready_;
  std::list<Greeting> greetings_, ended_;
  std::optional<TimePoint> told_refused_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace goblin::net
