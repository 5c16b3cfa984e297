// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
#include <iterator>

#include "backends/common/backend_table.hpp"
#include "backends/reference/operators.hpp"

namespace goblin::backends::reference {
namespace {

struct Lists {
  static constexpr const goblin_operator_v1* kOperators[] = {&kMatmul};

  static DeviceText device(std::uint64_t) {
    return {"scalar", "One element after the other, by the book"};
  }
  static std::uint64_t device_count() { return kDeviceCount; }
  static const goblin_operator_v1* const* operators(const goblin_backend_v1*) { return kOperators; }
  static std::uint64_t operator_count() { return std::size(kOperators); }
};

constexpr goblin_backend_v1 kBackend = BackendTable<Lists>::make("reference");

}  // namespace
}  // namespace goblin::backends::reference

extern "C" [[gnu::visibility("default")]] const goblin_backend_v1* goblin_backend_entry_v1() {
  return &goblin::backends::reference::kBackend;
}
