// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Included before Cap'n Proto where Clang compiles (CMakeLists.txt): version 0.9 leaves this
// comparison to C++20's rewritten operators, which Clang, as the standard now says, does not take
// beside an operator!=.
#pragma once

#include <kj/string.h>

namespace kj {
inline bool operator==(const char* a, const StringPtr& b) { return b == StringPtr(a); }
inline bool operator!=(const char* a, const StringPtr& b) { return !(a == b); }
}  // namespace kj
