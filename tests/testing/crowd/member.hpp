// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// One host of a crowd. Loop's thread only; outlives the loop's run.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/log/log.hpp"
#include "core/net/channel.hpp"
#include "hosts/volunteer/config.hpp"
#include "tests/testing/crowd/crowd.hpp"

namespace goblin::testing {

/// What the hosts of a crowd share.
struct Stage {
  Stage(net::Loop& of, const volunteer::HostConfig& settings, const CrowdOptions& told,
        log::Logger log)
      : loop(of), config(settings), options(told), logger(std::move(log)), begun(of) {}

  net::Loop& loop;
  const volunteer::HostConfig& config;
  const CrowdOptions& options;
  log::Logger logger;
  net::Event begun;  ///< the first lease has come
};

class Member final {
 public:
  Member(Stage& stage, std::size_t index, std::shared_ptr<const net::Identity> identity);

  /// Registers with the coordinator and serves the lab node that it names, until the loop ends or
  /// it is this host's time to go.
  net::Task<void> run();

 private:
  net::Task<Result<void>> register_itself();
  net::Task<void> serve(wire::LabAssignment lab);
  net::Task<Result<void>> session(wire::LabAssignment lab);
  net::Task<void> write_loop(std::shared_ptr<net::Channel> channel,
                             std::shared_ptr<net::Queue<net::Frame>> queue);
  net::Task<void> beat(std::shared_ptr<net::Channel> channel);
  net::Task<void> compute_loop();
  net::Task<void> depart();
  void take(const net::Frame& frame);
  /// Answers everything that is queued, in as few frames as hold it.
  void answer_all();
  /// `payload`: the inline bytes of its outputs.
  wire::TaskResult result_of(const wire::Lease& lease, wire::Bytes& payload) const;
  [[nodiscard]] net::Milliseconds duration_of(const wire::Lease& lease) const;
  [[nodiscard]] wire::HostCapacity capacity() const;
  void send(net::Frame frame);
  /// Nothing is heard of it any more.
  [[nodiscard]] bool gone() const { return left_ || silent_; }

  Stage& stage_;
  const Conduct& conduct_;
  std::string name_;
  std::shared_ptr<const net::Identity> identity_;
  std::shared_ptr<net::Channel> coordinator_, lab_;
  std::shared_ptr<net::Queue<net::Frame>> outgoing_;
  std::deque<wire::Lease> queue_;  ///< the first is being computed
  net::Event changed_;
  bool serving_ = false, left_ = false, silent_ = false;
};

}  // namespace goblin::testing
