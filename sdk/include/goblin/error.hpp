// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Errors as values: what a peer, a disk, a device or a user can cause comes back as a Result.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#include "goblin/abi/types.h"

namespace goblin {

/// Closed codes, named by what the caller can do; the same numbers as GOBLIN_* of the ABI.
enum class Code : std::int32_t {
  kInvalidArgument = GOBLIN_INVALID_ARGUMENT,  ///< mend the argument that the message names
  kNotFound = GOBLIN_NOT_FOUND,                ///< ask for something that exists
  kUnsupported = GOBLIN_UNSUPPORTED,           ///< use another version, backend or option
  kUnavailable = GOBLIN_UNAVAILABLE,           ///< try again later or elsewhere
  kExhausted = GOBLIN_EXHAUSTED,               ///< offer more memory, disk or time, or ask for less
  kCorrupt = GOBLIN_CORRUPT,                   ///< bytes are not what they claim: fetch them again
  kCancelled = GOBLIN_CANCELLED,               ///< somebody asked for it to stop
  kInternal = GOBLIN_INTERNAL,                 ///< a bug on the side that says so
};

/// "invalid_argument", "not_found", …
constexpr std::string_view code_name(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kNotFound:
      return "not_found";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kExhausted:
      return "exhausted";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kCancelled:
      return "cancelled";
    case Code::kInternal:
      return "internal";
  }
  return "internal";
}

/// The code of a status that came over the ABI or the wire; unknown numbers are kInternal.
constexpr Code code_from_status(std::int32_t status) {
  return status >= GOBLIN_INVALID_ARGUMENT && status <= GOBLIN_INTERNAL ? static_cast<Code>(status)
                                                                        : Code::kInternal;
}

/// What failed. The message says what, which value, what was expected, what to do; it is for people
/// of the machine or the lab where it arose: between lab node, hosts and coordinator only the code
/// travels.
struct Error {
  Code code = Code::kInternal;
  std::string message;

  /// The same error, seen from one level higher: "context: message".
  [[nodiscard]] Error with_context(std::string_view context) const& {
    return {code, std::string(context) + ": " + message};
  }
};

template <typename T>
using Result = tl::expected<T, Error>;

/// `return fail(Code::kNotFound, "…");`
[[nodiscard]] inline tl::unexpected<Error> fail(Code code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}
[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace goblin

#define GOBLIN_CONCAT_INNER(a, b) a##b
#define GOBLIN_CONCAT(a, b) GOBLIN_CONCAT_INNER(a, b)

/// GOBLIN_TRY(auto x, f()): x = the value of f(), or returns f()'s error.
/// GOBLIN_CO_TRY does the same in a coroutine.
#define GOBLIN_TRY(declaration, ...)                                                \
  auto GOBLIN_CONCAT(goblin_try_, __LINE__) = (__VA_ARGS__);                        \
  if (!GOBLIN_CONCAT(goblin_try_, __LINE__))                                        \
    return ::goblin::fail(std::move(GOBLIN_CONCAT(goblin_try_, __LINE__)).error()); \
  declaration = std::move(*GOBLIN_CONCAT(goblin_try_, __LINE__))
#define GOBLIN_CO_TRY(declaration, ...)                                                \
  auto GOBLIN_CONCAT(goblin_try_, __LINE__) = (__VA_ARGS__);                           \
  if (!GOBLIN_CONCAT(goblin_try_, __LINE__))                                           \
    co_return ::goblin::fail(std::move(GOBLIN_CONCAT(goblin_try_, __LINE__)).error()); \
  declaration = std::move(*GOBLIN_CONCAT(goblin_try_, __LINE__))
/// The same for Result<void>.
#define GOBLIN_TRY_VOID(...)                                      \
  if (auto GOBLIN_CONCAT(goblin_void_, __LINE__) = (__VA_ARGS__); \
      !GOBLIN_CONCAT(goblin_void_, __LINE__))                     \
  return ::goblin::fail(std::move(GOBLIN_CONCAT(goblin_void_, __LINE__)).error())
#define GOBLIN_CO_TRY_VOID(...)                                   \
  if (auto GOBLIN_CONCAT(goblin_void_, __LINE__) = (__VA_ARGS__); \
      !GOBLIN_CONCAT(goblin_void_, __LINE__))                     \
  co_return ::goblin::fail(std::move(GOBLIN_CONCAT(goblin_void_, __LINE__)).error())
