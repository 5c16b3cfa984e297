// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "tests/sim/timeline.hpp"

#include <algorithm>
#include <cstdio>

namespace goblin::sim {

void Timeline::after(Micros delay, Step step) {
  events_.push({now_ + delay, ++order_, std::move(step)});
}

void Timeline::run_next() {
  // The queue gives out constant references only; the event leaves it before it runs.
  Step step = std::move(const_cast<Event&>(events_.top()).step);
  advance(events_.top().when);
  events_.pop();
  step();
}

void Timeline::advance(Micros now) { now_ = std::max(now_, now); }

void Timeline::note(std::string_view what, std::initializer_list<std::uint64_t> numbers) {
  const auto mix = [this](std::uint64_t value) {
    hash_ = (hash_ ^ value) * 0x9e3779b97f4a7c15;
    hash_ ^= hash_ >> 29;
  };
  mix(now_);
  for (const char c : what) mix(static_cast<unsigned char>(c));
  for (const std::uint64_t number : numbers) mix(number);
  count(what);
  if (!print_) return;
  std::printf("%12.6f  %-22.*s", double(now_) * 1e-6, int(what.size()), what.data());
  for (const std::uint64_t number : numbers) std::printf(" %llu", (unsigned long long)number);
  std::printf("\n");
}

void Timeline::violate(std::string what) {
  if (!violation_.empty()) return;
  violation_ = "at " + std::to_string(double(now_) * 1e-6) + " s: " + std::move(what);
  if (print_) std::printf("VIOLATION %s\n", violation_.c_str());
}

}  // namespace goblin::sim
