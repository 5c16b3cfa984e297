// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The runner's requests, one after another.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "core/plugin/library.hpp"
#include "core/wire/frame.hpp"
#include "core/wire/runner.hpp"
#include "hosts/runner/plan.hpp"
#include "hosts/runner/segments.hpp"
#include "hosts/runner/socket.hpp"

namespace goblin::runner {

/// Which requests are no longer wanted. Written by the thread that reads the socket.
struct Cancellation {
  std::atomic<std::uint64_t> received{0};   ///< number of the newest request
  std::atomic<std::uint64_t> cancelled{0};  ///< requests up to this one are cancelled
  std::atomic<std::uint64_t> running{0};    ///< number of the one that runs

  [[nodiscard]] bool now() const {
    return running.load(std::memory_order_relaxed) <= cancelled.load(std::memory_order_relaxed);
  }
};

struct Answer {
  wire::FrameType type;
  wire::Bytes message;
};

/// Work thread only.
class Session {
 public:
  /// Between the installation's backend and the plugin; the most threads that there may be.
  using CloseJail = std::function<Result<void>(std::uint32_t threads)>;
  Session(const Cancellation& cancellation, CloseJail close_jail)
      : cancellation_(cancellation), close_jail_(std::move(close_jail)) {}
  /// The answer, if the request has one. An error means that the parent broke the protocol.
  Result<std::optional<Answer>> handle(Incoming frame);

 private:
  wire::RunnerLoaded load(const wire::RunnerLoad& request, const std::vector<net::UniqueFd>& fds);
  wire::Executed execute(const wire::Execute& request);
  wire::Validated validate(const wire::Validate& request);
  wire::PlanOpened plan_open(const wire::PlanOpen& request);
  wire::Accepted accept(const wire::Accept& request);
  wire::Checked check(const wire::Check& request);
  wire::Checked compare(const wire::Compare& request);

  /// A task whose kind exists and whose tensors lie in their segments.
  struct Mapped {
    const goblin_kind_v1* kind = nullptr;
    std::vector<goblin_value_v1> params;
    Tensors inputs, outputs;
    goblin_task_v1 task{};
  };
  Result<std::unique_ptr<Mapped>> map_task(const wire::RunnerTask& task, Access inputs,
                                           Access outputs) const;
  Result<const goblin_kind_v1*> kind(std::uint32_t index) const;
  [[nodiscard]] goblin_exec_v1 exec() const;

  const Cancellation& cancellation_;
  CloseJail close_jail_;
  std::optional<plugin::PluginLibrary> plugin_;
  std::optional<plugin::BackendLibrary> backend_;
  std::uint32_t threads_ = 1;
  Segments segments_;
  std::unique_ptr<Plan> plan_;  // last: its segments must outlive it
};

}  // namespace goblin::runner
