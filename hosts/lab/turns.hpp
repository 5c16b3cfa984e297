// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Clients take turns at what is dear: the disk, runners that are started. However much one client
// asks for, another waits for the turns under way only.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "core/net/loop.hpp"

namespace goblin::lab {

/// Loop's thread only. Outlives the coroutines that wait for it.
class Turns {
 public:
  /// `at_once`: turns under way of all clients; `each`: of one client.
  Turns(net::Loop& loop, std::size_t at_once, std::size_t each)
      : loop_(loop), at_once_(at_once), each_(each) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// A turn under way; it ends with this.
  class Turn {
   public:
    Turn(Turn&& other) noexcept
        : turns_(std::exchange(other.turns_, nullptr)), client_(other.client_) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (turns_ != nullptr) {
        turns_->leave(client_);
      }
    }

   private:
    friend class Turns;
    Turn(Turns& turns, const void* client) : turns_(&turns), client_(client) {}
    Turns* turns_;
    const void* client_;
  };
  /// Waits for a turn of a client (any address that names it). Clients that wait are served in
  /// rotation, requests of one client in order.
  net::Task<Turn> take(const void* client);
  [[nodiscard]] std::size_t under_way() const { return under_way_; }

 private:
  struct Waiter {
    explicit Waiter(net::Loop& loop) : called(loop) {}
    net::Event called;
    bool granted = false, gone = false;
  };
  struct Client {
    std::size_t under_way = 0;
    std::deque<std::shared_ptr<Waiter>> waiting;
  };
  void leave(const void* client);
  void advance();
  bool serve_one();

  net::Loop& loop_;
  const std::size_t at_once_, each_;
  std::size_t under_way_ = 0;
  std::map<const void*, Client> clients_;
  std::deque<const void*> rotation_;  ///< those that wait; the next one first
};

}  // namespace goblin::lab
