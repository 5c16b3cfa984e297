// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// The kinds that tests/contract tries: a new one joins with one line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace goblin::test {

struct KindUnderTest {
  const char* plugin;        ///< path
  const char* job;           ///< a small job, as hosts/conformance/job.hpp reads it
  std::uint64_t ignore = 0;  ///< bit i: output i is not the same each time
};

// Jobs small enough for seconds, large enough to be cut: a kind may have several.
inline const std::vector<KindUnderTest>& kinds_under_test() {
  static const std::vector<KindUnderTest> kinds{
      {GOBLIN_TEST_MATMUL, "matmul/1 a=f32[70,300] b=f32[300,50]"},
      {GOBLIN_TEST_MATMUL, "matmul/1 a=f64[9,9000] b=f64[9000,7]"},           // split along k
      {GOBLIN_TEST_MATMUL, "matmul/1 a=i8[5,6,40] b=i8[5,40,9]"},             // batches, i32 out
      {GOBLIN_TEST_MATMUL, "matmul/1 a=f16[33] b=f16[3,33,2] out_dtype=12"},  // f32 out
      {GOBLIN_TEST_MATMUL, "matmul/1 a=c64[4,0] b=c64[0,3]"},                 // nothing to do
      {GOBLIN_TEST_PLUGINS "/tiny-tasks.so", "tiny-tasks/1 tasks=300"},
      {GOBLIN_TEST_PLUGINS "/tiny-tasks.so", "tiny-tasks/1 tasks=60 in_flight=3", 0b10},
      {GOBLIN_TEST_PLUGINS "/pi-estimate.so", "pi-estimate/1 samples=9000000"},
  };
  return kinds;
}

}  // namespace goblin::test
