// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Errors of system calls, in words. For this folder's .cpp files only.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "goblin/error.hpp"

namespace goblin::jail {

/// "what: Operation not permitted".
inline std::string reason(const std::string& what) { return what + ": " + std::strerror(errno); }

inline tl::unexpected<Error> refused(const std::string& what) {
  return fail(Code::kUnavailable, "the runner cannot confine itself: " + reason(what));
}

}  // namespace goblin::jail
