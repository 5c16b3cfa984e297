// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include "plugins/matmul/check_kernels.hpp"

namespace goblin::matmul {

namespace baseline {
extern const CheckKernels kKernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const CheckKernels kKernels;
}
namespace avx512 {
extern const CheckKernels kKernels;
}
#endif

CheckLevels check_levels() {
  CheckLevels levels{};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v4")) levels.level[levels.count++] = &avx512::kKernels;
  if (__builtin_cpu_supports("x86-64-v3")) levels.level[levels.count++] = &avx2::kKernels;
#endif
  levels.level[levels.count++] = &baseline::kKernels;
  return levels;
}

const CheckKernels& check_kernels() {
  static const CheckKernels& best = *check_levels().level[0];
  return best;
}

}  // namespace goblin::matmul
