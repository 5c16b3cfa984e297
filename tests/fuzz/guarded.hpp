// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Bytes with a page before and behind them that nobody may touch: a foreign library, which no
// sanitizer has instrumented, dies of reading too far all the same.
#pragma once

#include "tests/fuzz/target.hpp"

namespace goblin::fuzz {

/// The longest that guarded() takes.
inline constexpr std::size_t kMaxGuarded = 1u << 20;

enum class Against : std::uint8_t { kStart, kEnd };
/// A copy of `bytes` that begins or ends at the edge of its pages; valid until the next call.
ByteView guarded(ByteView bytes, Against edge);

}  // namespace goblin::fuzz
