// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/conformance/runner.hpp"

#include <utility>

#include "core/plugin/sealed_file.hpp"

namespace goblin::conformance {
namespace {

// Private memory of plugin and backend: a plugin that believes a hostile size is refused memory
// rather than given all there is.
constexpr std::uint64_t kMemory = std::uint64_t{1} << 30;
// Between two cancellations: the first may come before the runner has the request.
constexpr net::Milliseconds kAgain{20};

}  // namespace

Result<std::unique_ptr<Runner>> Runner::start(const Setup& setup, std::uint32_t threads,
                                              bool other_backend) {
  std::unique_ptr<Runner> runner(new Runner);
  runner->deadline_ = setup.deadline;
  GOBLIN_TRY(runner->loop_, net::Loop::create(1));
  runner->thread_ = std::thread([loop = runner->loop_.get()] { loop->run(); });
  GOBLIN_TRY_VOID(runner->wait<Result<void>>(
      [&] { return runner->start_client(setup, threads, other_backend); }));
  return runner;
}

net::Task<Result<void>> Runner::start_client(const Setup& setup, std::uint32_t threads,
                                             bool other) {
  GOBLIN_CO_TRY(const net::UniqueFd fd, plugin::make_sealed_memfd_from(setup.plugin));
  plugin::RunnerOptions options;
  options.runner = setup.runner;
  options.backend = other ? setup.other_backend : setup.backend;
  options.threads = threads;
  options.memory_bytes = kMemory;
  options.plugin_fd = fd.get();
  GOBLIN_CO_TRY(client_, co_await plugin::RunnerClient::start(*loop_, options));
  co_return Result<void>();
}

net::Task<bool> Runner::close() {
  if (client_) {
    client_->kill();
    co_await client_->exited();
    client_.reset();
  }
  co_return true;
}

Runner::~Runner() {
  if (loop_) {
    (void)wait<bool>([&] { return close(); });
    loop_->stop();
    thread_.join();
  }
}

Result<void> Runner::map(const Arena& arena) {
  return wait<Result<void>>([&] { return map_arena(arena); });
}

net::Task<Result<void>> Runner::map_arena(const Arena& arena) {
  for (const std::uint32_t wanted : {kReadOnly, kWritable}) {
    GOBLIN_CO_TRY(const std::uint32_t got,
                  co_await client_->map(arena.fd(), arena.size(), wanted == kWritable));
    if (got != wanted) {
      co_return fail(Code::kInternal,
                     "segment " + std::to_string(got) + " is not " + std::to_string(wanted));
    }
  }
  co_return Result<void>();
}

Result<wire::Done> Runner::finish() {
  return wait<Result<wire::Done>>([&] { return client_->finish(deadline_); });
}

Result<wire::Executed> Runner::execute_for(const wire::Execute& request, Deadline patience) {
  return wait<Result<wire::Executed>>([&] { return execute_and_cancel(request, patience); });
}

net::Task<Result<wire::Executed>> Runner::execute_and_cancel(const wire::Execute& request,
                                                             Deadline patience) {
  net::Task<Result<wire::Executed>> task = client_->execute(request, deadline_);
  std::optional<Result<wire::Executed>> answer;
  net::Event done(*loop_);
  net::Task<void> running = net::store_and_set(task, answer, done);
  running.start();
  bool answered = co_await done.wait_for(patience);
  while (!answered) {
    client_->cancel_work();
    answered = co_await done.wait_for(kAgain);
  }
  co_return std::move(*answer);
}

}  // namespace goblin::conformance
