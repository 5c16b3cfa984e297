// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// Replies as text for people, or as JSON for scripts (--json).
#pragma once

#include <ostream>

#include "core/wire/client.hpp"

namespace goblin::cli {

void print(std::ostream& out, const wire::ReplyBody& body, bool json);
/// A JSON string literal, quotes included.
std::string json_text(const std::string& text);

}  // namespace goblin::cli
