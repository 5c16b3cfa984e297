// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A staging folder whose disk can be made to hang: large files wait at a gate.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/store/staging.hpp"

namespace goblin::lab::test {

class GatedStaging final : public store::Staging {
 public:
  GatedStaging(store::Staging& below, std::uint64_t large) : below_(below), large_(large) {}

  Result<File> create(std::uint64_t size) override {
    pass(size);
    return noted(below_.create(size));
  }
  Result<File> create_resident(std::uint64_t size) override {
    pass(size);
    return noted(below_.create_resident(size));
  }
  Result<File> reopen(std::uint64_t number, Access access) override {
    const std::lock_guard lock(mutex_);
    if (unopened > 0) {
      --unopened;
      return fail(Code::kExhausted, "too many open files");
    }
    return below_.reopen(number, access);
  }
  Result<void> remove(std::uint64_t number) override {
    bool is_large = false;
    {
      const std::lock_guard lock(mutex_);
      is_large = std::erase(large_files_, number) != 0;
    }
    if (is_large) {
      pass(large_);
    }
    return below_.remove(number);
  }
  [[nodiscard]] Result<std::vector<std::uint64_t>> list() const override { return below_.list(); }
  [[nodiscard]] std::uint64_t used_bytes() const override { return below_.used_bytes(); }

  int unopened = 0;  ///< so many files cannot be opened again

  void open_gate(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }
  [[nodiscard]] std::size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }
  /// Threads that did something with a large file.
  [[nodiscard]] std::vector<std::thread::id> threads() const {
    const std::lock_guard lock(mutex_);
    return threads_;
  }

 private:
  void pass(std::uint64_t size) {
    if (size < large_) {
      return;
    }
    std::unique_lock lock(mutex_);
    threads_.push_back(std::this_thread::get_id());
    ++waiting_;
    // A thread that nobody lets in gives up: then the test fails, but ends.
    changed_.wait_for(lock, std::chrono::seconds(20), [this] { return open_; });
    --waiting_;
  }
  Result<File> noted(Result<File> file) {
    if (file && file->size >= large_) {
      const std::lock_guard lock(mutex_);
      large_files_.push_back(file->number);
    }
    return file;
  }

  store::Staging& below_;
  const std::uint64_t large_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  std::size_t waiting_ = 0;
  std::vector<std::uint64_t> large_files_;
  std::vector<std::thread::id> threads_;
};

}  // namespace goblin::lab::test
