// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The backend and device that a task may compute with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "goblin/abi/backend.h"
#include "goblin/tensor.hpp"

namespace goblin {

/// Valid for one call of execute or check. run() and parallel_for(): one thread at a time.
class Device {
 public:
  Device(const goblin_backend_v1& backend, const goblin_exec_v1& exec)
      : backend_(backend), exec_(exec) {}

  [[nodiscard]] const goblin_backend_v1& backend() const { return backend_; }
  [[nodiscard]] const goblin_exec_v1& exec() const { return exec_; }
  [[nodiscard]] std::uint32_t threads() const { return std::max(exec_.threads, 1u); }
  [[nodiscard]] bool fast() const { return exec_.numerics == GOBLIN_NUMERICS_FAST; }
  /// True when the work is no longer wanted. Poll it every few milliseconds; any thread.
  [[nodiscard]] bool cancelled() const {
    return exec_.cancelled != nullptr && exec_.cancelled(exec_.context) != 0;
  }

  /// Runs an operator of the backend: canonical bits unless fast(). Scratch is found and kept for
  /// the next run. kUnsupported names the backend and the operator when it has none.
  [[nodiscard]] Result<void> run(const std::string& name, std::uint32_t version,
                                 std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                                 std::span<const Value> attributes = {}) const {
    const goblin_operator_v1* op = backend_.find_operator(&backend_, name.c_str(), version);
    if (op == nullptr) {
      return fail(Code::kUnsupported,
                  "backend '" + std::string(backend_.name) + "' has no operator " + name + "/" +
                      std::to_string(version) + "; install a newer backend or use another one");
    }
    const Raw raw(inputs, outputs, attributes);
    char text[512] = "";
    goblin_text_v1 message{text, sizeof text};
    auto failed = [&](goblin_status_v1 status) {
      return fail(code_from_status(status), name + "/" + std::to_string(version) + ": " + text);
    };
    if (auto status = op->check(op, &raw.operands, &message); status != GOBLIN_OK) {
      return failed(status);
    }
    std::uint64_t need = 0;
    if (auto status = op->scratch_bytes(op, &raw.operands, &exec_, &need, &message);
        status != GOBLIN_OK) {
      return failed(status);
    }
    if (need > scratch_size_) {
      scratch_.reset();
      scratch_size_ = 0;
      // Rounded to the alignment, as aligned_alloc wants it.
      const std::uint64_t bytes = (need + 63) & ~std::uint64_t{63};
      scratch_.reset(bytes < need ? nullptr : std::aligned_alloc(64, bytes));
      if (!scratch_) throw std::bad_alloc();
      scratch_size_ = bytes;
    }
    goblin_exec_v1 exec = exec_;
    exec.scratch = scratch_.get();
    exec.scratch_size = scratch_size_;
    if (auto status = op->run(op, &raw.operands, &exec, &message); status != GOBLIN_OK) {
      return failed(status);
    }
    return {};
  }

  /// Calls body(begin, end) for a partition of [0, count) on up to threads() threads, the caller's
  /// included. The partition depends on `grain` alone, so results do not depend on the threads
  /// when parts are independent. An exception of a part is thrown again here, when all have ended.
  template <typename Body>
  void parallel_for(std::uint64_t count, std::uint64_t grain, Body&& body) const {
    grain = std::max<std::uint64_t>(grain, 1);
    const std::uint64_t parts = count / grain + (count % grain != 0);
    const auto workers = static_cast<std::uint32_t>(std::min<std::uint64_t>(threads(), parts));
    std::mutex mutex;
    std::exception_ptr error;
    std::uint64_t next = 0;
    auto work = [&] {
      for (;;) {
        std::uint64_t part = 0;
        {
          const std::lock_guard lock(mutex);
          if (error || next == parts) return;
          part = next++;
        }
        try {
          body(part * grain, std::min(count, part * grain + grain));
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (!error) error = std::current_exception();
        }
      }
    };
    {
      std::vector<std::jthread> pool;
      for (std::uint32_t i = 1; i < workers; ++i) pool.emplace_back(work);
      work();
    }
    if (error) std::rethrow_exception(error);
  }

 private:
  struct Raw {
    Raw(std::span<const Tensor> in, std::span<const Tensor> out, std::span<const Value> values) {
      for (const Tensor& t : in) inputs.push_back(t.raw());
      for (const Tensor& t : out) outputs.push_back(t.raw());
      for (const Value& v : values) attributes.push_back(v.raw());
      operands = {sizeof operands, inputs.data(),     inputs.size(),    outputs.data(),
                  outputs.size(),  attributes.data(), attributes.size()};
    }
    Raw(const Raw&) = delete;
    Raw& operator=(const Raw&) = delete;
    std::vector<goblin_tensor_v1> inputs, outputs;
    std::vector<goblin_value_v1> attributes;
    goblin_operands_v1 operands{};
  };
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };

  const goblin_backend_v1& backend_;
  const goblin_exec_v1& exec_;
  mutable std::unique_ptr<void, Free> scratch_;
  mutable std::uint64_t scratch_size_ = 0;
};

}  // namespace goblin
