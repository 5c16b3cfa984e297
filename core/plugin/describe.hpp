// SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
// A kind's description: from the plugin's table to a value, and the check of a specification
// against it.
#pragma once

#include <span>

#include "core/wire/runner.hpp"
#include "goblin/abi/plugin.h"
#include "goblin/error.hpp"

namespace goblin::plugin {

/// Copies what a kind says of itself. kInvalidArgument names the kind and what is wrong: too many
/// entries, an empty or doubled name, a default out of its range.
Result<wire::KindDescription> describe(const goblin_kind_v1& kind);

/// Do these inputs and parameters fit the description? Inputs that are left out have dtype 0; there
/// are as many as described, and so are the parameters. kInvalidArgument names the argument, its
/// value and what was expected.
Result<void> check_specification(const wire::KindDescription& kind,
                                 std::span<const wire::TensorSpec> inputs,
                                 std::span<const wire::Value> params);

}  // namespace goblin::plugin
