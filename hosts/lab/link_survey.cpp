// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/lab/link_survey.hpp"

#include <algorithm>
#include <deque>
#include <limits>

namespace goblin::lab {
namespace {

constexpr std::size_t kAlone = 4;
constexpr std::chrono::seconds kGood{60};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// One direction: corrects the hosts' rates in `out`, answers that of the lab node's link.
double settle(const std::map<scheduler::HostId, LinkMeasure>& together,
              const std::map<scheduler::HostId, LinkMeasure>& alone, double LinkMeasure::*rate,
              std::map<scheduler::HostId, LinkMeasure>& out) {
  double sum = 0;
  for (const auto& [host, measure] : together) sum += measure.*rate;
  double seen_together = 0;
  double seen_alone = 0;
  std::vector<double> rates;
  for (const auto& [host, measure] : alone) {
    seen_together += together.at(host).*rate;
    seen_alone += measure.*rate;
    rates.push_back(measure.*rate);
  }
  const bool shared = together.size() > 1 && !alone.empty() && seen_together < kShared * seen_alone;
  for (auto& [host, measure] : out) {
    const auto known = alone.find(host);
    if (known != alone.end()) {
      measure.*rate = std::max(measure.*rate, known->second.*rate);
    } else if (shared) {
      measure.*rate = std::max(measure.*rate, median(rates));
    }
  }
  return shared ? sum : std::numeric_limits<double>::infinity();
}

}  // namespace

Links links_of(const std::map<scheduler::HostId, LinkMeasure>& together,
               const std::map<scheduler::HostId, LinkMeasure>& alone) {
  Links links;
  links.hosts = together;
  for (auto& [host, measure] : links.hosts) {
    if (const auto known = alone.find(host); known != alone.end()) {
      measure.rtt_s = std::min(measure.rtt_s, known->second.rtt_s);
    }
  }
  links.lab.to_hosts = settle(together, alone, &LinkMeasure::to_host, links.hosts);
  links.lab.from_hosts = settle(together, alone, &LinkMeasure::from_host, links.hosts);
  return links;
}

net::Task<Links> LinkSurvey::survey(std::map<scheduler::HostId, Measure> hosts) {
  while (!free_.is_set()) {
    (void)co_await free_.wait();
  }
  std::vector<scheduler::HostId> asked;
  for (const auto& [host, measure] : hosts) {
    asked.push_back(host);
  }
  if (measured_ && loop_.now() - *measured_ < kGood && asked == asked_) {
    co_return last_;
  }
  free_.reset();
  struct Leave {
    net::Event& free;
    ~Leave() { free.set(); }
  } const leave{free_};
  struct One {
    explicit One(net::Loop& loop) : done(loop) {}
    scheduler::HostId host = 0;
    net::Task<Result<LinkMeasure>> task;
    std::optional<Result<LinkMeasure>> value;
    net::Event done;
    net::Task<void> waiter;
  };
  std::deque<One> all;
  for (const auto& [host, measure] : hosts) {
    One& one = all.emplace_back(loop_);
    one.host = host;
    one.task = measure();
    one.waiter = net::store_and_set(one.task, one.value, one.done);
    one.waiter.start();
  }
  std::map<scheduler::HostId, LinkMeasure> together;
  for (One& one : all) {
    while (!one.done.is_set()) {
      (void)co_await one.done.wait();
    }
    if (*one.value) {
      together.emplace(one.host, **one.value);
    }
  }
  std::map<scheduler::HostId, LinkMeasure> alone;
  for (const auto& [host, measure] : together) {
    if (alone.size() == kAlone || together.size() == 1) {
      break;
    }
    auto task = hosts.at(host)();
    const auto value = co_await task;
    if (value) {
      alone.emplace(host, *value);
    }
  }
  last_ = links_of(together, alone);
  asked_ = std::move(asked);
  measured_ = loop_.now();
  co_return last_;
}

}  // namespace goblin::lab
