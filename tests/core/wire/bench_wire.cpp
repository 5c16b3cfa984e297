// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Nanoseconds per task of encoding and decoding a batch of tiny tasks.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "core/wire/runner.hpp"

namespace {

using namespace goblin::wire;

constexpr std::size_t kBatch = 128;
volatile std::size_t sink;

/// Median over many runs, per task of a batch.
template <typename F>
double nanoseconds(F&& run) {
  std::vector<double> times;
  for (int i = 0; i < 2000; ++i) {
    const auto start = std::chrono::steady_clock::now();
    sink = run();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    times.push_back(took.count() / kBatch);
  }
  std::nth_element(times.begin(), times.begin() + 1000, times.end());
  return times[1000];
}

template <typename T, typename Decode>
void measure(const char* name, const T& message, Decode decode) {
  const Bytes bytes = encode(message);
  if (!decode(bytes)) std::abort();
  std::printf("%-10s %6zu bytes a task, encode %6.1f ns, decode %6.1f ns\n", name,
              bytes.size() / kBatch, nanoseconds([&] { return encode(message).size(); }),
              nanoseconds([&] { return std::size_t{decode(bytes).has_value()}; }));
}

}  // namespace

int main() {
  Digest digest;
  digest.bytes.fill(7);
  const TensorSpec spec{GOBLIN_F32, {4, 4}};

  Lease lease{1,  2,      digest, 0,    {Value::of(std::int64_t{3}), Value::of(0.5)},
              {}, {spec}, 1e3,    4096, 1000};
  lease.inputs = {TensorRef{spec, {}, 0}, TensorRef{spec, digest, kNotInline}};
  measure("Leases", Leases{std::vector<Lease>(kBatch, lease)},
          [](const Bytes& b) { return decode_leases(b); });

  const TaskResult result{1, GOBLIN_OK, {TensorRef{spec, {}, 0}}, 5, 6, 7};
  measure("Results", Results{std::vector<TaskResult>(kBatch, result)},
          [](const Bytes& b) { return decode_results(b); });

  const TensorAt at{GOBLIN_F32, {4, 4}, {}, 1, 64};
  const RunnerTask task{1, 0, lease.params, {at, at}, {at}};
  measure("Execute", Execute{std::vector<RunnerTask>(kBatch, task)},
          [](const Bytes& b) { return decode_execute(b); });
  measure("Executed", Executed{std::vector<ExecutedTask>(kBatch, ExecutedTask{1, 0, {}, 5}), 1, 2},
          [](const Bytes& b) { return decode_executed(b); });

  const View view{1, 0, 0, 64, GOBLIN_F32, {4, 4}, {16, 4}};
  const PlannedTask planned{1, lease.params, {view, view}, {spec}, 1e3, 4096};
  measure("Planned", Planned{0, {}, 1, std::vector<PlannedTask>(kBatch, planned)},
          [](const Bytes& b) { return decode_planned(b); });
  return 0;
}
