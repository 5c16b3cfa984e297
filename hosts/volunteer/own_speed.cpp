// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "hosts/volunteer/own_speed.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

namespace goblin::volunteer {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kEach{5};
constexpr std::size_t kLoops = 4096;

// Independent sums, as many as hide the latency of a multiply-add in the widest registers (two
// units of 16 floats, four cycles: 128) and still fit the registers of the narrowest level.
#if defined(__x86_64__)
#define GOBLIN_LEVELS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GOBLIN_LEVELS
#endif

template <typename T, std::size_t kSums>
[[gnu::always_inline]] inline void multiply_add(T* sums, T factor) {
  T local[kSums];
  std::copy_n(sums, kSums, local);
  for (std::size_t loop = 0; loop < kLoops; ++loop) {
    for (std::size_t i = 0; i < kSums; ++i) {
      local[i] = local[i] * factor + factor;
    }
  }
  std::copy_n(local, kSums, sums);
}

GOBLIN_LEVELS void multiply_add_f32(float* sums, float factor) {
  multiply_add<float, 192>(sums, factor);
}
GOBLIN_LEVELS void multiply_add_f64(double* sums, double factor) {
  multiply_add<double, 96>(sums, factor);
}

/// Operations a second of one thread.
template <typename T, std::size_t kSums>
double rate_of(void (*run)(T*, T)) {
  std::vector<T> sums(kSums, T{1});
  volatile T factor = T{0.5};
  run(sums.data(), factor);
  const auto start = Clock::now();
  double operations = 0;
  Clock::duration took{};
  do {
    run(sums.data(), factor);
    operations += 2.0 * kSums * kLoops;
    took = Clock::now() - start;
  } while (took < kEach);
  volatile T kept = sums[0];
  (void)kept;
  return operations / std::chrono::duration<double>(took).count();
}

}  // namespace

OwnSpeed measure_own_speed(unsigned threads) {
  std::vector<OwnSpeed> each(std::max(threads, 1u));
  std::vector<std::jthread> workers;
  for (OwnSpeed& one : each) {
    workers.emplace_back([&one] {
      one.f32 = rate_of<float, 192>(multiply_add_f32);
      one.f64 = rate_of<double, 96>(multiply_add_f64);
    });
  }
  workers.clear();
  OwnSpeed all;
  for (const OwnSpeed& one : each) {
    all.f32 += one.f32;
    all.f64 += one.f64;
  }
  return all;
}

}  // namespace goblin::volunteer
