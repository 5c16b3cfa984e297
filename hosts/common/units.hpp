// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Sizes, times and shares as people write them. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "goblin/error.hpp"

namespace goblin::hosts {

/// "4096", "256MiB", "1.5 GB": B, KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (of 1024).
/// Fractions are rounded down to a byte. kInvalidArgument says what was meant to stand there.
Result<std::uint64_t> parse_bytes(std::string_view text);
/// "250ms", "5s", "1.5m", "2h", "7d". A number without a unit is refused, unless it is 0.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);
/// "50%" is 0.5; "0%" to "100%".
Result<double> parse_percent(std::string_view text);
/// "true" or "false".
Result<bool> parse_bool(std::string_view text);
/// Decimal digits only.
Result<std::uint64_t> parse_u64(std::string_view text);

/// "0 B", "1023 B", "1.5 GiB".
std::string format_bytes(std::uint64_t bytes);
/// "250 ms", "5.0 s", "1 m 30 s", "2 h 0 m", "3 d 4 h".
std::string format_duration(std::chrono::milliseconds duration);

}  // namespace goblin::hosts
