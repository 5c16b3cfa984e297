// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <iterator>

#include "backends/common/backend_table.hpp"
#include "backends/cpu/operators.hpp"

namespace goblin::backends::cpu {
namespace {

Levels find_levels() {
  Levels found{};
#if defined(__x86_64__)
  // These also ask whether the operating system keeps the registers.
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("fma")) {
    found.list[found.count++] = &kAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    found.list[found.count++] = &kAvx2;
  }
  if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt")) {
    found.list[found.count++] = &kBaseline;
  }
#else
  found.list[found.count++] = &kBaseline;
#endif
  return found;
}

struct Lists {
  static constexpr const goblin_operator_v1* kOperators[] = {&kMatmul};

  static DeviceText device(std::uint64_t index) {
    return {levels().list[index]->name, levels().list[index]->description};
  }
  static std::uint64_t device_count() { return levels().count; }
  static const goblin_operator_v1* const* operators() { return kOperators; }
  static std::uint64_t operator_count() { return std::size(kOperators); }
};

constexpr goblin_backend_v1 kBackend = BackendTable<Lists>::make("cpu");

}  // namespace

const Levels& levels() {
  static const Levels found = find_levels();
  return found;
}

}  // namespace goblin::backends::cpu

extern "C" [[gnu::visibility("default")]] const goblin_backend_v1* goblin_backend_entry_v1() {
  using namespace goblin::backends::cpu;  // NOLINT
  return levels().count > 0 ? &kBackend : nullptr;
}
