// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// One call into a plugin.
#pragma once

#include <array>
#include <cstring>
#include <new>
#include <string>

#include "goblin/abi/types.h"
#include "hosts/runner/confine.hpp"

namespace goblin::runner {

/// What a call came to.
struct Outcome {
  std::int32_t status = GOBLIN_OK;
  std::string message;
  [[nodiscard]] bool ok() const { return status == GOBLIN_OK; }
};

inline Outcome outcome(const Error& error) {
  return {static_cast<std::int32_t>(error.code), error.message};
}

/// `call(goblin_text_v1*)` → status. No exception gets through, though none should come.
template <typename Call>
Outcome call_plugin(Call&& call) {
  std::array<char, 2048> text{};
  goblin_text_v1 message{text.data(), text.size()};
  Outcome result;
  try {
    reset_float_environment();
    result.status = call(&message);
    result.message.assign(text.data(), strnlen(text.data(), text.size()));
  } catch (const std::bad_alloc&) {
    result = {GOBLIN_EXHAUSTED, "out of memory"};
  } catch (...) {
    result = {GOBLIN_INTERNAL, "the plugin let an exception out; build it with GOBLIN_PLUGIN"};
  }
  if (result.status < GOBLIN_OK || result.status > GOBLIN_INTERNAL) {
    result = {GOBLIN_INTERNAL,
              "the plugin answered the unknown status " + std::to_string(result.status)};
  }
  if (!result.ok() && result.message.empty()) {
    result.message = "the plugin refused without saying why";
  }
  return result;
}

}  // namespace goblin::runner
