// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <iterator>
#include <new>

#include "backends/common/backend_table.hpp"
#include "backends/common/tensor.hpp"
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

constexpr const goblin_operator_v1* kOperators[] = {&kMatmul};

goblin_status_v1 open_backend(const goblin_backend_v1* self, const goblin_backend_v1** opened,
                              goblin_text_v1* message);
void close_backend(const goblin_backend_v1* opened);

/// What `open` gives: the backend's table, operators with threads to share, and these threads.
struct Opened : goblin_backend_v1 {
  Operator operators[std::size(kOperators)];
  const goblin_operator_v1* list[std::size(kOperators)];
  Workers workers;
};

struct Lists {
  static const goblin_operator_v1* const* operators(const goblin_backend_v1* self);

  static DeviceText device(std::uint64_t index) {
    return {levels().list[index]->name, levels().list[index]->description};
  }
  static std::uint64_t device_count() { return levels().count; }
  static std::uint64_t operator_count() { return std::size(kOperators); }
};

constexpr goblin_backend_v1 kBackend =
    BackendTable<Lists>::make("cpu", &open_backend, &close_backend);

const goblin_operator_v1* const* Lists::operators(const goblin_backend_v1* self) {
  return self == &kBackend ? kOperators : static_cast<const Opened*>(self)->list;
}

goblin_status_v1 open_backend(const goblin_backend_v1*, const goblin_backend_v1** opened,
                              goblin_text_v1* message) {
  if (opened == nullptr) {
    return refuse(message, GOBLIN_INVALID_ARGUMENT, "cpu: open needs a place for the table");
  }
  auto* const made = new (std::nothrow) Opened{kBackend, {}, {}, {}};
  if (made == nullptr) return refuse(message, GOBLIN_EXHAUSTED, "cpu: no memory to open it");
  for (std::size_t i = 0; i < std::size(kOperators); ++i) {
    made->operators[i] = {*kOperators[i], &made->workers};
    made->list[i] = &made->operators[i];
  }
  *opened = made;
  return GOBLIN_OK;
}

void close_backend(const goblin_backend_v1* opened) {
  if (opened != &kBackend) delete static_cast<const Opened*>(opened);
}

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
