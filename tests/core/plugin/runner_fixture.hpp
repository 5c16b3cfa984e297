// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A loop, shared memory and the real goblin-runner for tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/net/loop.hpp"
#include "core/plugin/runner_client.hpp"
#include "core/plugin/sealed_file.hpp"

// ASSERT_* leave by `return`, which a coroutine cannot.
#define CO_ASSERT_TRUE(result)                                                 \
  if (!(result)) {                                                             \
    ADD_FAILURE() << #result << ": " << ::goblin::testing::error_text(result); \
    co_return;                                                                 \
  }

namespace goblin::testing {

template <typename T>
std::string error_text(const Result<T>& result) {
  return result ? "" : std::string(code_name(result.error().code)) + ": " + result.error().message;
}

/// Shared memory of a test, as a daemon would lend it.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t size) : fd_(::memfd_create("test", MFD_CLOEXEC)), size_(size) {
    EXPECT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(size)), 0);
    data_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    EXPECT_NE(data_, MAP_FAILED);
  }
  ~SharedMemory() { ::munmap(data_, size_); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  template <typename T>
  [[nodiscard]] T* as(std::size_t offset = 0) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(data_) + offset);
  }

 private:
  net::UniqueFd fd_;
  std::size_t size_;
  void* data_ = nullptr;
};

class RunnerFixture : public ::testing::Test {
 protected:
  using Client = std::unique_ptr<plugin::RunnerClient>;
  static constexpr net::Milliseconds kLong{20'000};

  void SetUp() override {
    // In a runner that ASan watches, signals stay signals.
    const char* given = std::getenv("ASAN_OPTIONS");
    const std::string options = (given == nullptr ? std::string() : std::string(given) + ":") +
                                "handle_segv=0:handle_abort=0";
    ::setenv("ASAN_OPTIONS", options.c_str(), 1);
  }
  void TearDown() override {
    loop_.reset();
    // Whatever happened, no child is left, not even a dead one.
    errno = 0;
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
  }

  /// Runs one coroutine to its end, on a loop of its own.
  void run(const std::function<net::Task<void>()>& body) {
    loop_.reset();
    loop_ = std::move(*net::Loop::create(1));
    loop_->spawn(run_and_stop(body));
    loop_->run();
  }
  net::Task<void> run_and_stop(std::function<net::Task<void>()> body) {
    co_await body();
    loop_->stop();
  }

  static std::string plugin_path(const std::string& name) {
    return std::string(GOBLIN_TEST_PLUGINS) + "/" + name + ".so";
  }
  static plugin::RunnerOptions options() {
    plugin::RunnerOptions options;
    options.runner = GOBLIN_TEST_RUNNER;
    options.backend = GOBLIN_TEST_BACKEND;
    return options;
  }
  /// Starts a runner with one of the test plugins.
  net::Task<Result<Client>> start(std::string name, plugin::RunnerOptions options) {
    GOBLIN_CO_TRY(const net::UniqueFd fd, plugin::make_sealed_memfd_from(plugin_path(name)));
    options.plugin_fd = fd.get();
    co_return co_await plugin::RunnerClient::start(*loop_, options);
  }

  static wire::Execute batch(wire::RunnerTask task) {
    wire::Execute request;
    request.tasks.push_back(std::move(task));
    return request;
  }
  static wire::Check check_request(wire::RunnerTask task) {
    wire::Check request;
    request.tasks.emplace_back();
    request.tasks[0].task = std::move(task);
    return request;
  }
  static wire::Compare compare_request(wire::RunnerTask task, wire::TensorAt other) {
    wire::Compare request;
    request.canonical = std::move(task);
    request.other.push_back(std::move(other));
    return request;
  }

  static wire::TensorAt vector_at(std::uint32_t segment, std::uint64_t offset,
                                  std::int64_t length) {
    wire::TensorAt at;
    at.dtype = GOBLIN_F64;
    at.shape = {length};
    at.segment = segment;
    at.offset = offset;
    return at;
  }

  std::unique_ptr<net::Loop> loop_;
};

}  // namespace goblin::testing
