// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/turns.hpp"

namespace goblin::lab {

net::Task<Turns::Turn> Turns::take(const void* client) {
  auto waiter = std::make_shared<Waiter>(loop_);
  Client& queue = clients_[client];
  if (queue.waiting.empty()) {
    rotation_.push_back(client);
  }
  queue.waiting.push_back(waiter);
  // A coroutine that is destroyed while it waits must not keep a turn, nor be given one.
  struct Watch {
    Turns& turns;
    const void* client;
    std::shared_ptr<Waiter> waiter;
    ~Watch() {
      if (waiter && waiter->granted) {
        turns.leave(client);
      } else if (waiter) {
        waiter->gone = true;
      }
    }
  };
  Watch watch{*this, client, waiter};
  advance();
  while (!waiter->granted) {
    co_await waiter->called.wait();
  }
  watch.waiter.reset();
  co_return Turn(*this, client);
}

void Turns::leave(const void* client) {
  --under_way_;
  const auto it = clients_.find(client);
  if (--it->second.under_way == 0 && it->second.waiting.empty()) {
    clients_.erase(it);
  }
  advance();
}

void Turns::advance() {
  while (under_way_ < at_once_ && serve_one()) {
  }
}

/// The first in the rotation who may have one more; false when nobody may.
bool Turns::serve_one() {
  for (std::size_t looked = rotation_.size(); looked > 0; --looked) {
    const void* const client = rotation_.front();
    rotation_.pop_front();
    Client& queue = clients_.at(client);
    while (!queue.waiting.empty() && queue.waiting.front()->gone) {
      queue.waiting.pop_front();
    }
    if (queue.waiting.empty()) {
      if (queue.under_way == 0) {
        clients_.erase(client);
      }
      continue;
    }
    if (queue.under_way >= each_) {
      rotation_.push_back(client);
      continue;
    }
    const auto waiter = queue.waiting.front();
    queue.waiting.pop_front();
    if (!queue.waiting.empty()) {
      rotation_.push_back(client);
    }
    ++queue.under_way;
    ++under_way_;
    waiter->granted = true;
    waiter->called.set();
    return true;
  }
  return false;
}

}  // namespace goblin::lab
