// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// One task of one product, as a host returns it and the lab's check judges it.
#pragma once

#include "tests/plugins/matmul/support.hpp"

namespace goblin::matmul::test {

inline std::array<std::uint8_t, 32> seed_of(std::mt19937_64& random) {
  std::array<std::uint8_t, 32> seed{};
  for (auto& byte : seed) byte = static_cast<std::uint8_t>(random());
  return seed;
}

struct Work {
  Task task;
  Array a, b, c;

  Work(goblin_dtype_v1 dtype, std::int64_t m, std::int64_t n, std::int64_t k, Data data,
       std::mt19937_64& random, std::int64_t out = 0)
      : Work(filled(dtype, {m, k}, data, random), filled(dtype, {k, n}, data, random), out) {}
  Work(Array left, Array right, std::int64_t out = 0) : a(std::move(left)), b(std::move(right)) {
    c = whole_product(a.tensor, b.tensor, out, cpu());
    task.params = {0, 0, 0};
    task.inputs = {a.tensor, b.tensor};
    task.outputs = {c.tensor};
  }
  void honest() { c = whole_product(a.tensor, b.tensor, 0, cpu()), task.outputs = {c.tensor}; }
  [[nodiscard]] Product product() const { return {a.tensor, b.tensor, c.tensor}; }

  [[nodiscard]] Verdict check(std::mt19937_64& random) const { return check(seed_of(random)); }
  [[nodiscard]] Verdict check(const std::array<std::uint8_t, 32>& seed) const {
    MatmulKind kind;
    const goblin_exec_v1 exec = one_thread();
    auto verdict = kind.check(task, Device(cpu(), exec), Seed(seed));
    EXPECT_TRUE(verdict) << verdict.error().message;
    return *verdict;
  }
  [[nodiscard]] float* c32() const { return c.tensor.data<float>(); }
};

}  // namespace goblin::matmul::test
