// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Backends, arrays, and a lab node with hosts in one thread, for the tests of plugins/matmul.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "goblin/kind.hpp"
#include "goblin/numerics/dot.hpp"
#include "plugins/matmul/kind.hpp"
#include "plugins/matmul/planner.hpp"
#include "plugins/matmul/task.hpp"

namespace goblin::matmul::test {

inline const goblin_backend_v1& load_backend(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  auto entry =
      reinterpret_cast<goblin_backend_entry_fn_v1>(dlsym(library, GOBLIN_BACKEND_ENTRY_V1));
  return *entry();
}
inline const goblin_backend_v1& reference() {
  static const goblin_backend_v1& backend = load_backend(GOBLIN_TEST_REFERENCE);
  return backend;
}
inline const goblin_backend_v1& cpu() {
  static const goblin_backend_v1& backend = load_backend(GOBLIN_TEST_CPU);
  return backend;
}
inline goblin_exec_v1 one_thread() {
  goblin_exec_v1 exec{};
  exec.struct_size = sizeof exec;
  exec.threads = 1;
  return exec;
}

/// A tensor with memory of its own.
struct Array {
  std::shared_ptr<std::vector<std::complex<double>>> memory;  // for its alignment
  Tensor tensor;

  Array() = default;
  explicit Array(const TensorSpec& spec) {
    const Tensor type(spec);
    memory = std::make_shared<std::vector<std::complex<double>>>(type.size_bytes() / 16 + 1);
    tensor = Tensor(spec, memory->data());
  }
  [[nodiscard]] std::string bytes() const {
    return {reinterpret_cast<const char*>(tensor.bytes()), tensor.size_bytes()};
  }
};

enum class Data { kNormal, kUniform, kHeavy, kCancelling, kConstant, kSmallIntegers };

inline double draw(Data data, std::mt19937_64& random, std::int64_t at) {
  std::uniform_real_distribution<double> unit(0, 1);
  std::normal_distribution<double> normal;
  switch (data) {
    case Data::kNormal:
      return normal(random);
    case Data::kUniform:
      return unit(random);
    case Data::kHeavy: {
      const double x = normal(random);
      return x / std::sqrt(std::max(1e-6, unit(random)));
    }
    case Data::kCancelling:
      return (at % 2 == 0 ? 1 : -1) * (1000 + unit(random));
    case Data::kConstant:
      return 0.1;
    case Data::kSmallIntegers:
      return std::floor(unit(random) * 7) - 3;
  }
  return 0;
}

/// Fills elements of any dtype; integers get random bits, bool 0 or 1 (mostly 0).
inline void fill(const Tensor& t, Data data, std::mt19937_64& random) {
  std::int64_t at = 0;
  const std::int64_t length = t.rank() == 0 ? 1 : t.dim(t.rank() - 1);
  for_each_row(t, [&](std::byte* row, std::int64_t stride) {
    for (std::int64_t i = 0; i < length; ++i, ++at) {
      std::byte* to = row + i * stride;
      auto put = [&](auto value) { std::memcpy(to, &value, sizeof value); };
      switch (t.dtype()) {
        case GOBLIN_F32:
          put(static_cast<float>(draw(data, random, at)));
          break;
        case GOBLIN_F64:
          put(draw(data, random, at));
          break;
        case GOBLIN_F16:
          put(numerics::round_to_f16(static_cast<float>(draw(data, random, at))));
          break;
        case GOBLIN_BF16:
          put(numerics::round_to_bf16(static_cast<float>(draw(data, random, at))));
          break;
        case GOBLIN_C64:
          put(std::complex<float>(static_cast<float>(draw(data, random, at)),
                                  static_cast<float>(draw(data, random, at + 1))));
          break;
        case GOBLIN_C128:
          put(std::complex<double>(draw(data, random, at), draw(data, random, at + 1)));
          break;
        case GOBLIN_BOOL:
          put(static_cast<unsigned char>(random() % 16 == 0));
          break;
        default: {
          const std::uint64_t bits = random();
          std::memcpy(to, &bits, t.item_size());
        }
      }
    }
    return true;
  });
}

inline Array filled(goblin_dtype_v1 dtype, std::vector<std::int64_t> shape, Data data,
                    std::mt19937_64& random) {
  Array array({dtype, std::move(shape)});
  fill(array.tensor, data, random);
  return array;
}

/// The same elements in other axes order.
inline Tensor transposed(const Tensor& t, std::vector<std::size_t> axes) {
  goblin_tensor_v1 raw = t.raw();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    raw.shape[i] = t.dim(axes[i]);
    raw.strides[i] = t.stride(axes[i]);
  }
  return Tensor(raw);
}
/// Every `step`th element along an axis, from the last one down when negative.
inline Tensor stepped(const Tensor& t, std::size_t axis, std::int64_t step) {
  goblin_tensor_v1 raw = t.raw();
  if (step < 0 && t.dim(axis) > 0) {
    raw.data = t.bytes() + (t.dim(axis) - 1) * t.stride(axis);
  }
  const std::int64_t width = step < 0 ? -step : step;
  raw.shape[axis] = (t.dim(axis) + width - 1) / width;
  raw.strides[axis] = t.stride(axis) * step;
  return Tensor(raw);
}

inline Capacity capacity(std::uint64_t memory_mib, std::uint64_t hosts = 1,
                         std::uint64_t min_mib = 0) {
  Capacity c;
  c.memory_bytes = memory_mib << 20;
  c.min_memory_bytes = (min_mib != 0 ? min_mib : memory_mib) << 20;
  c.hosts = hosts;
  c.threads = 1;
  return c;
}

/// One product, whole, by a backend's operator on every item of the batch.
inline Array whole_product(const Tensor& a, const Tensor& b, std::int64_t out_dtype,
                           const goblin_backend_v1& backend) {
  Job job;
  job.params = {Value(out_dtype)};
  job.inputs = {a, b};
  auto problem = make_problem(a, b, out_dtype);
  if (!problem) throw std::runtime_error(problem.error().message);
  Array c(problem->result);
  std::memset(c.tensor.bytes(), 0, c.tensor.size_bytes());
  if (problem->trivial()) return c;
  const goblin_exec_v1 exec = one_thread();
  const Device device(backend, exec);
  auto matrix = [](const Tensor& t, std::int64_t offset, std::int64_t r, std::int64_t rs,
                   std::int64_t n, std::int64_t cs) {
    goblin_tensor_v1 raw{};
    raw.data = t.bytes() + offset;
    raw.dtype = t.dtype();
    raw.rank = 2;
    raw.shape[0] = r, raw.shape[1] = n;
    raw.strides[0] = rs, raw.strides[1] = cs;
    return Tensor(raw);
  };
  const Problem& p = *problem;
  for (std::int64_t item = 0; item < p.items(); ++item) {
    std::int64_t oa = 0, ob = 0, oc = 0, rest = item;
    for (std::size_t i = p.batch.size(); i-- > 0;) {
      const std::int64_t at = rest % p.batch[i];
      rest /= p.batch[i];
      oa += at * p.a.batch[i], ob += at * p.b.batch[i], oc += at * p.c.batch[i];
    }
    const Tensor in[2] = {matrix(a, oa, p.m, p.a.row, p.k, p.a.column),
                          matrix(b, ob, p.k, p.b.row, p.n, p.b.column)};
    const Tensor out[1] = {matrix(c.tensor, oc, p.m, p.c.row, p.n, p.c.column)};
    if (auto done = device.run("matmul", 1, in, out); !done) {
      throw std::runtime_error(done.error().message);
    }
  }
  return c;
}

/// A lab node: one job, its planner, results that were kept, and what hosts were sent.
class Lab {
 public:
  struct Held {
    PlannedTask planned;
    std::vector<Array> inputs;
    Array output;
  };

  Lab(const Tensor& a, const Tensor& b, const Capacity& capacity, std::int64_t out_dtype = 0) {
    job.params = {Value(out_dtype)};
    job.inputs = {a, b};
    auto validated = kind.validate(job);
    if (!validated) throw std::runtime_error(validated.error().message);
    c = Array(validated->outputs[0]);
    std::memset(c.tensor.bytes(), 0xa5, c.tensor.size_bytes());
    job.outputs = {c.tensor};
    open(capacity, std::nullopt);
  }

  void open(const Capacity& capacity, std::optional<std::span<const std::byte>> state) {
    goblin_planner_services_v1 services{};
    services.struct_size = sizeof services;
    services.context = this;
    services.read_result = [](void* self, std::uint64_t task, std::uint32_t output,
                              goblin_tensor_v1* out) -> goblin_status_v1 {
      auto& results = static_cast<Lab*>(self)->kept;
      const auto found = results.find(task);
      if (found == results.end() || output != 0) return GOBLIN_NOT_FOUND;
      *out = found->second.output.tensor.raw();
      return GOBLIN_OK;
    };
    auto made = kind.make_planner(job, capacity, Services(services), state);
    if (!made) throw std::runtime_error(made.error().message);
    planner = std::move(*made);
  }
  /// A new planner from the old one's state, told of what was accepted.
  void restart(const Capacity& capacity) {
    const std::vector<std::byte> state = planner->state();
    open(capacity, state);
    for (const auto& [id, task] : merged) {
      auto done = planner->restore(task);
      ASSERT_TRUE(done) << done.error().message;
    }
    for (const auto& [id, held] : kept) {
      auto done = planner->accept(held.planned, std::vector<Tensor>{held.output.tensor});
      ASSERT_TRUE(done) << done.error().message;
      ASSERT_EQ(*done, Disposition::kKeep);
    }
  }

  /// Asks the planner; the tasks in the order of their emission.
  Result<Progress> next(const Capacity& capacity, std::uint64_t most,
                        std::vector<PlannedTask>& out) {
    goblin_task_sink_v1 raw{};
    raw.struct_size = sizeof raw;
    raw.context = &out;
    raw.max_tasks = most;
    raw.emit = [](void* context, const goblin_planned_task_v1* task,
                  goblin_text_v1*) -> goblin_status_v1 {
      static_cast<std::vector<PlannedTask>*>(context)->emplace_back(*task);
      return GOBLIN_OK;
    };
    TaskSink sink(raw);
    return planner->next(capacity, sink);
  }

  /// A view's elements, row-major, as a host gets them. Fails the test when it leaves its source.
  Array gather(const View& view) {
    const Tensor& source = job.inputs.at(view.raw.index);
    Tensor window(view.raw.spec);
    window.raw().data = source.bytes() + view.raw.offset;
    EXPECT_EQ(window.dtype(), source.dtype());
    auto extent = [](const Tensor& t) {
      std::pair<const std::byte*, const std::byte*> reach{t.bytes(), t.bytes()};
      for (std::size_t i = 0; i < t.rank(); ++i) {
        const std::int64_t far = (t.dim(i) - 1) * t.stride(i);
        (far < 0 ? reach.first : reach.second) += far;
      }
      return reach;
    };
    const auto inner = extent(window);
    const auto outer = extent(source);
    EXPECT_GE(inner.first, outer.first);
    EXPECT_LE(inner.second, outer.second);
    Array copy(window.spec());
    std::byte* to = copy.tensor.bytes();
    const std::int64_t length = window.dim(window.rank() - 1);
    for_each_row(window, [&](std::byte* row, std::int64_t stride) {
      for (std::int64_t i = 0; i < length; ++i, to += window.item_size()) {
        std::memcpy(to, row + i * stride, window.item_size());
      }
      return true;
    });
    return copy;
  }

  /// A host computes the task.
  Held compute(const PlannedTask& planned, const goblin_backend_v1& backend) {
    Held held;
    held.planned = planned;
    Task task;
    task.params = planned.params;
    for (const View& view : planned.inputs) {
      held.inputs.push_back(gather(view));
      task.inputs.push_back(held.inputs.back().tensor);
    }
    held.output = Array(planned.outputs.at(0));
    task.outputs = {held.output.tensor};
    const goblin_exec_v1 exec = one_thread();
    auto done = kind.execute(task, Device(backend, exec));
    EXPECT_TRUE(done) << done.error().message;
    return held;
  }

  /// The lab's check, on windows straight on the job's inputs.
  Verdict check(const Held& held, const goblin_backend_v1& backend, std::uint8_t seed_byte) {
    Task task;
    task.id = held.planned.id;
    task.params = held.planned.params;
    for (const View& view : held.planned.inputs) {
      Tensor window(view.raw.spec);
      window.raw().data = job.inputs.at(view.raw.index).bytes() + view.raw.offset;
      task.inputs.push_back(window);
    }
    task.outputs = {held.output.tensor};
    std::array<std::uint8_t, 32> seed{};
    seed.fill(seed_byte);
    const goblin_exec_v1 exec = one_thread();
    auto verdict = kind.check(task, Device(backend, exec), Seed(seed));
    EXPECT_TRUE(verdict) << verdict.error().message;
    return *verdict;
  }

  void accept(Held held) {
    auto done = planner->accept(held.planned, std::vector<Tensor>{held.output.tensor});
    ASSERT_TRUE(done) << done.error().message;
    if (*done == Disposition::kMerged) {
      merged[held.planned.id] = held.planned;
    } else {
      held.inputs.clear();
      kept[held.planned.id] = std::move(held);
    }
  }

  void finish() {
    auto done = planner->finish();
    ASSERT_TRUE(done) << done.error().message;
  }

  MatmulKind kind;
  Job job;
  Array c;
  std::unique_ptr<Planner> planner;
  std::map<std::uint64_t, PlannedTask> merged;
  std::map<std::uint64_t, Held> kept;
};

}  // namespace goblin::matmul::test
