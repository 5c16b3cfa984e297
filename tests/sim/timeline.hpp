// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The virtual clock: what happens when, what has happened (as a trace and its hash), and the first
// thing that must not have happened.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

namespace goblin::sim {

using Micros = std::uint64_t;

class Timeline {
 public:
  using Step = std::function<void()>;

  [[nodiscard]] Micros now() const { return now_; }
  /// Steps of one time run in the order in which they were asked for.
  void after(Micros delay, Step step);
  [[nodiscard]] bool idle() const { return events_.empty(); }
  [[nodiscard]] Micros next() const { return events_.top().when; }
  void run_next();
  /// Moves the clock, never back.
  void advance(Micros now);

  /// Something happened. `what` must be a literal: it is counted under its address' text.
  void note(std::string_view what, std::initializer_list<std::uint64_t> numbers = {});
  /// Counts only; not part of the trace.
  void count(std::string_view what) { ++tally_[std::string(what)]; }
  [[nodiscard]] const std::map<std::string, std::uint64_t>& tally() const { return tally_; }
  /// Over every note and its time: equal for equal histories.
  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  /// Says each note on stdout.
  void print(bool on) { print_ = on; }
  [[nodiscard]] bool prints() const { return print_; }

  /// The first one stays; the history ends with it.
  void violate(std::string what);
  [[nodiscard]] const std::string& violation() const { return violation_; }
  [[nodiscard]] bool sound() const { return violation_.empty(); }

 private:
  struct Event {
    Micros when;
    std::uint64_t order;
    Step step;
    bool operator>(const Event& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };

  Micros now_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::map<std::string, std::uint64_t> tally_;
  std::uint64_t hash_ = 0xcbf29ce484222325;
  bool print_ = false;
  std::string violation_;
};

}  // namespace goblin::sim
