// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "gemm_peak.hpp"

#include <algorithm>
#include <barrier>
#include <ctime>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace goblin::bench {
namespace {

constexpr long kRounds = 4'000'000;
constexpr int kSums = 12;  // independent: 12 ≥ latency 4 · 2 per cycle

#if defined(__x86_64__)
volatile double unknown = 0.5;  // read and written so that the compiler cannot do without the loop

#define GOBLIN_PEAK(NAME, TARGET, VECTOR, SET, FMA)                         \
  [[gnu::target(TARGET)]] void NAME() {                                     \
    VECTOR sums[kSums];                                                     \
    const VECTOR x = SET(unknown);                                          \
    for (auto& sum : sums) sum = x;                                         \
    for (long round = 0; round < kRounds; ++round) {                        \
      _Pragma("GCC unroll 12") for (auto& sum : sums) sum = FMA(x, x, sum); \
    }                                                                       \
    for (int i = 1; i < kSums; ++i) sums[0] += sums[i];                     \
    unknown = static_cast<double>(sums[0][0]) > 1e300 ? 0.25 : 0.5;         \
  }
GOBLIN_PEAK(peak_f32_512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps)
GOBLIN_PEAK(peak_f64_512, "avx512f", __m512d, _mm512_set1_pd, _mm512_fmadd_pd)
GOBLIN_PEAK(peak_f32_256, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps)
GOBLIN_PEAK(peak_f64_256, "avx2,fma", __m256d, _mm256_set1_pd, _mm256_fmadd_pd)
#undef GOBLIN_PEAK

struct Loop {
  void (*run)();
  double lanes;
};
Loop choose(Real real) {
  const bool wide = __builtin_cpu_supports("avx512f");
  if (real == Real::kF32) return wide ? Loop{&peak_f32_512, 16} : Loop{&peak_f32_256, 8};
  return wide ? Loop{&peak_f64_512, 8} : Loop{&peak_f64_256, 4};
}

/// Processor time: a peak that other programs do not lower.
double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}
#endif

}  // namespace

double fma_peak(Real real, int threads) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("fma")) return 0;
  const Loop loop = choose(real);
  double best = 0;
  for (int attempt = 0; attempt < 5; ++attempt) {
    std::barrier start(threads);
    std::vector<double> seconds(static_cast<std::size_t>(threads));
    {
      std::vector<std::jthread> others;
      for (double& mine : seconds) {
        others.emplace_back([&] {
          start.arrive_and_wait();
          const double begin = thread_seconds();
          loop.run();
          mine = thread_seconds() - begin;
        });
      }
    }
    double sum = 0;
    for (const double mine : seconds) sum += 2.0 * loop.lanes * kSums * kRounds / mine * 1e-9;
    best = std::max(best, sum);
  }
  return best;
#else
  static_cast<void>(real);
  static_cast<void>(threads);
  return 0;
#endif
}

}  // namespace goblin::bench
