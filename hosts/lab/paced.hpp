// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The latest value of a peer that may send many: what is done with one costs more than it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "core/net/loop.hpp"

namespace goblin::lab {

/// Loop's thread only. Hands a value on at once when none was for a `pause`, else when that is
/// over: of those that come within it the last. One that equals what was handed on last is nothing
/// new. Destroying it drops what waits.
template <typename T>
class Paced {
 public:
  Paced(net::Loop& loop, net::Milliseconds pause, std::function<void(const T&)> apply)
      : state_(std::make_shared<State>(State{loop, pause, std::move(apply), {}, {}, false})) {}
  ~Paced() { state_->apply = nullptr; }
  Paced(const Paced&) = delete;
  Paced& operator=(const Paced&) = delete;

  void set(T value) {
    state_->latest = std::move(value);
    if (!state_->waiting && apply(*state_)) {
      state_->waiting = true;
      state_->loop.spawn(wait(state_));
    }
  }

 private:
  struct State {
    net::Loop& loop;
    net::Milliseconds pause;
    std::function<void(const T&)> apply;
    std::optional<T> latest, applied;
    bool waiting;  ///< a pause is under way
  };

  /// False: there is nothing new.
  static bool apply(State& s) {
    if (!s.apply || s.latest == s.applied) {
      return false;
    }
    s.applied = s.latest;
    s.apply(*s.applied);
    return true;
  }
  static net::Task<void> wait(std::shared_ptr<State> state) {
    do {
      co_await state->loop.sleep(state->pause);
    } while (apply(*state));
    state->waiting = false;
  }

  std::shared_ptr<State> state_;
};

}  // namespace goblin::lab
