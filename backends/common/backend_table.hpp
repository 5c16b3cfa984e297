// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A goblin_backend_v1 made of two constant lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "goblin/abi/backend.h"

namespace goblin::backends {

struct DeviceText {
  const char* name;
  const char* description;
};

/// `Lists` has static device(index), device_count(), operators(self) (an array of pointers to
/// tables, for as long as the table `self` lives) and operator_count(), all constant.
template <class Lists>
struct BackendTable {
  static std::uint64_t device_count(const goblin_backend_v1*) { return Lists::device_count(); }

  static goblin_status_v1 describe_device(const goblin_backend_v1*, std::uint64_t index,
                                          goblin_device_v1* out) {
    if (out == nullptr || out->struct_size < sizeof(goblin_device_v1)) {
      return GOBLIN_INVALID_ARGUMENT;
    }
    if (index >= Lists::device_count()) return GOBLIN_NOT_FOUND;
    const DeviceText text = Lists::device(index);
    copy(out->name, sizeof out->name, text.name);
    copy(out->description, sizeof out->description, text.description);
    out->memory_bytes = 0;
    return GOBLIN_OK;
  }

  static std::uint64_t operator_count(const goblin_backend_v1*) { return Lists::operator_count(); }

  static const goblin_operator_v1* operator_at(const goblin_backend_v1* self, std::uint64_t index) {
    return index < Lists::operator_count() ? Lists::operators(self)[index] : nullptr;
  }

  static const goblin_operator_v1* find_operator(const goblin_backend_v1* self, const char* name,
                                                 std::uint32_t version) {
    if (name == nullptr) return nullptr;
    for (std::uint64_t i = 0; i < Lists::operator_count(); ++i) {
      const goblin_operator_v1* const candidate = Lists::operators(self)[i];
      if (candidate->version == version && std::strcmp(candidate->name, name) == 0) {
        return candidate;
      }
    }
    return nullptr;
  }

  /// `open` and `close`: null where the backend keeps nothing between calls.
  static constexpr goblin_backend_v1 make(const char* name,
                                          decltype(goblin_backend_v1::open) open = nullptr,
                                          decltype(goblin_backend_v1::close) close = nullptr) {
    return {sizeof(goblin_backend_v1),
            GOBLIN_ABI_MAJOR,
            GOBLIN_ABI_MINOR,
            name,
            &device_count,
            &describe_device,
            &operator_count,
            &operator_at,
            &find_operator,
            open,
            close};
  }

 private:
  static void copy(char* to, std::size_t room, const char* from) {
    const std::size_t length = std::strlen(from) < room ? std::strlen(from) : room - 1;
    std::memcpy(to, from, length);
    std::memset(to + length, 0, room - length);
  }
};

}  // namespace goblin::backends
