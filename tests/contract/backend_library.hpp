// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A backend as a test loads it, and one call of an operator with exactly the scratch it asked for.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <list>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "goblin/abi/backend.h"

namespace goblin::test {

/// Loads a backend for the life of the process; throws with the loader's words.
inline const goblin_backend_v1* load_backend(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  void* const symbol = dlsym(library, GOBLIN_BACKEND_ENTRY_V1);
  if (symbol == nullptr) throw std::runtime_error(dlerror());
  const auto entry = reinterpret_cast<goblin_backend_entry_fn_v1>(symbol);
  if (entry() == nullptr) throw std::runtime_error(std::string(path) + " cannot run here");
  return entry();
}

inline const goblin_backend_v1* reference_backend() {
  static const goblin_backend_v1* const backend = load_backend(GOBLIN_TEST_REFERENCE_BACKEND);
  return backend;
}

/// A backend as a runner uses it: opened, if it can be, until this goes.
class Opened final {
 public:
  explicit Opened(const goblin_backend_v1* table) : table_(table) {
    if (table->open != nullptr && table->open(table, &table_, nullptr) != GOBLIN_OK) {
      throw std::runtime_error(std::string(table->name) + " cannot be opened");
    }
  }
  ~Opened() {
    if (table_->close != nullptr) table_->close(table_);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  [[nodiscard]] const goblin_backend_v1* get() const { return table_; }

 private:
  const goblin_backend_v1* table_;
};

/// The backends that must equal the reference, not opened: a new one joins with one line.
inline const std::vector<const goblin_backend_v1*>& tables_under_test() {
  static const std::vector<const goblin_backend_v1*> tables{load_backend(GOBLIN_TEST_CPU_BACKEND)};
  return tables;
}

/// The same, opened for the life of the process.
inline std::vector<const goblin_backend_v1*> backends_under_test() {
  static const std::list<Opened> opened(tables_under_test().begin(), tables_under_test().end());
  std::vector<const goblin_backend_v1*> backends;
  for (const Opened& backend : opened) backends.push_back(backend.get());
  return backends;
}

/// One device of a backend.
struct Device {
  const goblin_backend_v1* backend;
  std::uint32_t index;
  std::string name;
};

inline std::vector<Device> devices_of(const goblin_backend_v1* backend) {
  std::vector<Device> devices;
  for (std::uint64_t i = 0; i < backend->device_count(backend); ++i) {
    goblin_device_v1 text{};
    text.struct_size = sizeof text;
    if (backend->describe_device(backend, i, &text) != GOBLIN_OK) {
      throw std::runtime_error("describe_device failed");
    }
    devices.push_back({backend, static_cast<std::uint32_t>(i),
                       std::string(backend->name) + "/" + std::string(text.name)});
  }
  return devices;
}

inline std::vector<Device> devices_under_test() {
  std::vector<Device> all;
  for (const auto* backend : backends_under_test()) {
    for (auto& device : devices_of(backend)) all.push_back(std::move(device));
  }
  return all;
}

struct Outcome {
  goblin_status_v1 status;
  std::string message;
};

/// Scratch of exactly the size asked for, then bytes that nobody may touch.
class Scratch final {
 public:
  explicit Scratch(std::uint64_t bytes) : bytes_(bytes) {
    const std::uint64_t room = (bytes + kGuard + 63) / 64 * 64;
    data_.reset(static_cast<unsigned char*>(std::aligned_alloc(64, room)));
    if (!data_) throw std::bad_alloc();
    for (std::uint64_t i = 0; i < room; ++i) data_.get()[i] = kMark;
  }
  [[nodiscard]] void* data() const { return data_.get(); }
  [[nodiscard]] std::uint64_t size() const { return bytes_; }
  [[nodiscard]] bool guard_intact() const {
    for (std::uint64_t i = bytes_; i < bytes_ + kGuard; ++i) {
      if (data_.get()[i] != kMark) return false;
    }
    return true;
  }

 private:
  static constexpr std::uint64_t kGuard = 128;
  static constexpr unsigned char kMark = 0xA5;
  struct Free {
    void operator()(unsigned char* p) const { std::free(p); }
  };
  std::uint64_t bytes_;
  std::unique_ptr<unsigned char, Free> data_;
};

inline goblin_exec_v1 make_exec(std::uint32_t device, std::uint32_t threads) {
  goblin_exec_v1 exec{};
  exec.struct_size = sizeof exec;
  exec.threads = threads;
  exec.device = device;
  exec.numerics = GOBLIN_NUMERICS_CANONICAL;
  return exec;
}

inline goblin_operands_v1 make_operands(const goblin_tensor_v1 (&inputs)[2],
                                        const goblin_tensor_v1& output) {
  goblin_operands_v1 operands{};
  operands.struct_size = sizeof operands;
  operands.inputs = inputs;
  operands.input_count = 2;
  operands.outputs = &output;
  operands.output_count = 1;
  return operands;
}

/// check, scratch_bytes and run of matmul/1 on one device.
inline Outcome run_matmul(const Device& device, const goblin_operands_v1& operands,
                          goblin_exec_v1 exec) {
  char words[512] = "";
  goblin_text_v1 message{words, sizeof words};
  const goblin_operator_v1* const matmul =
      device.backend->find_operator(device.backend, "matmul", 1);
  if (matmul == nullptr) return {GOBLIN_NOT_FOUND, "no matmul/1"};
  goblin_status_v1 status = matmul->check(matmul, &operands, &message);
  if (status != GOBLIN_OK) return {status, words};
  std::uint64_t bytes = 0;
  status = matmul->scratch_bytes(matmul, &operands, &exec, &bytes, &message);
  if (status != GOBLIN_OK) return {status, words};
  const Scratch scratch(bytes);
  exec.scratch = scratch.data();
  exec.scratch_size = scratch.size();
  status = matmul->run(matmul, &operands, &exec, &message);
  if (!scratch.guard_intact()) return {GOBLIN_INTERNAL, "wrote past its scratch"};
  return {status, words};
}

}  // namespace goblin::test
