// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A runner that is asked one thing after another, each call blocking: what a test wants. The loop
// that the client needs runs on a thread of its own.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/net/loop.hpp"
#include "core/plugin/runner_client.hpp"
#include "hosts/conformance/arena.hpp"

namespace goblin::conformance {

/// What is tested, and with what.
struct Setup {
  std::string runner;         ///< path of goblin-runner
  std::string backend;        ///< path of the backend's library
  std::string other_backend;  ///< a second one that must give the same bits; empty: none
  std::string plugin;         ///< path of the plugin
  std::uint64_t seed = 1;
  net::Milliseconds deadline{10'000};  ///< a call that takes longer counts as hanging
};

/// One thread.
class Runner {
 public:
  using Deadline = net::Milliseconds;
  static Result<std::unique_ptr<Runner>> start(const Setup& setup, std::uint32_t threads = 1,
                                               bool other_backend = false);
  /// Ends the process.
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// Maps the arena twice; the numbers of these segments are the same in every runner.
  Result<void> map(const Arena& arena);
  static constexpr std::uint32_t kReadOnly = 1;
  static constexpr std::uint32_t kWritable = 2;

  [[nodiscard]] const std::vector<wire::KindDescription>& kinds() const { return client_->kinds(); }

  /// An error means that the runner is gone, and says why: the plugin crashed, hung, or worse.
  Result<wire::Validated> validate(const wire::Validate& request) {
    return ask(&plugin::RunnerClient::validate, request);
  }
  Result<wire::PlanOpened> plan_open(const wire::PlanOpen& request) {
    return ask(&plugin::RunnerClient::plan_open, request);
  }
  Result<wire::Planned> plan_next(const wire::PlanNext& request) {
    return ask(&plugin::RunnerClient::plan_next, request);
  }
  Result<wire::Accepted> accept(const wire::Accept& request) {
    return ask(&plugin::RunnerClient::accept, request);
  }
  Result<wire::Done> recall(const wire::Recall& request) {
    return ask(&plugin::RunnerClient::recall, request);
  }
  Result<wire::Done> finish();
  Result<wire::Checked> check(const wire::Check& request) {
    return ask(&plugin::RunnerClient::check, request);
  }
  Result<wire::Checked> compare(const wire::Compare& request) {
    return ask(&plugin::RunnerClient::compare, request);
  }
  Result<wire::Executed> execute(const wire::Execute& request) {
    return ask(&plugin::RunnerClient::execute, request);
  }
  /// The same, cancelled when it has not answered after `patience`. kUnavailable (and the runner is
  /// gone) when it goes on until the deadline.
  Result<wire::Executed> execute_for(const wire::Execute& request, Deadline patience);

 private:
  Runner() = default;
  template <typename Reply, typename Request>
  Result<Reply> ask(net::Task<Result<Reply>> (plugin::RunnerClient::*method)(const Request&,
                                                                             Deadline),
                    const Request& request) {
    return wait<Result<Reply>>(
        [&]() -> net::Task<Result<Reply>> { return (client_.get()->*method)(request, deadline_); });
  }
  /// Runs what `make` gives on the loop's thread, to its end.
  template <typename T>
  T wait(const std::function<net::Task<T>()>& make) {
    auto promise = std::make_shared<std::promise<T>>();
    auto future = promise->get_future();
    loop_->post([&] { loop_->spawn(keep(make(), promise)); });
    return future.get();
  }
  template <typename T>
  static net::Task<void> keep(net::Task<T> task, std::shared_ptr<std::promise<T>> promise) {
    T value = co_await task;
    promise->set_value(std::move(value));
  }
  net::Task<Result<void>> start_client(const Setup& setup, std::uint32_t threads, bool other);
  net::Task<Result<void>> map_arena(const Arena& arena);
  net::Task<Result<wire::Executed>> execute_and_cancel(const wire::Execute& request,
                                                       Deadline patience);
  net::Task<bool> close();

  Deadline deadline_{};
  std::unique_ptr<net::Loop> loop_;
  std::unique_ptr<plugin::RunnerClient> client_;
  std::thread thread_;
};

}  // namespace goblin::conformance
