// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A submission held against the description of its kind, before anything is stored or sent.
#pragma once

#include <vector>

#include "core/wire/client.hpp"

namespace goblin::lab {

struct ResolvedSpec {
  std::vector<wire::JobInput> inputs;  ///< in the description's order; dtype 0: left out
  std::vector<wire::Value> params;     ///< in the description's order, defaults filled in
};

/// kInvalidArgument names the argument, its value, what the kind expects and what to do.
Result<ResolvedSpec> resolve_spec(const wire::KindDescription& kind, const wire::Submit& submit);

/// "matmul/1" or "matmul" (newest). kInvalidArgument for other forms.
struct KindName {
  std::string name;
  std::optional<std::uint32_t> version;
};
Result<KindName> parse_kind_name(const std::string& text);

/// "(2, 3)"
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace goblin::lab
